"""Instances of target `aws`: each group has an existing type, and declares no more than the type has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.catalog.regions import regions
from rackwright.catalog.site import hint_to_add
from rackwright.derive.nodes import SCHEDULABLE, DeclaredNode
from rackwright.model.finding import Severity, did_you_mean, did_you_mean_model, nearest_of_class
from rackwright.model.groups import Role
from rackwright.model.units import format_bytes
from rackwright.rules.aws.groups import fleets, target
from rackwright.rules.registry import RuleContext, Violation, rule

_FRACTIONAL: Final = frozenset({"g6f", "gr6f"})
"""Families with a part of an L4 in each instance; EC2 counts 0 GPUs in them (DescribeInstanceTypes: GpuInfo)."""
_NAMED: Final = 5
"""Regions in a hint."""


def _family(type_: str) -> str:
    return type_.partition(".")[0]


@rule("instance-type-unknown")
def instance_type_unknown(case: RuleContext) -> Iterator[Violation]:
    """The type determines CPUs, GPUs, interfaces and price."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        if declared.type not in instance_types() and _family(declared.type) not in _FRACTIONAL:
            near = nearest_of_class(declared.type, instance_types())
            similar = [near] if near else [one for one in instance_types() if _family(one) == _family(declared.type)]
            how = f"run `make update-catalog` if AWS has added it, or {hint_to_add('instances', declared.type)}"
            hint = did_you_mean_model(declared.type, similar, how)
            yield Violation(f"target.instances.{name}.type", f"instance type `{declared.type}` is not in the catalogue", hint)


@rule("instance-type-region", Severity.WARNING)
def instance_type_region(case: RuleContext) -> Iterator[Violation]:
    """Not every region sells every type (cluster-toolkit v1.95: test_machine_type_in_zone). The catalogue may be outdated."""
    here = target(case)
    for fleet in fleets(case):
        if here is not None and here.region in regions() and here.region not in fleet.type.regions:
            near = sorted(fleet.type.regions, key=lambda region, here=here.region: (region[:2] != here[:2], region))  # type: ignore[misc]
            cause = f"{fleet.type.name} was not sold in {here.region} on {fleet.type.date}"
            yield Violation(f"{fleet.path}.type", cause, f"sold elsewhere: {', '.join(near[:_NAMED])}")


@rule("instance-type-fractional")
def instance_type_fractional(case: RuleContext) -> Iterator[Violation]:
    """Slurm and the checks count whole GPUs."""
    here = target(case)
    for name, declared in here.instances.items() if here else ():
        if _family(declared.type) in _FRACTIONAL:
            cause = f"{declared.type} has a fraction of a GPU; only whole GPUs can be scheduled"
            yield Violation(f"target.instances.{name}.type", cause, "use a g6 type: g6.xlarge is the smallest with a whole L4")


@rule("instances-missing")
def instances_missing(case: RuleContext) -> Iterator[Violation]:
    """Every node on target `aws` is an instance, so that its group needs a type."""
    here = target(case)
    for name, group in case.cluster.groups.items() if here else ():
        if here and group.count and name not in here.instances:
            yield Violation(
                f"target.instances.{name}", f"is missing: group {name} has no instance type", f"add `{name}: {{type: m7i.large}}`"
            )


@rule("instances-unused")
def instances_unused(case: RuleContext) -> Iterator[Violation]:
    """Instances of a group that does not exist are a typing error or a leftover."""
    here = target(case)
    for name in here.instances if here else ():
        if name not in case.cluster.groups:
            yield Violation(f"target.instances.{name}", "no group has that name", did_you_mean(name, case.cluster.groups))


def _sized(case: RuleContext, key: str) -> Iterator[tuple[str, DeclaredNode, InstanceType]]:
    """Yield groups and nodes of known types with the paths of their hardware; each path once."""
    types = {fleet.name: fleet.type for fleet in fleets(case)}
    seen: set[str] = set()
    for member in case.members:
        own = case.cluster.nodes.get(member.name)
        path = f"nodes.{member.name}.{key}" if own is not None and getattr(own, key) is not None else f"groups.{member.group}.{key}"
        if member.group in types and path not in seen:
            seen.add(path)
            yield path, member, types[member.group]


@rule("instance-gpus")
def instance_gpus(case: RuleContext) -> Iterator[Violation]:
    """An instance has exactly the GPUs of its type."""
    for path, member, type_ in _sized(case, "gpus"):
        declared = (member.gpus.model, member.gpus.count) if member.gpus else None
        real = (type_.gpu_model, type_.gpu_count) if type_.gpu_model else None
        if declared != real or (member.gpus is not None and member.gpus.others):
            has = f"{type_.gpu_count} {type_.gpu_model}" if real else "no GPU that Slurm can count"
            yield Violation(path, f"{type_.name} has {has}", "omit `gpus`; it follows from the type")


