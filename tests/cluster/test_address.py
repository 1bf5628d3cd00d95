"""The address by which all nodes know the control plane is on one of the controllers, and moves when it must."""

from __future__ import annotations

from cluster.probes.control import HELD
from cluster.probes.units import KEEPALIVED, UNITS


def test_keepalived_runs(ask, expect):
    """A controller on which it does not is one less that the address can move to."""
    unit = ask(UNITS)[KEEPALIVED]
    expect(unit.described, "active", holds=unit.state == "active")


def test_starts_with_the_node(ask, expect):
    """After the next boot the address would have one place less to be."""
    unit = ask(UNITS)[KEEPALIVED]
    expect("enabled" if unit.enabled else "disabled", "enabled")


def test_is_held_by_one(ask, members, expect):
    """Held by two, nodes speak with either as chance has it; held by none, no worker reaches the API."""
    holders = [name for name in members("kubernetes_control") if ask(HELD, of=name)]
    expect(", ".join(holders) or "nobody", "one controller", holds=len(holders) == 1)
