"""Groups: required roles, and sufficient resources for each role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.derive.layout import capacity_of
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.groups import Group, Role, roles_of
from rackwright.model.units import format_bytes
from rackwright.rules.registry import RuleContext, Violation, rule

_MINIMUM: Final = {
    Role.LOGIN: 256 * 2**20,
    Role.CONTROLLER: 512 * 2**20,
    Role.ACCOUNTING: 1024 * 2**20,
    Role.WORKER: 256 * 2**20,
    Role.STORAGE: 512 * 2**20,
    Role.RUNNER: 2**30,
}
"""Minimum memory of a node with the role, in bytes; accounting includes MariaDB, a runner .NET and Node.js (chosen, not measured)."""
_LAB_LIMIT: Final = 48
"""Number of nodes above which one machine may become too slow for the daemons' time-outs: an estimate, not a measurement."""


@rule("roles-missing")
def roles_missing(case: RuleContext) -> Iterator[Violation]:
    """A group named after a role has the role; any other group must declare its roles."""
    for name, group in case.cluster.groups.items():
        if not roles_of(name, group) and not _is_empty(group):
            hint = did_you_mean(name, [role.value for role in Role])
            yield Violation(f"groups.{name}.roles", f"group {name} has no role", f"add a role, like `roles: [worker]`; {hint}")


@rule("roles-empty")
def roles_empty(case: RuleContext) -> Iterator[Violation]:
    """An empty list looks like `no roles`, but would mean the default: the role of the group's name."""
    for name, group in case.cluster.groups.items():
        if _is_empty(group):
            yield Violation(f"groups.{name}.roles", "the list is empty", "list a role, like `roles: [worker]`, or remove the key")


def _is_empty(group: Group) -> bool:
    return "roles" in group.model_fields_set and not group.roles


@rule("duplicate-role")
def duplicate_role(case: RuleContext) -> Iterator[Violation]:
    """A repeated role has no effect, and may be a typing error for another one."""
    for name, group in case.cluster.groups.items():
        for role in sorted({role for role in group.roles if group.roles.count(role) > 1}):
            yield Violation(f"groups.{name}.roles", f"{role} is listed twice", "remove one, or enter the intended role")


@rule("duplicate-entry")
def duplicate_entry(case: RuleContext) -> Iterator[Violation]:
    """A repeated entry has no effect, and may be a typing error for another one (AWS ParallelCluster: DuplicateNameValidator)."""
    for path, names in _lists(case):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Violation(path, f"{name} is listed twice", "remove one, or enter the intended name")


def _lists(case: RuleContext) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every list of names in the stack file, with its path."""
    for name, partition in case.slurm.partitions.items():
        yield f"scheduler.partitions.{name}.groups", partition.groups
        yield f"scheduler.partitions.{name}.nodes", partition.nodes
        yield f"scheduler.partitions.{name}.allow_accounts", partition.allow_accounts
        yield f"scheduler.partitions.{name}.allow_groups", partition.allow_groups
    for name, group in case.cluster.groups.items():
        yield f"groups.{name}.features", group.features
    for name, declared in case.cluster.storage.items():
        yield f"storage.{name}.servers", declared.servers
        yield f"storage.{name}.clients", declared.clients
    for name, user in case.cluster.users.items():
        yield f"users.{name}.groups", user.groups
    yield "scheduler.backup_controllers", case.slurm.backup_controllers


@rule("group-capacity")
def group_capacity(case: RuleContext) -> Iterator[Violation]:
    """Further nodes would get addresses of the next group's block."""
    for name, group in case.cluster.groups.items():
        capacity = capacity_of(name, group)
        if group.count > capacity:
            cause = f"{group.count} nodes, but the group has {capacity} addresses"
            yield Violation(
                f"groups.{name}.count", cause, f"add `reserved_addresses: {group.count}`, which renumbers the groups after {name}"
            )


@rule("login-missing")
def login_missing(case: RuleContext) -> Iterator[Violation]:
    """All other nodes are reached through login."""
    if not case.is_runner and not case.with_role(Role.LOGIN):
        yield Violation("groups", "no node has the role login, so no other node is reachable", "add `login: {count: 1}`")


@rule("controller-missing")
def controller_missing(case: RuleContext) -> Iterator[Violation]:
    """Without slurmctld no job is scheduled."""
    if not case.is_runner and not case.with_role(Role.CONTROLLER):
        yield Violation("groups", "no node has the role controller", "add it to the login group: `roles: [login, controller, accounting]`")


@rule("worker-missing")
def worker_missing(case: RuleContext) -> Iterator[Violation]:
    """A cluster without workers runs no job."""
    if not case.is_runner and not case.with_role(Role.WORKER):
        yield Violation("groups", "no node has the role worker", "add `worker: {count: 1}`")


@rule("controller-is-worker", Severity.WARNING)
def controller_is_worker(case: RuleContext) -> Iterator[Violation]:
    """Jobs take the CPUs and the memory that slurmctld needs; when it is slow, every user waits. A single machine is exempt."""
    for name, group in case.cluster.groups.items():
        if len(case.members) > 1 and {Role.CONTROLLER, Role.WORKER} <= set(roles_of(name, group)):
            yield Violation(
                f"groups.{name}.roles", f"jobs run beside the controller on group {name}", "create a separate group for workers"
            )


