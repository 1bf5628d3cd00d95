"""Findings about the site's catalogue: invalid files, names of the product's rows, GPUs that no catalogue has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from rackwright import layout
from rackwright.catalog import compatibility, gpus, rows, site
from rackwright.model.finding import Finding, Severity, did_you_mean_model

_COLUMN = {"gpus": "model", "switches": "model", "instances": "name"}
_TABLES: Final = ("architectures", "driver_branches", "cuda")
_WITH_MIG: Final = ("ampere", "hopper", "blackwell")
"""Architectures of which some GPUs have MIG (NVIDIA MIG User Guide: Supported GPUs)."""
_NAMED_MEMORY: Final = (0.8, 1.0)
"""Memory in GiB by the number in the name: names count GB and round up; the least is 21.62 GiB of 1g.23gb to 16.00 GiB of 1g.18gb
(NVIDIA MIG User Guide: Supported MIG Profiles)."""


def site_findings() -> tuple[Finding, ...]:
    """Return all findings. They concern every stack of the project, because every stack can use the rows."""
    return (*site.catalog().findings, *_duplicate_names(), *_unknown_gpus(), *_wrong_profiles())


def _duplicate_names() -> Iterator[Finding]:
    """Yield a finding for each row with the name of a product's row, because two figures for one name would be ambiguous."""
    for kind, column in _COLUMN.items():
        added: Iterable[str] = getattr(site.catalog().rows, kind)
        if added:
            product = {row[column] for row in rows(kind)}
            for name in product.intersection(added):
                hint = "choose another name for the row; the product's rows cannot be changed"
                yield _finding(f"{kind}.{name}", "the product's catalogue has a row of this name", hint)
    for kind in _TABLES:
        for name in sorted(compatibility.names(kind).intersection(getattr(site.catalog().rows, kind))):
            yield _finding(
                f"{kind}.{name}", "the product's catalogue has a row of this name", "remove it; the product's rows cannot be changed"
            )


def _unknown_gpus() -> Iterator[Finding]:
    for name, row in site.catalog().rows.instances.items():
        if row.gpu_model is not None and row.gpu_model not in gpus():
            hint = did_you_mean_model(row.gpu_model, gpus(), site.hint_to_add("gpus", row.gpu_model))
            yield _finding(f"instances.{name}.gpu_model", f"GPU model `{row.gpu_model}` is not in the catalogue", hint)


def _wrong_profiles() -> Iterator[Finding]:
    """Yield findings about MIG profiles that no GPU can have; a wrong row would divide GPUs in a way that the driver refuses."""
    for model, row in site.catalog().rows.gpus.items():
        if row.mig is None:
            continue
        path = f"gpus.{model}.mig"
        if row.architecture not in _WITH_MIG:
            yield _finding(path, f"GPUs of architecture {row.architecture} have no MIG", f"remove `mig`; {' and '.join(_WITH_MIG)} have it")
        for name, one in row.mig.profiles.items():
            for field, cause, hint in _wrong(name, one, row, row.mig):
                yield _finding(f"{path}.profiles.{name}.{field}", cause, hint)


def _wrong(name: str, one: site.SiteMigProfile, gpu: site.SiteGpu, mig: site.SiteMig) -> Iterator[tuple[str, str, str]]:
    """Yield field, cause and hint of each contradiction of a profile."""
    slices, _, memory = name.removesuffix("gb").partition("g.")
    listing = "copy the row of `nvidia-smi mig -lgip`"
    if int(slices) != one.compute_slices:
        yield "compute_slices", f"{one.compute_slices} contradicts the name, which begins with {slices}g", listing
    if one.compute_slices > mig.compute_slices:
        yield "compute_slices", f"{one.compute_slices} are more than the {mig.compute_slices} of the GPU", listing
    least, most = (share * int(memory) for share in _NAMED_MEMORY)
    if not least <= one.memory_gib <= most:
        yield "memory_gib", f"{one.memory_gib:g} GiB contradict the name, which ends with {memory}gb", listing
    if gpu.memory_mib is not None and one.memory_gib > gpu.memory_mib / 1024:
        yield "memory_gib", f"{one.memory_gib:g} GiB are more than the {gpu.memory_mib / 1024:.1f} GiB of the GPU", listing
    placements = "copy the starts from the braces of `nvidia-smi mig -lgipp`"
    beyond = [start for start in one.starts if start + one.memory_slices > mig.memory_slices]
    if beyond:
        cause = f"an instance of {one.memory_slices} memory slices at {beyond[0]} ends beyond the {mig.memory_slices} of the GPU"
        yield "starts", cause, f"{placements}, or correct `memory_slices`"
    if any(later - earlier < one.memory_slices for earlier, later in pairwise(one.starts)):
        yield "starts", f"instances of {one.memory_slices} memory slices overlap, or the starts are not ascending", placements


def _finding(path: str, cause: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, site.RULE, f"{layout.SITE_CATALOG}: {path}", cause, hint)
