"""Tuning: affected nodes, whether their memory suffices, and whether the kernel accepts the limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.groups import Role
from rackwright.model.node.tuning import PAGE_BYTES, Limit, Tuning
from rackwright.model.units import format_bytes
from rackwright.rules.registry import RuleContext, Violation, rule

NR_OPEN: Final = 2**20
"""Default of fs.nr_open (proc_sys_fs(5)), which Debian and Ubuntu keep; systemd raises it on RHEL and its relatives."""


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


@rule("tuning-open-files")
def tuning_open_files(case: RuleContext) -> Iterator[Violation]:
    """A limit above fs.nr_open is refused by the kernel (setrlimit(2)), and pam_limits then refuses the logins of all users but root."""
    tuning = case.cluster.tuning
    wanted = tuning.limits.get(Limit.NOFILE) if tuning else None
    if tuning is None or wanted is None:
        return
    if wanted == "unlimited":
        # Until Linux-PAM 1.5.2, pam_limits passes on infinity (pull request 353); Ubuntu 22.04 has 1.4.0.
        yield Violation(
            "tuning.limits.nofile",
            "pam_limits of older systems then refuses all logins but root's",
            f"write a number, for example {NR_OPEN}",
        )
    elif wanted > (most := _nr_open(tuning)):
        cause = f"{wanted} exceeds fs.nr_open, which is {most}: pam_limits would refuse all logins but root's"
        yield Violation("tuning.limits.nofile", cause, f"use at most {most}, or set `tuning: {{sysctl: {{fs.nr_open: {wanted}}}}}`")


def _nr_open(tuning: Tuning) -> int:
    """Return the declared fs.nr_open; the kernel's default where it is not declared or not a number."""
    declared = next((value for name, value in tuning.sysctl.items() if name.replace("/", ".") == "fs.nr_open"), NR_OPEN)
    return int(declared) if str(declared).isdecimal() else NR_OPEN


def _tuned(tuning: Tuning, group: str, roles: tuple[Role, ...]) -> bool:
    return group in tuning.groups if tuning.groups else Role.WORKER in roles
