"""Tuning: affected nodes, and whether their memory suffices."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.model.groups import Role
from rackwright.model.node.tuning import PAGE_BYTES, Tuning
from rackwright.model.units import format_bytes
from rackwright.rules.registry import RuleContext, Violation, rule


@rule("tuning-hugepages-room")
def tuning_hugepages_room(case: RuleContext) -> Iterator[Violation]:
    """Huge pages reduce the memory for jobs; a node with too little other memory does not start."""
    tuning = case.cluster.tuning
    if tuning is None:
        return
    wanted, reported = sum(PAGE_BYTES[size] * count for size, count in tuning.hugepages.items()), set[str]()
    for member in case.members:
        if _tuned(tuning, member.group, member.roles) and wanted * 2 > member.memory and member.group not in reported:
            reported.add(member.group)
            cause = f"{format_bytes(wanted)} are more than half the memory of {member.name}, {format_bytes(member.memory)}"
            yield Violation("tuning.hugepages", cause, "reserve fewer, or set other `groups`")


def _tuned(tuning: Tuning, group: str, roles: tuple[Role, ...]) -> bool:
    return group in tuning.groups if tuning.groups else Role.WORKER in roles
