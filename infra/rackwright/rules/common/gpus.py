"""GPUs: known models, believable counts, on nodes that run jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rackwright import catalog
from rackwright.catalog.site import hint_to_add
from rackwright.model.finding import Severity, did_you_mean_model
from rackwright.model.groups import OtherGpus, Role, counts_by_model, roles_of
from rackwright.rules.registry import RuleContext, Violation, rule

MAX_PER_NODE: Final = 32
"""Eight boards of A16, with four GPUs each (NVIDIA: A16 product brief; data sheets of servers with eight double-width slots)."""


@rule("gpu-model")
def gpu_model(case: RuleContext) -> Iterator[Violation]:
    """Product name, memory and driver follow from the model."""
    for path, model in _models(case):
        if model not in catalog.gpus():
            hint = did_you_mean_model(model, catalog.gpus(), hint_to_add("gpus", model))
            yield Violation(path, f"GPU model `{model}` is not in the catalogue", hint)


@rule("gpu-vendor")
def gpu_vendor(case: RuleContext) -> Iterator[Violation]:
    """GPUs of AMD: Slurm on real machines. Simulation, the device plugin of Kubernetes and the checks of pods are those of NVIDIA."""
    for path, model in _models(case):
        known = catalog.gpus().get(model)
        if known is not None and known.vendor == catalog.AMD and (refusal := _refusal(case)):
            cause, hint = refusal
            yield Violation(path, f"{known.product} {cause}", hint)


def _refusal(case: RuleContext) -> tuple[str, str] | None:
    """Return why the cluster cannot have GPUs of AMD, and what to do; None if it can."""
    if "gpu" in case.cluster.target.simulated:
        return "cannot be simulated: the lab's devices and tools are those of NVIDIA", "use a model of NVIDIA, or target `hosts`"
    if case.kubernetes is not None:
        cause = "is not supported with Kubernetes: device plugin and checks of pods are those of NVIDIA"
        return cause, "use `scheduler: {kind: slurm}`, or omit `gpus`, so that the pods of these nodes get no GPUs"
    return None


def _models(case: RuleContext) -> Iterator[tuple[str, str]]:
    for name, group in case.cluster.groups.items():
        if group.gpus is not None:
            yield f"groups.{name}.gpus.model", group.gpus.model
            yield from _other_models(f"groups.{name}", group.gpus.others)
    for name, node in case.cluster.nodes.items():
        if node.gpus is not None:
            if node.gpus.model is not None:
                yield f"nodes.{name}.gpus.model", node.gpus.model
            yield from _other_models(f"nodes.{name}", node.gpus.others or ())


def _other_models(place: str, others: Iterable[OtherGpus]) -> Iterator[tuple[str, str]]:
    for index, one in enumerate(others):
        yield f"{place}.gpus.others[{index}].model", one.model


@rule("gpu-count")
def gpu_count(case: RuleContext) -> Iterator[Violation]:
    """More GPUs than any server holds is a typing error."""
    for path, count in _counts(case):
        if count > MAX_PER_NODE:
            yield Violation(path, f"{count} GPUs in one node", f"use at most {MAX_PER_NODE}; the number of nodes is the group's `count`")


def _counts(case: RuleContext) -> Iterator[tuple[str, int]]:
    for name, group in case.cluster.groups.items():
        if group.gpus is not None:
            yield f"groups.{name}.gpus.count", group.gpus.count
    for name, node in case.cluster.nodes.items():
        if node.gpus is not None and node.gpus.count is not None:
            yield f"nodes.{name}.gpus.count", node.gpus.count


@rule("gpu-processor")
def gpu_processor(case: RuleContext) -> Iterator[Violation]:
    """Grace Hopper and Grace Blackwell are modules with an arm64 processor, so that the node needs packages for it."""
    target, seen = case.cluster.target, set[tuple[str, str]]()
    pairs = [(member, model) for member in case.members if member.gpus for model in counts_by_model(member.gpus)]
    for member, model in pairs:
        known = catalog.gpus().get(model)
        if known is None or known.host in (None, member.architecture) or target.kind != "hosts" or (member.group, known.model) in seen:
            continue
        seen.add((member.group, known.model))
        machine = target.machine_by_node.get(member.name)
        path = f"target.machines.{member.name}.architecture" if machine and machine.architecture else "target.architecture"
        cause = f"{member.architecture}, but {known.product} ({member.name}) exists with {known.host} processors only"
        yield Violation(path, cause, f"use `{known.host}`, or omit `architecture`")


@rule("gpu-count-zero", Severity.WARNING)
def gpu_count_zero(case: RuleContext) -> Iterator[Violation]:
    """A group without GPUs needs no `gpus` key."""
    for name, group in case.cluster.groups.items():
        if group.gpus is not None and group.gpus.count == 0:
            yield Violation(f"groups.{name}.gpus.count", "0 GPUs", "omit `gpus`")


@rule("gpu-without-worker")
def gpu_without_worker(case: RuleContext) -> Iterator[Violation]:
    """Only workers offer GPUs to the scheduler, and runners to jobs of CI; GPUs of other nodes would stay idle."""
    for name, group in case.cluster.groups.items():
        if group.gpus is not None and group.gpus.count and {Role.WORKER, Role.RUNNER}.isdisjoint(roles_of(name, group)):
            yield Violation(
                f"groups.{name}.gpus", f"group {name} has GPUs but not the role worker", "add the role worker, or remove the GPUs"
            )


@rule("gpu-model-missing")
def gpu_model_missing(case: RuleContext) -> Iterator[Violation]:
    """A node's GPU count needs a model, its own or its group's."""
    for member in case.members:
        own = case.cluster.nodes.get(member.name)
        group = case.cluster.groups[member.group]
        if own is not None and own.gpus is not None and own.gpus.count and own.gpus.model is None and group.gpus is None:
            yield Violation(f"nodes.{member.name}.gpus", f"group {member.group} has no GPUs, so their model is unknown", "add `model:`")


@rule("gpu-mixed", Severity.WARNING)
def gpu_mixed(case: RuleContext) -> Iterator[Violation]:
    """A job on different GPUs runs at the speed of the slowest."""
    for name in case.cluster.groups:
        gpus = [member.gpus for member in case.members if member.group == name and member.gpus is not None]
        models = sorted({" with ".join(counts_by_model(one)) for one in gpus})
        if len(models) > 1:
            yield Violation(
                f"groups.{name}.gpus",
                f"nodes with {' and '.join(models)} in one group",
                "create a separate group and partition for each model",
            )
