"""The control plane's virtual address is held by one controller, and can move to another."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Members
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.control import VIRTUAL_ADDRESS
from rackwright.checks.cluster.probes.units import KEEPALIVED, UNITS


def test_keepalived_runs(ask: Ask, expect: Expect) -> None:
    """The address cannot move to a controller on which keepalived does not run."""
    unit = ask(UNITS)[KEEPALIVED]
    expect(unit.described, "active", holds=unit.state == "active")


def test_starts_with_the_node(ask: Ask, expect: Expect) -> None:
    """Without autostart, the address cannot move to this controller after the next boot."""
    unit = ask(UNITS)[KEEPALIVED]
    expect("enabled" if unit.enabled else "disabled", "enabled")


def test_single_holder(ask: Ask, members: Members, expect: Expect) -> None:
    """If two controllers hold the address, nodes reach either at random; if none does, no worker reaches the API."""
    holders = [name for name in members("kube_control_plane") if ask(VIRTUAL_ADDRESS, of=name)]
    expect(", ".join(holders) or "no controller", "one controller", holds=len(holders) == 1)
