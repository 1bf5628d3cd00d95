"""Nodes with GPUs of several models: device files that the node has, models that one driver serves, targets that tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rackwright import catalog
from rackwright.catalog import GpuModel
from rackwright.catalog.compatibility import common_modules, has_nvlink_rack, has_nvswitch, supported_modules
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.groups import Gpus, OtherGpus, counts_by_model
from rackwright.rules.registry import RuleContext, Violation, rule


def _mixed(case: RuleContext) -> Iterator[tuple[str, Gpus]]:
    """Yield each different mix of GPUs with its place: nodes of a group may have other models and numbers."""
    seen: set[tuple[str, str, int, tuple[OtherGpus, ...]]] = set()
    for member in case.members:
        declared = member.gpus
        if declared is None or not declared.others:
            continue
        key = (member.group, declared.model, declared.count, declared.others)
        if key not in seen:
            seen.add(key)
            yield _path(case, member), declared


def _path(case: RuleContext, member: DeclaredNode) -> str:
    own = case.cluster.nodes.get(member.name)
    if own is None or own.gpus is None:
        return f"groups.{member.group}.gpus.others"
    return f"nodes.{member.name}.gpus.others" if own.gpus.others is not None else f"nodes.{member.name}.gpus"


@rule("gpu-others-devices")
def gpu_others_devices(case: RuleContext) -> Iterator[Violation]:
    """A device file has one model, and is that of a GPU which the node has."""
    for path, declared in _mixed(case):
        named = Counter(device for one in declared.others for device in one.devices)
        for device in sorted(device for device in named if device >= declared.count):
            cause = f"there is no GPU {device}: the node has {declared.count}, as `count` includes GPUs of all models"
            yield Violation(
                path, cause, f"use 0 to {declared.count - 1}, increase `count`, or remove the entry (`others: []` for one node)"
            )
        for device in sorted(device for device, times in named.items() if times > 1):
            yield Violation(path, f"GPU {device} is named twice", "name each GPU once")
        if set(named) >= set(range(declared.count)):
            cause = f"names all {declared.count} GPUs, so that none is a {declared.model}"
            yield Violation(path, cause, "set `model` to the model of most GPUs, and name the other GPUs here")


@rule("gpu-others-model")
def gpu_others_model(case: RuleContext) -> Iterator[Violation]:
    """Slurm counts GPUs by model, and checks recognize them by the product that nvidia-smi prints."""
    for path, declared in _mixed(case):
        for model, times in Counter([declared.model, *(one.model for one in declared.others)]).items():
            if times > 1:
                yield Violation(path, f"model {model} is declared twice", "name each model once, with all its `devices`")
        known = [gpu for model in counts_by_model(declared) if (gpu := catalog.gpus().get(model)) is not None]
        products = Counter(gpu.product for gpu in known)
        for product in (product for product, times in products.items() if times > 1):
            alike = " and ".join(gpu.model for gpu in known if gpu.product == product)
            cause = f"nvidia-smi calls {alike} {product}, so that no check can tell them apart"
            yield Violation(path, cause, "declare one of these models for all of these GPUs, or use separate nodes")
        for gpu in known:
            if refusal := _refusal(gpu, counts_by_model(declared)[gpu.model]):
                yield Violation(path, *refusal)


def _refusal(gpu: GpuModel, count: int) -> tuple[str, str] | None:
    """Return why a GPU cannot be in a node with GPUs of other models, and what to do; None if it can."""
    if gpu.vendor != catalog.NVIDIA:
        return f"{gpu.product} is not of NVIDIA: only GPUs of NVIDIA can be of several models in one node", "use separate nodes"
    if has_nvswitch(gpu, count) or has_nvlink_rack(gpu):
        cause = f"{gpu.product} is connected by NVSwitch, whose checks expect every GPU of the node on it"
        return cause, "leave the other GPUs out of the stack file, or use separate nodes"
    return None


@rule("gpu-others-modules")
def gpu_others_modules(case: RuleContext) -> Iterator[Violation]:
    """One driver, with one variant of its kernel modules, serves all GPUs of a node. Which one a stack selects is judged by other rules."""
    for path, declared in _mixed(case):
        known = [gpu for model in counts_by_model(declared) if (gpu := catalog.gpus().get(model)) is not None]
        nvidia = [gpu for gpu in known if gpu.vendor == catalog.NVIDIA]
        if nvidia and not common_modules(nvidia):
            needs = "; ".join(f"{gpu.model} runs with {' or '.join(supported_modules(gpu))} kernel modules" for gpu in nvidia)
            yield Violation(path, f"no driver serves all of these GPUs: {needs}", "use separate nodes")


@rule("gpu-others-mig")
def gpu_others_mig(case: RuleContext) -> Iterator[Violation]:
    """Instances are declared, created and checked for GPUs of one model."""
    for path, declared in _mixed(case):
        if declared.mig is not None:
            yield Violation(path, "MIG is supported on nodes with GPUs of one model only", "omit `mig`, or use separate nodes")


@rule("gpu-others-target")
def gpu_others_target(case: RuleContext) -> Iterator[Violation]:
    """Jobs get the model that they request only where control groups of the machine's own kernel confine them to its device files.

    CUDA numbers GPUs by speed and Slurm by device file, so that a number alone may select a GPU of another model (CUDA Programming
    Guide, CUDA Environment Variables: FASTEST_FIRST is the default of CUDA_DEVICE_ORDER). Kubernetes counts all GPUs of a node as
    nvidia.com/gpu.
    """
    target = case.cluster.target
    for path, _ in _mixed(case):
        if "gpu" in target.simulated:
            yield Violation(path, "simulated GPUs of a node are of one model", "omit `others`; use it on target hosts")
        elif case.kubernetes is not None:
            cause = "Kubernetes counts GPUs of all models as nvidia.com/gpu, so that pods get any of them"
            yield Violation(path, cause, "use nodes with GPUs of one model, or declare `scheduler: {kind: slurm}`")
        elif not target.has_cgroups:
            cause = "jobs on system containers are not confined to devices, so that each would see GPUs of all models"
            yield Violation(path, cause, "omit `others`, or use machines with their own kernel (`target.machine_type: machine`)")
