"""Only the published port of the jump host is reachable from outside. Each probe is compared with a connection that succeeds."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.access import FROM_EXTERNAL_CONTAINER, FROM_MACHINE, PUBLISHED, SSH_BANNER


def test_published_port_answers(ask: Ask, expect: Expect) -> None:
    """The published port is the only route into the cluster."""
    response = ask(PUBLISHED)
    expect(response or "no answer", f"{SSH_BANNER}…", holds=response.startswith(SSH_BANNER))


def test_host_is_blocked(external: Ask, expect: Expect) -> None:
    """The lab's control machine is not a member of the cluster: it may use the published port only."""
    response = external(FROM_MACHINE, beside=PUBLISHED)
    expect(response or "no answer", "no answer", holds=not response)


def test_blocks_external(external: Ask, expect: Expect) -> None:
    """A container on another network tries the node's SSH port; the jump host answers the same container, so the probe works."""
    response = external(FROM_EXTERNAL_CONTAINER, beside=FROM_EXTERNAL_CONTAINER)
    expect(response or "no answer", "no answer", holds=not response)