@rule("instance-cpus")
def instance_cpus(case: RuleContext) -> Iterator[Violation]:
    """Slurm drains a node with fewer CPUs than its configuration (slurm.conf(5): CPUs)."""
    for path, member, type_ in _sized(case, "cpus"):
        has = type_.cpus_with(member.threads_per_core)
        if member.cpus > has:
            yield Violation(path, f"{type_.name} has {has}", "omit `cpus`; it follows from the type")


@rule("instance-cpus-idle", Severity.WARNING)
def instance_cpus_idle(case: RuleContext) -> Iterator[Violation]:
    """These CPUs are paid for and not scheduled."""
    for path, member, type_ in _sized(case, "cpus"):
        has = type_.cpus_with(member.threads_per_core)
        if member.cpus < has:
            yield Violation(path, f"{type_.name} has {has} CPUs: {has - member.cpus} of them stay idle", "omit `cpus`")


@rule("instance-threads")
def instance_threads(case: RuleContext) -> Iterator[Violation]:
    """An instance has at most the threads of its type, and a bare-metal one exactly these (EC2 user guide: CPU options)."""
    for fleet in fleets(case):
        declared, has = case.cluster.groups[fleet.name].threads_per_core, fleet.type.threads_per_core
        if declared is None or declared == has:
            continue
        path = f"groups.{fleet.name}.threads_per_core"
        if declared > has:
            cause = f"{fleet.type.name} has {has} thread{'s' if has > 1 else ''} per core (expected {has}, found {declared})"
            yield Violation(path, cause, "omit `threads_per_core`")
        elif fleet.type.bare_metal:
            cause = f"{fleet.type.name} is a bare-metal type: EC2 launches it with {has} threads per core"
            yield Violation(path, cause, "use a type that is not bare metal, or omit `threads_per_core`")


@rule("instance-memory")
def instance_memory(case: RuleContext) -> Iterator[Violation]:
    """More memory than the type has (AWS ParallelCluster v3.11.1: SchedulableMemoryValidator)."""
    for path, member, type_ in _sized(case, "memory"):
        if member.memory > type_.memory_mib * 2**20:
            yield Violation(path, f"{type_.name} has {format_bytes(type_.memory_mib * 2**20)}", "omit `memory`; it follows from the type")


@rule("instance-memory-tight", Severity.WARNING)
def instance_memory_tight(case: RuleContext) -> Iterator[Violation]:
    """The kernel reserves a part of EC2's figure; Slurm drains a node that reports less memory than its configuration."""
    for path, member, type_ in _sized(case, "memory"):
        real = type_.memory_mib * 2**20
        if real * SCHEDULABLE < member.memory <= real:
            cause = f"{format_bytes(member.memory)} is nearly all of {type_.name}'s {format_bytes(real)}; the operating system reports less"
            yield Violation(path, cause, f"omit `memory`; the default is {SCHEDULABLE:.0%} of the type's memory")


@rule("instance-gpus-idle", Severity.WARNING)
def instance_gpus_idle(case: RuleContext) -> Iterator[Violation]:
    """Only workers run jobs."""
    for fleet in fleets(case):
        if (fleet.type.gpu_count or fleet.type.neuron_devices) and Role.WORKER not in fleet.roles:
            cause = f"{fleet.type.name} has accelerators, but group {fleet.name} does not have the role worker"
            yield Violation(f"{fleet.path}.type", cause, "use a type without accelerators, like m7i.large, or add the role worker")


@rule("instance-burstable", Severity.WARNING)
def instance_burstable(case: RuleContext) -> Iterator[Violation]:
    """T types use CPU credits, which a long job soon exhausts (EC2 user guide: Burstable performance instances)."""
    for fleet in fleets(case):
        if fleet.type.family.startswith("t3") and Role.WORKER in fleet.roles:
            cause = f"{fleet.type.name} is throttled, or billed extra, when its CPU credits are used up"
            yield Violation(f"{fleet.path}.type", cause, "use c7i or m7i for workers")


@rule("architecture-mixed", Severity.WARNING)
def architecture_mixed(case: RuleContext) -> Iterator[Violation]:
    """Programs built on a login node run on the workers (AWS ParallelCluster v3.11.1: InstanceArchitectureCompatibilityValidator)."""
    logins = {fleet.type.architecture for fleet in fleets(case) if Role.LOGIN in fleet.roles}
    for fleet in fleets(case):
        if Role.WORKER in fleet.roles and logins and fleet.type.architecture not in logins:
            cause = f"{fleet.type.name} is {fleet.type.architecture}, but login nodes are {' and '.join(sorted(logins))}"
            yield Violation(
                f"{fleet.path}.type", cause, "use a login type of the same architecture: programs built on login will not run there"
            )
