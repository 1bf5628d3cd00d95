"""MIG: profiles that the GPU has, combinations that fit on one GPU, and nodes on which instances can be created and confined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rackwright.catalog import gpus
from rackwright.catalog.mig import MigProfile, mig_models, mig_profiles
from rackwright.catalog.site import hint_to_add_mig
from rackwright.derive.mig import devices_of, place, required_devices
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.finding import did_you_mean
from rackwright.model.groups import Gpus, mig_devices
from rackwright.rules.registry import RuleContext, Violation, rule


def _divided(case: RuleContext) -> Iterator[tuple[str, Gpus]]:
    """Yield each different division of GPUs with its place: nodes of a group may have other models and numbers."""
    seen: set[tuple[str, str, int]] = set()
    for member in case.members:
        declared = member.gpus
        if declared is None or declared.mig is None:
            continue
        key = (member.group, declared.model, declared.count)
        if key not in seen:
            seen.add(key)
            yield _path(case, member), declared


def _path(case: RuleContext, member: DeclaredNode) -> str:
    own = case.cluster.nodes.get(member.name)
    return f"nodes.{member.name}.gpus" if own is not None and own.gpus is not None else f"groups.{member.group}.gpus.mig"


@rule("mig-model")
def mig_model(case: RuleContext) -> Iterator[Violation]:
    """Only some GPUs can be divided (NVIDIA MIG User Guide: Supported GPUs). Of others the placements have no source."""
    for path, declared in _divided(case):
        if declared.model in gpus() and not mig_profiles(declared.model):
            hint = f"omit `mig`, use one of: {', '.join(mig_models())}, or {hint_to_add_mig(declared.model)}"
            yield Violation(path, f"no MIG profiles are known for GPU model {declared.model}", hint)


@rule("mig-profile")
def mig_profile(case: RuleContext) -> Iterator[Violation]:
    """Profiles have other names on GPUs with other memory (NVIDIA MIG User Guide: Supported MIG Profiles)."""
    for path, declared in _divided(case):
        known, entries = mig_profiles(declared.model), mig_devices(declared.mig)
        if known and not any(entry.profiles for entry in entries):
            yield Violation(path, "names no profile", f"use one of: {', '.join(known)}; or omit `mig`")
        for name in dict.fromkeys(name for entry in entries for name in entry.profiles) if known else ():
            if name not in known:
                near = did_you_mean(name, known)
                listed = "" if near.startswith("use one of") else f"; {declared.model} has {', '.join(known)}"
                hint = f"{near}{listed}; or {hint_to_add_mig(declared.model)}"
                yield Violation(path, f"GPU model {declared.model} has no MIG profile `{name}`", hint)


@rule("mig-devices")
def mig_device(case: RuleContext) -> Iterator[Violation]:
    """A GPU is divided in one way, and only a GPU that the node has."""
    for path, declared in _divided(case):
        entries = mig_devices(declared.mig)
        for device in sorted({device for entry in entries for device in entry.devices if device >= declared.count}):
            yield Violation(path, f"there is no GPU {device}: the node has {declared.count}", f"use 0 to {declared.count - 1}")
        named = Counter(device for entry in entries for device in entry.devices)
        for device in sorted(device for device, times in named.items() if times > 1):
            yield Violation(path, f"GPU {device} is named twice", "name each GPU once")
        if sum(not entry.devices for entry in entries) > 1:
            yield Violation(path, "two entries are about all other GPUs", "add `devices` to all entries but one")


@rule("mig-placement")
def mig_placement(case: RuleContext) -> Iterator[Violation]:
    """Instances begin at fixed memory slices and do not overlap (`nvidia-smi mig -lgipp`), so that not every combination fits."""
    for path, declared in _divided(case):
        known = mig_profiles(declared.model)
        reported: list[Mapping[str, int | None]] = []
        for _, profiles in devices_of(declared):
            if profiles not in reported and place(required_devices(profiles, known)) is None:
                reported.append(profiles)
                yield Violation(path, f"{_listed(profiles, known)} do not fit on one {declared.model}", _capacity(known))


def _listed(profiles: Mapping[str, int | None], known: Mapping[str, MigProfile]) -> str:
    counts = Counter(one.name for one in required_devices(profiles, known))
    return " and ".join(f"{count} × {name}" for name, count in counts.items())


def _capacity(known: Mapping[str, MigProfile]) -> str:
    """Return the capacity as text: the maximum numbers, and the slices that a combination shares."""
    total = max(one.memory_slices for one in known.values())
    alone = ", ".join(f"{one.maximum} × {one.name}" for one in known.values())
    slices = ", ".join(f"{one.name} {one.memory_slices} at {' or '.join(map(str, one.starts))}" for one in known.values())
    return f"remove instances. Alone fit {alone}. Of {total} memory slices take: {slices}"


@rule("mig-target")
def mig_target(case: RuleContext) -> Iterator[Violation]:
    """Instances are created by the driver of a real GPU, and confined by control groups of the machine's own kernel."""
    target = case.cluster.target
    for path, _ in _divided(case):
        if "gpu" in target.simulated:
            yield Violation(path, "simulated GPUs have no MIG", "omit `mig`; use it on target hosts or aws")
        elif not target.has_cgroups:
            cause = "jobs on system containers are not confined to devices, so that each would see every instance"
            yield Violation(path, cause, "omit `mig`, or use machines with their own kernel (`target.machine_type: machine`)")


@rule("mig-scheduler")
def mig_scheduler(case: RuleContext) -> Iterator[Violation]:
    """Quotas, queues and checks of Kubernetes count nvidia.com/gpu, which whole GPUs are."""
    for path, _ in _divided(case):
        if case.kubernetes is not None:
            yield Violation(path, "MIG instances are supported with Slurm only", "omit `mig`, or declare `scheduler: {kind: slurm}`")
