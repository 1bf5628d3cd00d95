"""Versions that are incompatible with each other, or with the cluster's GPUs and systems; each hint names the nearest compatible set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Final

from rackwright import catalog
from rackwright.catalog import GpuModel, compatibility, version_key
from rackwright.catalog.compatibility import Branch, Profile, major, requirement
from rackwright.catalog.site import hint_to_add
from rackwright.model.finding import Severity
from rackwright.model.groups import counts_by_model
from rackwright.model.node.software import GpuDirect, GpuModules, Software
from rackwright.rules.registry import RuleContext, Violation, rule


@dataclass(frozen=True)
class VersionSelection:
    """A set of versions, and the GPUs and systems that it must run on."""

    software: Software
    profile: Profile
    gpus: tuple[GpuModel, ...]
    """GPU models, each once."""
    systems: tuple[str, ...]
    """Operating systems of the nodes with GPUs."""
    machines: tuple[tuple[str, str], ...]
    """Operating system and processor architecture of the nodes with GPUs, each pair once."""
    nvswitch: bool
    """Whether the GPUs of any node are connected by NVSwitch."""
    today: date

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Return the version by component."""
        return compatibility.resolve(self.profile, self.software.versions)

    @property
    def branch(self) -> int:
        """Return the driver's branch."""
        return major(self.versions["driver"])

    @property
    def known_branch(self) -> Branch | None:
        """Return the driver's branch if the catalogue has it."""
        return compatibility.branches().get(self.branch)

    def where(self, *components: str) -> str:
        """Return the path of the field to change: the first pin among the components, else the profile."""
        return next((f"software.versions.{name}" for name in components if name in self.software.versions), "software.profile")

    def flavours(self) -> list[tuple[GpuModel, GpuModules]]:
        """Return each GPU with the variant of kernel modules that it would get."""
        return [(gpu, compatibility.modules_of(gpu, self.software.kernel_modules)) for gpu in self.gpus]


_NOT_KNOWN: Final = "is not in the compatibility catalogue"
_UNKNOWN: Final[tuple[tuple[str, str, Callable[[VersionSelection], str]], ...]] = (
    ("driver branch", "driver_branches", lambda choice: str(choice.branch)),
    ("CUDA", "cuda", lambda choice: str(major(choice.versions["cuda"]))),
)
"""First words of a cause, table of the catalogue that lacks a row, and the name of the row."""
Conflict = tuple[str, str]
"""Path and cause of a conflict."""
ConflictCheck = Callable[[VersionSelection], Iterator[Conflict]]
CONFLICT_CHECKS: Final[list[ConflictCheck]] = []


def version_rule(name: str) -> Callable[[ConflictCheck], ConflictCheck]:
    """Register a rule that finds conflicts; its hint is the nearest set without any."""

    def register(conflicts: ConflictCheck) -> ConflictCheck:
        def check(case: RuleContext) -> Iterator[Violation]:
            choice = selection_of(case)
            for path, cause in conflicts(choice) if choice else ():
                yield Violation(path, cause, _hint(choice, path, cause) if choice else "")

        check.__module__, check.__doc__ = conflicts.__module__, conflicts.__doc__
        rule(name)(check)
        CONFLICT_CHECKS.append(conflicts)
        return conflicts

    return register


def selection_of(case: RuleContext) -> VersionSelection | None:
    """Return the selection of the stack file; None if it selects nothing, or nothing that the catalogue has."""
    declared = case.cluster.software
    profile = compatibility.profiles().get(declared.profile) if declared else None
    if declared is None or profile is None:
        return None
    with_gpus = [member for member in case.members if member.gpus is not None and not _is_of_amd(member.gpus.model)]
    mixes = [counts_by_model(member.gpus) for member in with_gpus if member.gpus]
    models = dict.fromkeys(model for mix in mixes for model in mix)
    systems = dict.fromkeys(case.cluster.target.os_of(member.name) for member in with_gpus)
    machines = dict.fromkeys((case.cluster.target.os_of(member.name), member.architecture) for member in with_gpus)
    known = tuple(gpu for model in models if (gpu := catalog.gpus().get(model)) is not None and gpu.vendor == catalog.NVIDIA)
    counts = [(catalog.gpus().get(model), count) for mix in mixes for model, count in mix.items()]
    switched = any(gpu is not None and compatibility.has_nvswitch(gpu, count) for gpu, count in counts)
    return VersionSelection(declared, profile, known, tuple(systems), tuple(machines), switched, case.today)


