"""Virtual machines on this machine: what target `vm` cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.targets.vm import VmTarget
from rackwright.model.units import format_bytes
from rackwright.rules.registry import RuleContext, Violation, rule

_ANYBODY: Final = IPv4Network("0.0.0.0/0")
_MOST_MEMORY: Final = 16 * 2**30
"""Memory of all machines together beyond which a laptop swaps. Chosen."""


@rule("vm-kubernetes")
def vm_kubernetes(case: RuleContext) -> Iterator[Violation]:
    """The machine image has no bundle of Kubernetes."""
    if isinstance(case.cluster.target, VmTarget) and case.kubernetes is not None:
        yield Violation("scheduler.kind", "virtual machines of target vm run Slurm only", "use `kind: slurm`, or target lab")


@rule("vm-allowed-cidrs")
def vm_allowed_cidrs(case: RuleContext) -> Iterator[Violation]:
    """QEMU forwards connections from an address of its own, so that a node cannot see where they come from."""
    access = case.cluster.access
    if isinstance(case.cluster.target, VmTarget) and not access.bind_address.is_loopback and _ANYBODY not in access.allowed_cidrs:
        cause = "has no effect: the forwarded port hides the sender's address from the node"
        yield Violation("access.allowed_cidrs", cause, "use `bind_address: 127.0.0.1`, or a firewall of this machine and 0.0.0.0/0 here")


@rule("vm-size", Severity.WARNING)
def vm_size(case: RuleContext) -> Iterator[Violation]:
    """One machine runs all virtual machines, whose memory it needs at the same time."""
    total = sum(member.memory for member in case.members) if isinstance(case.cluster.target, VmTarget) else 0
    if total > _MOST_MEMORY:
        yield Violation("groups", f"the virtual machines have {format_bytes(total)} of memory together", "reduce `count` or `memory`")