@rule("memory-minimum")
def memory_minimum(case: RuleContext) -> Iterator[Violation]:
    """If a role's daemons do not fit into memory, the kernel kills processes at random."""
    complained: set[str] = set()
    for member in case.members:
        needed = max((_MINIMUM[role] for role in member.roles), default=0)
        path = _memory_path(case, member)
        if member.memory < needed and path not in complained:
            complained.add(path)
            roles = ", ".join(member.roles)
            yield Violation(path, f"{format_bytes(member.memory)} is too little for {roles}", f"use at least {format_bytes(needed)}")


def _memory_path(case: RuleContext, member: DeclaredNode) -> str:
    own = case.cluster.nodes.get(member.name)
    return f"nodes.{member.name}.memory" if own is not None and own.memory is not None else f"groups.{member.group}.memory"


@rule("threads-per-core-lab")
def threads_per_core_lab(case: RuleContext) -> Iterator[Violation]:
    """The containers of a lab share the CPUs of one machine; virtual machines have one socket and one thread on each core."""
    causes = {
        "lab": "the containers of a lab share this machine's CPUs, so that their {} cannot be set",
        "vm": "virtual machines have one socket and one thread on each core, so that their {} cannot be set",
    }
    kind = case.cluster.target.kind
    for name, group in case.cluster.groups.items() if kind in causes else ():
        for key, what in (("threads_per_core", "threads"), ("sockets", "sockets")):
            declared = getattr(group, key)
            if declared is not None and not (kind == "vm" and declared == 1):
                yield Violation(f"groups.{name}.{key}", causes[kind].format(what), f"omit `{key}`; use it on target hosts or aws")


@rule("threads-per-core-cpus")
def threads_per_core_cpus(case: RuleContext) -> Iterator[Violation]:
    """`cpus` counts threads, and every core has as many (slurm.conf(5): CPUs, ThreadsPerCore)."""
    seen: set[str] = set()
    for member in case.members:
        own = case.cluster.nodes.get(member.name)
        path = f"nodes.{member.name}.cpus" if own is not None and own.cpus is not None else f"groups.{member.group}.cpus"
        threads = member.threads_per_core
        if threads is not None and member.cpus % threads and path not in seen:
            seen.add(path)
            cause = f"{member.cpus} CPUs are no whole number of cores with {threads} threads"
            yield Violation(path, cause, f"declare the threads of all cores, for example {member.cpus + 1}, or omit `threads_per_core`")


@rule("cpus-fewer-than-gpus", Severity.WARNING)
def cpus_fewer_than_gpus(case: RuleContext) -> Iterator[Violation]:
    """Every job takes a CPU, so that jobs of one GPU each cannot use all GPUs. Nodes with simulated GPUs are exempt."""
    seen: set[str] = set()
    for member in case.members if "gpu" not in case.cluster.target.simulated else ():
        path = f"groups.{member.group}.cpus"
        if member.gpus is not None and member.gpus.count > member.cpus and path not in seen:
            seen.add(path)
            cause = f"{member.name} has {member.cpus} CPUs for {member.gpus.count} GPUs"
            yield Violation(path, cause, "declare all logical CPUs, as `nproc` prints them; `gpus.count` is that of one node")


@rule("sockets-cores")
def sockets_cores(case: RuleContext) -> Iterator[Violation]:
    """Every socket has as many cores, and a core is `threads_per_core` of the CPUs (slurm.conf(5): Sockets, CoresPerSocket)."""
    seen: set[str] = set()
    for member in case.members:
        path = f"groups.{member.group}.sockets"
        if member.sockets is None or path in seen or case.cluster.target.kind == "lab":
            continue
        threads = member.threads_per_core
        if threads is None:
            cause, hint = "the number of cores is unknown", "add `threads_per_core`: 1, or 2 if simultaneous multithreading (SMT) is on"
        elif member.cpus % threads == 0 and member.cpus // threads % member.sockets:
            cause = f"{member.cpus // threads} cores of {member.name} are no whole number of cores on each of {member.sockets} sockets"
            hint = f"`lscpu` prints the sockets; `cpus` counts all threads, here {threads} of each core"
        else:
            continue
        seen.add(path)
        yield Violation(path, cause, hint)


@rule("lab-size", Severity.WARNING)
def lab_size(case: RuleContext) -> Iterator[Violation]:
    """One machine runs the whole lab."""
    if case.cluster.target.kind == "lab" and len(case.members) > _LAB_LIMIT:
        cause = f"{len(case.members)} containers on one machine"
        yield Violation("groups", cause, f"reduce a count: with more than {_LAB_LIMIT} containers, daemons may time out")


@rule("rolling-batch", Severity.WARNING)
def rolling_batch(case: RuleContext) -> Iterator[Violation]:
    """A batch of all workers is no rolling update."""
    workers = len(case.with_role(Role.WORKER))
    if workers > 1 and case.cluster.rolling.max_unavailable >= workers:
        yield Violation(
            "rolling.max_unavailable",
            f"a batch of {case.cluster.rolling.max_unavailable} includes all {workers} workers",
            "use a smaller batch",
        )