def _is_of_amd(model: str) -> bool:
    """Return whether a GPU gets ROCm in place of the profile's software."""
    known = catalog.gpus().get(model)
    return known is not None and known.vendor == catalog.AMD


def nearest(choice: VersionSelection) -> str:
    """Return the first compatible set of the catalogue for these GPUs and systems, as text."""
    if (fits := _profile_for(choice)) is not None:
        return f"use {fits}"
    for name in compatibility.systems():
        elsewhere = tuple((name, processor) for _, processor in choice.machines)
        if (fits := _profile_for(replace(choice, systems=(name,), machines=elsewhere))) is not None:
            return f"use `os: {name}` with {fits}"
    return "use separate clusters for the latest GPUs and for Pascal or Volta: no profile supports all of these nodes"


def _profile_for(choice: VersionSelection) -> str | None:
    """Return the first profile without conflicts, with its versions, as text."""
    for profile in compatibility.profiles().values():
        candidate = replace(choice, profile=profile, software=Software(profile=profile.name))
        if not any(True for conflicts in CONFLICT_CHECKS for _ in conflicts(candidate)):
            versions = candidate.versions
            fits = f"driver {versions['driver']}, CUDA {versions['cuda']}, NCCL {versions['nccl']}"
            return f"`software: {{profile: {profile.name}}}` without `versions`: {fits}"
    return None


def _hint(choice: VersionSelection, path: str, cause: str) -> str:
    """Return the nearest set, and how to add a row where the catalogue does not have what the stack file declares."""
    for subject, table, name in _UNKNOWN:
        if cause.startswith(subject) and cause.endswith(_NOT_KNOWN):
            return f"{nearest(choice)}; or {hint_to_add(table, name(choice))}"
    return nearest(choice)


@version_rule("software-system")
def system(choice: VersionSelection) -> Iterator[Conflict]:
    """A profile has packages for some systems."""
    for name in choice.systems:
        if name not in choice.profile.systems:
            yield "software.profile", f"profile {choice.profile.name} has no packages for {name}"


@version_rule("software-architecture")
def architecture(choice: VersionSelection) -> Iterator[Conflict]:
    """NVIDIA and Canonical package driver and libraries for arm64 on some systems only."""
    for name, processor in choice.machines:
        if name in choice.profile.systems and not choice.profile.supports(name, processor):
            able = [one.name for one in compatibility.systems().values() if one.nvidia_arm64]
            cause = f"profile {choice.profile.name} has no packages for {name} on {processor}: NVIDIA has them for {', '.join(able)}"
            yield "software.profile", cause


@version_rule("software-nccl-arm64")
def nccl_arm64(choice: VersionSelection) -> Iterator[Conflict]:
    """NVIDIA's packages of NCCL before 2.29.3 hang on arm64, in silence and after an hour or a day (NVIDIA/nccl#2353)."""
    nccl, minimum = choice.versions["nccl"], requirement("nccl-arm64")
    arm64 = any(processor == compatibility.ARM64 for _, processor in choice.machines)
    if arm64 and choice.profile.driver_vendor != "debian" and version_key(nccl) < version_key(minimum):
        yield choice.where("nccl"), f"collectives of NCCL {nccl} hang on arm64; the first release without the fault is {minimum}"


@version_rule("software-driver-branch")
def driver_branch(choice: VersionSelection) -> Iterator[Conflict]:
    """A branch whose support has ended gets no security fixes; an unknown branch cannot be checked."""
    known = choice.known_branch
    if known is None:
        yield choice.where("driver"), f"driver branch {choice.branch} {_NOT_KNOWN}"
    elif known.has_ended(choice.today) and not _is_archive(choice):
        when = f"in {known.ends:%B %Y}" if known.ends else "before September 2026"
        yield choice.where("driver"), f"support of driver branch {choice.branch} ended {when}"


