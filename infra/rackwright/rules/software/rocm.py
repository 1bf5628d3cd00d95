"""ROCm: known releases, on systems that have packages, for the GPUs of AMD that the nodes have."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright import catalog
from rackwright.catalog import GpuModel
from rackwright.catalog.rocm import RocmRelease, rocm_releases
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.finding import Severity, did_you_mean
from rackwright.rules.registry import RuleContext, Violation, rule

_PATH = "software.rocm.version"


@rule("rocm-release")
def rocm_release(case: RuleContext) -> Iterator[Violation]:
    """Each release is a repository of its own, and has packages for some systems and GPUs."""
    declared = case.cluster.software.rocm if case.cluster.software else None
    if declared is None:
        return
    release = rocm_releases().get(declared.version)
    if release is None:
        hint = did_you_mean(declared.version, rocm_releases())
        yield Violation(_PATH, f"ROCm {declared.version} is not in the product's catalogue", hint)
        return
    with_gpus = _members(case)
    for os in sorted({case.cluster.target.os_of(member.name) for member, _ in with_gpus} - release.systems):
        cause = f"no role installs ROCm {release.version} on {os}"
        yield Violation(_PATH, cause, f"use {' or '.join(sorted(release.systems))}, or omit `rocm` and install ROCm yourself")
    for product in sorted({gpu.product for _, gpu in with_gpus if gpu.architecture not in release.architectures}):
        yield Violation(_PATH, f"ROCm {release.version} does not support {product}", _newer(product))


@rule("rocm-missing", Severity.WARNING)
def rocm_missing(case: RuleContext) -> Iterator[Violation]:
    """Without ROCm, checks of the GPUs are unknown, and programs find no GPU."""
    is_refused = "gpu" in case.cluster.target.simulated or case.kubernetes is not None
    if not is_refused and (case.cluster.software is None or case.cluster.software.rocm is None):
        groups = dict.fromkeys(member.group for member, _ in _members(case))
        for name in groups:
            cause = f"rackwright installs no ROCm on group {name}: its machines must have driver, ROCm and amd-smi"
            yield Violation(f"groups.{name}.gpus", cause, f'use `software: {{rocm: {{version: "{list(rocm_releases())[-1]}"}}}}`')


@rule("rocm-without-gpus", Severity.WARNING)
def rocm_without_gpus(case: RuleContext) -> Iterator[Violation]:
    """ROCm is installed on nodes with GPUs of AMD."""
    if case.cluster.software is not None and case.cluster.software.rocm is not None and not _members(case):
        yield Violation("software.rocm", "no node has GPUs of AMD", "omit `rocm`")


def _newer(product: str) -> str:
    """Return the oldest release that supports a GPU, as a hint."""
    fits: list[RocmRelease] = [
        release
        for release in rocm_releases().values()
        if any(gpu.product == product and gpu.architecture in release.architectures for gpu in catalog.gpus().values())
    ]
    return f"use ROCm {fits[0].version} or later"


def _members(case: RuleContext) -> list[tuple[DeclaredNode, GpuModel]]:
    """Return the nodes with GPUs of AMD, with their model."""
    known = [(member, catalog.gpus().get(member.gpus.model)) for member in case.members if member.gpus]
    return [(member, gpu) for member, gpu in known if gpu is not None and gpu.vendor == catalog.AMD]
