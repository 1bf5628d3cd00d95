"""GitHub Actions runner: registered as declared, running, and with the GPUs of its node. GitHub is not queried."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.runner import NONE, REGISTRATION, VISIBLE_GPUS, Registration
from rackwright.checks.cluster.probes.units import ACTIONS_RUNNER, UNITS


def test_registered(node: Record, cluster: Record, node_stack: Record, ask: Ask, expect: Expect) -> None:
    """Registered with another repository, the node runs its code; not registered, it runs none."""
    found = ask(REGISTRATION)
    planned = Registration(node_stack.runner.url, f"{cluster.stack}-{node.name}")
    expect(found.described if found else NONE, planned.described)


def test_service_active(ask: Ask, expect: Expect) -> None:
    """GitHub queues jobs for a runner that does not listen, and cancels them after a day."""
    unit = ask(UNITS)[ACTIONS_RUNNER]
    expect(unit.described, "active, starts with the node", holds=unit.state == "active" and unit.enabled is True)


def test_gpu_visible_to_jobs(node: Record, ask: Ask, expect: Expect) -> None:
    """A device file that only root may open hides its GPU from jobs, whose user is not root."""
    expect(f"{ask(VISIBLE_GPUS)} GPUs", f"{node.gpus.count} GPUs")