def _is_archive(choice: VersionSelection) -> bool:
    """Return whether the driver is that of Debian's release, whose archive has no other version."""
    return choice.profile.driver_vendor == "debian" and "driver" not in choice.software.versions


@rule("software-archive-branch", Severity.WARNING)
def software_archive_branch(case: RuleContext) -> Iterator[Violation]:
    """Debian keeps a branch in its archive after NVIDIA ended it."""
    choice = selection_of(case)
    known = choice.known_branch if choice else None
    if choice is not None and known is not None and known.has_ended(choice.today) and _is_archive(choice):
        cause = f"Debian's driver is branch {choice.branch}, which NVIDIA no longer supports, without Fabric Manager and DCGM"
        arm64 = any(processor == compatibility.ARM64 for _, processor in choice.machines)
        better = "`os: ubuntu-24.04` with `profile: 2026-lts-arm64`" if arm64 else "`profile: 2026-lts`"
        yield Violation("software.profile", cause, f"use {better} if the nodes may use NVIDIA's repository")


@version_rule("software-gpu-driver")
def gpu_driver(choice: VersionSelection) -> Iterator[Conflict]:
    """Each GPU has a first driver that supports it, and old ones have a last."""
    driver = choice.versions["driver"]
    for gpu in choice.gpus:
        row = compatibility.architectures()[gpu.architecture]
        first, last = gpu.driver_minimum or str(row.driver_first), row.driver_last
        if version_key(driver) < version_key(first):
            yield choice.where("driver"), f"driver {driver} does not support {gpu.model}, whose first driver is {first}"
        if last is not None and choice.branch > last:
            yield (
                choice.where("driver"),
                f"driver {driver} no longer supports {gpu.model} ({gpu.architecture.capitalize()}), whose last branch is {last}",
            )


@version_rule("software-gpu-modules")
def gpu_modules(choice: VersionSelection) -> Iterator[Conflict]:
    """Pascal and Volta cannot run the open kernel modules; Grace Hopper and Blackwell run no others."""
    for gpu, flavour in choice.flavours():
        able = compatibility.supported_modules(gpu)
        if flavour not in able:
            yield (
                "software.kernel_modules",
                f"{gpu.model} ({gpu.architecture.capitalize()}) runs with {able[0]} kernel modules only, not with {flavour} ones",
            )


@version_rule("software-cuda-driver")
def cuda_driver(choice: VersionSelection) -> Iterator[Conflict]:
    """Programs of a CUDA major version need the branch that was released with it, or a later one."""
    cuda = choice.versions["cuda"]
    minimum = compatibility.driver_for(major(cuda))
    if minimum is None:
        yield choice.where("cuda"), f"CUDA {major(cuda)} {_NOT_KNOWN}"
    elif choice.branch < minimum:
        yield choice.where("cuda", "driver"), f"CUDA {cuda} needs a driver of branch {minimum} or later, not {choice.versions['driver']}"


@version_rule("software-gpu-cuda")
def gpu_cuda(choice: VersionSelection) -> Iterator[Conflict]:
    """A toolkit compiles for the GPUs that it supports."""
    cuda = choice.versions["cuda"]
    for gpu in choice.gpus:
        row = compatibility.architectures()[gpu.architecture]
        first = compatibility.cuda_first(gpu)
        if version_key(cuda) < version_key(first):
            yield (
                choice.where("cuda"),
                f"CUDA {cuda} does not support {gpu.model} ({_generation(gpu)}), whose first release is {first}",
            )
        if row.cuda_last is not None and version_key(cuda)[:2] > version_key(row.cuda_last):
            yield (
                choice.where("cuda"),
                f"CUDA {cuda} no longer supports {gpu.model} ({gpu.architecture.capitalize()}), whose last release is {row.cuda_last}",
            )


def _generation(gpu: GpuModel) -> str:
    """Return the architecture as a word, with the compute capability where the catalogue has it."""
    return gpu.architecture.capitalize() + (f" {gpu.compute_capability}" if gpu.compute_capability else "")


@version_rule("software-gpu-nccl")
def gpu_nccl(choice: VersionSelection) -> Iterator[Conflict]:
    """A release of NCCL has code for the architectures that it was built for."""
    nccl = choice.versions["nccl"]
    for gpu in choice.gpus:
        first = compatibility.architectures()[gpu.architecture].nccl_first
        if first is not None and version_key(nccl) < version_key(first):
            cause = f"NCCL {nccl} has no code for {gpu.model} ({gpu.architecture.capitalize()}), whose first release is {first}"
            yield choice.where("nccl"), cause


@version_rule("software-nccl-cuda")
def nccl_cuda(choice: VersionSelection) -> Iterator[Conflict]:
    """NCCL is built for one CUDA major."""
    built, cuda = choice.versions["nccl-cuda"], choice.versions["cuda"]
    if major(built) != major(cuda):
        yield choice.where("nccl-cuda"), f"NCCL for CUDA {built} does not load with CUDA {cuda}"


@version_rule("software-fabric-manager")
def fabric_manager(choice: VersionSelection) -> Iterator[Conflict]:
    """Fabric Manager requires a driver of the same version, and without it no program runs on GPUs behind NVSwitch."""
    twin, driver = choice.versions["fabric-manager"], choice.versions["driver"]
    if choice.nvswitch and choice.profile.driver_vendor == "debian":
        yield "software.profile", f"eight GPUs on NVSwitch need Fabric Manager, which profile {choice.profile.name} does not have"
    if twin != driver:
        yield (
            choice.where("fabric-manager", "driver"),
            f"Fabric Manager {twin} does not run with driver {driver}: both must have the same version",
        )


@version_rule("software-dcgm")
def dcgm(choice: VersionSelection) -> Iterator[Conflict]:
    """DCGM 3 has other packages, which conflict with those of DCGM 4."""
    version = choice.versions.get("dcgm")
    if version is not None and version_key(version) < version_key(requirement("dcgm")):
        yield choice.where("dcgm"), f"DCGM {version} is not supported: the roles install DCGM 4"


@version_rule("software-slurm")
def slurm(choice: VersionSelection) -> Iterator[Conflict]:
    """pyxis is built for the installed Slurm, whose version the system determines."""
    pinned = choice.software.versions.get("slurm")
    for name in choice.systems if pinned else ():
        known = compatibility.systems().get(name)
        if known is not None and known.slurm is not None and known.slurm != pinned:
            yield (
                "software.versions.slurm",
                f"{name} provides Slurm {known.slurm}, not {pinned}, and pyxis loads only into the release for which it is built",
            )


@version_rule("software-pyxis")
def pyxis(choice: VersionSelection) -> Iterator[Conflict]:
    """pyxis calls enroot."""
    enroot, minimum = choice.versions.get("enroot"), requirement("pyxis-enroot")
    if enroot is not None and "pyxis" in choice.versions and version_key(enroot) < version_key(minimum):
        yield choice.where("enroot"), f"pyxis {choice.versions['pyxis']} needs enroot {minimum} or later, not {enroot}"


@version_rule("software-gpudirect")
def gpudirect(choice: VersionSelection) -> Iterator[Conflict]:
    """dma-buf needs the open modules; nvidia-peermem needs the RDMA stack of DOCA-OFED."""
    method, cuda = choice.software.gpudirect, choice.versions["cuda"]
    if method is GpuDirect.DMA_BUF:
        closed = [gpu.model for gpu, flavour in choice.flavours() if flavour is not GpuModules.OPEN]
        if closed:
            yield "software.gpudirect", f"dma-buf needs the open kernel modules, which are not installed for {' and '.join(closed)}"
        if version_key(cuda) < version_key(requirement("dma-buf-cuda")):
            yield choice.where("cuda"), f"dma-buf needs CUDA {requirement('dma-buf-cuda')} or later, not {cuda}"
    if method is GpuDirect.PEERMEM and "doca-ofed" not in choice.versions:
        yield "software.gpudirect", f"nvidia-peermem needs DOCA-OFED, which profile {choice.profile.name} does not have"
