"""The site's own catalogue rows: files `site/catalog/*.yml` of the project, in addition to the rows of the product.

A file holds mappings from a name to a row: `gpus`, `switches`, `instances`, and what these depend on: `architectures`, `driver_branches`
and `cuda`. Every row has its source and its date.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from rackwright import layout
from rackwright.model.base import ConfigModel
from rackwright.model.finding import Finding, Severity, did_you_mean_model, has_errors
from rackwright.model.names import Label
from rackwright.model.units import Day
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.field_errors import explain
from rackwright.yaml_loader import load_yaml

_COMPATIBILITY: Final = Path(__file__).with_name("compatibility.yml")
RULE: Final = "site-catalog"
"""Name of the findings about these files."""


class SiteRow(ConfigModel):
    """Fields of every row."""

    source: str = Field(min_length=3, description="Where the figures are from, for example `datasheet DS-1234, page 2`.")
    date: Day = Field(description="Day on which the source was read, for example 2026-11-26.")


MigName = Annotated[str, Field(pattern=r"^[1-9]g\.[1-9][0-9]*gb$")]
Slice = Annotated[int, Field(ge=0, le=15)]


class SiteMigProfile(ConfigModel):
    """A profile of GPU instances, with the figures of `nvidia-smi mig -lgip` and `nvidia-smi mig -lgipp`."""

    memory_gib: float = Field(gt=0, description="Memory of an instance in GiB, as `nvidia-smi mig -lgip` prints it.")
    compute_slices: int = Field(ge=1, le=9, description="Compute slices: the number before the g of the name.")
    memory_slices: int = Field(ge=1, le=16, description="Memory slices: the size in `nvidia-smi mig -lgipp`.")
    starts: tuple[Slice, ...] = Field(min_length=1, description="Memory slices at which an instance can begin, for example [0, 4].")


class SiteMig(SiteRow):
    """MIG (Multi-Instance GPU) of a GPU model."""

    compute_slices: int = Field(default=7, ge=1, le=9, description="Compute slices of a GPU. Default: 7.")
    memory_slices: int = Field(default=8, ge=1, le=16, description="Memory slices of a GPU. Default: 8.")
    profiles: dict[MigName, SiteMigProfile] = Field(min_length=1, description="Profiles by name, for example 3g.40gb, the smallest first.")


class SiteGpu(SiteRow):
    """A GPU model."""

    product: str = Field(min_length=1, description="Name that `nvidia-smi --query-gpu=name --format=csv` prints.")
    memory_mib: int | None = Field(
        ge=1, description="Memory in MiB that `nvidia-smi --query-gpu=memory.total --format=csv` prints; null if it prints [N/A]."
    )
    power_watts: int | None = Field(default=None, ge=1, description="Power limit of the card in W. Default: unknown.")
    architecture: Label = Field(
        description="Architecture, which decides on drivers and CUDA releases: one of the product's, or a row of `architectures`."
    )
    compute_capability: str | None = Field(
        default=None,
        pattern=r"^[0-9]+\.[0-9]$",
        description="Compute capability that `nvidia-smi --query-gpu=compute_cap --format=csv` prints, in quotes. Default: unknown.",
    )
    pcie: str | None = Field(
        default=None, pattern=r"^[1-9]\.0 x(1|2|4|8|16)$", description="PCIe generation and lanes, for example 5.0 x16. Default: unknown."
    )
    nvswitch: bool = Field(default=False, description="Eight of them in a node are joined by NVSwitch and need Fabric Manager.")
    nvlink: bool = Field(
        default=False, description="Each of them has NVLink. Bridges between pairs of cards are optional and do not count."
    )
    nvlink_domain: int | None = Field(
        default=None,
        ge=2,
        le=1024,
        description="GPUs that NVLink joins: 8 on an HGX board, 4 on a board without NVSwitch, 72 in a rack whose NVSwitches are in "
        "trays of their own, which needs IMEX. Default: the GPUs of the node.",
    )
    host: Literal["x86_64", "arm64"] | None = Field(
        default=None, description="Processor of every node with this GPU, for example arm64 for Grace. Default: any."
    )
    kernel_modules: Literal["open", "proprietary"] | None = Field(
        default=None, description="The only variant of kernel modules that supports it. Default: those of its architecture."
    )
    driver_minimum: str | None = Field(
        default=None, pattern=r"^[0-9]+(\.[0-9]+)*$", description="Oldest driver that supports the GPU, in quotes. Default: unknown."
    )
    mig: SiteMig | None = Field(default=None, description="MIG profiles of the GPU. Default: the GPU cannot be divided.")


class SiteArchitecture(SiteRow):
    """A generation of GPUs."""

    kernel_modules: tuple[Literal["open", "proprietary"], ...] = Field(
        min_length=1, description="Variants of kernel modules that support it, the preferred one first."
    )
    driver_first: int = Field(ge=300, le=9999, description="First driver branch that supports it, for example 620.")
    driver_last: int | None = Field(default=None, ge=300, le=9999, description="Last driver branch that supports it. Default: none so far.")
    cuda_first: str = Field(pattern=r"^[0-9]+\.[0-9]+$", description='First CUDA release that supports it, in quotes, for example "13.2".')
    cuda_last: str | None = Field(
        default=None, pattern=r"^[0-9]+\.[0-9]+$", description="Last CUDA release that supports it, in quotes. Default: none so far."
    )


class SiteBranch(SiteRow):
    """A driver branch."""

    kind: str = Field(min_length=1, description="Kind of the branch, for example production.")
    ends: Day = Field(description="Last day of its support.")
    cuda: int = Field(ge=11, le=99, description="Highest CUDA major version that it runs without a compatibility package.")


class SiteCuda(SiteRow):
    """A CUDA major version."""

    driver_minimum: int = Field(
        ge=300, le=9999, description="Oldest driver branch that runs programs of every release of this major version."
    )


class SiteSwitch(SiteRow):
    """A switch model whose ports all have the same rate."""

    product: str = Field(min_length=1, description="Product name.")
    use: Literal["compute", "management"] = Field(default="compute", description="Plane that the switch is for.")
    link_layer: Literal["InfiniBand", "Ethernet"] = Field(description="Link layer: InfiniBand or Ethernet.")
    ports: int = Field(ge=2, le=1024, description="Number of ports.")
    rate_gbps: int = Field(ge=1, description="Rate of a port in Gb/s.")
    speed: str = Field(min_length=1, description="Speed as `ibnetdiscover -p` prints it, for example HDR; for Ethernet for example 100GbE.")
    width: str = Field(default="4x", pattern=r"^[0-9]+x$", description="Lanes of a link, for example 4x.")
    split_rate: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9]+$",
        description="Rate of a port that is split into two, for example NDR200. Default: not split.",
    )
    splits: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$")], Annotated[int, Field(ge=2, le=8)]] = Field(
        default={}, description="Rates of split ports with the number of parts, for example {200GbE: 2, 100GbE: 4}."
    )
    rack_units: int = Field(ge=1, description="Height in rack units.")
    line_card: str | None = Field(
        default=None,
        pattern=r"^[1-9][0-9]*x[1-9][0-9]*$",
        description="Line card of a director switch: its chips by the outward ports of a chip, for example 2x18. Default: one chip.",
    )
    subnet_manager: bool | None = Field(default=None, description="The switch can run a subnet manager. Default: unknown.")
    subnet_manager_nodes: int | None = Field(default=None, ge=1, description="Nodes that its subnet manager serves. Default: unknown.")


class SitePrice(ConfigModel):
    """On-demand price of an instance type."""

    usd_per_hour: float = Field(gt=0, description="Price per hour in USD.")
    region: str = Field(min_length=1, description="AWS region of the price.")
    source: str = Field(min_length=3, description="Where the price is from.")
    date: Day = Field(description="Day of the price.")


class SiteInstance(SiteRow):
    """An EC2 instance type, with the figures of `aws ec2 describe-instance-types`."""

    architecture: Literal["x86_64", "arm64"] = Field(description="Processor architecture: x86_64 or arm64.")
    cpus: int = Field(ge=1, description="vCPUs.")
    cores: int = Field(ge=1, description="Cores.")
    memory_mib: int = Field(ge=1, description="Memory in MiB.")
    gpu_model: Label | None = Field(default=None, description="GPU model: a row of the GPU catalogue. Default: no GPUs.")
    gpu_count: int = Field(default=0, ge=0, description="GPUs.")
    neuron_devices: int = Field(default=0, ge=0, description="Inferentia and Trainium devices.")
    efa_interfaces: int = Field(default=0, ge=0, description="EFA interfaces, one for each card.")
    network_cards: int = Field(default=1, ge=1, description="Network cards.")
    interfaces_per_card: int = Field(default=2, ge=1, description="Interfaces of each network card.")
    primary_card_takes_efa: bool = Field(default=True, description="Card 0 takes an EFA interface.")
    gbps: float = Field(gt=0, description="Network bandwidth of all cards together in Gb/s.")
    nvme_gb: int = Field(default=0, ge=0, description="Instance storage in GB.")
    usage_classes: tuple[Literal["on-demand", "spot", "capacity-block"], ...] = Field(
        default=("on-demand",), min_length=1, description="Purchase options: on-demand, spot, capacity-block."
    )
    cluster_placement: bool = Field(default=False, description="The type can start in a cluster placement group.")
    regions: tuple[str, ...] = Field(min_length=1, description="Regions where the type is sold.")
    price: SitePrice | None = Field(default=None, description="On-demand price. Default: unknown.")


BranchNumber = Annotated[str, Field(pattern=r"^[1-9][0-9]{2,3}$")]
CudaMajor = Annotated[str, Field(pattern=r"^[1-9][0-9]$")]
InstanceName = Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$")]


class SiteRows(ConfigModel):
    """One file of the site's catalogue."""

    gpus: dict[Label, SiteGpu] = Field(default={}, description="GPU models, by name.")
    switches: dict[Label, SiteSwitch] = Field(default={}, description="Switch models, by name.")
    instances: dict[InstanceName, SiteInstance] = Field(default={}, description="EC2 instance types, by name.")
    architectures: dict[Label, SiteArchitecture] = Field(default={}, description="Architectures of GPUs, by name.")
    driver_branches: dict[BranchNumber, SiteBranch] = Field(default={}, description="Driver branches, by number.")
    cuda: dict[CudaMajor, SiteCuda] = Field(default={}, description="CUDA major versions, by number.")


@dataclass(frozen=True, eq=False)
class SiteCatalog:
    """The valid rows of all files, and findings about the others. Two are equal if they are one, so that tables can be cached by it."""

    rows: SiteRows
    findings: tuple[Finding, ...]


def folder() -> Path:
    """Return the folder of the site's catalogue, which may not exist."""
    return _folder_from(os.getcwd(), os.environ.get(layout.PROJECT_ENV))


@cache
def _folder_from(_working_directory: str, _named: str | None) -> Path:
    """Return the folder to which these two lead.

    The rules ask for it 9,000 times for 265 nodes. To look for the project each time took half of their CPU time.
    """
    return layout.project_root() / layout.SITE_CATALOG


def catalog() -> SiteCatalog:
    """Return the site's catalogue; each process reads it once."""
    return _read(folder())


def hint_to_add(kind: str, name: str) -> str:
    """Return the hint that says how to add a row of this kind, for example gpus."""
    return f"add a row `{kind}: {{{name}: {{…, source: …, date: …}}}}` to {layout.SITE_CATALOG}/{kind}.yml (docs/catalog.md)"


def hint_to_add_mig(model: str) -> str:
    """Return the hint that says how to add MIG profiles. A model of the product needs a row of another name: its own cannot be changed."""
    own = model in catalog().rows.gpus
    row = f"the row `gpus: {model}`" if own else f"a GPU row of another name than {model}"
    return f"add `mig: {{profiles: {{…}}, source: …, date: …}}` to {row} in {layout.SITE_CATALOG}/gpus.yml (docs/catalog.md)"


@cache
def _read(place: Path) -> SiteCatalog:
    merged: dict[str, dict[str, Any]] = {kind: {} for kind in SiteRows.model_fields}
    findings: list[Finding] = []
    for file in sorted((*place.glob("*.yml"), *place.glob("*.yaml"))):
        rows, found = _rows(file)
        findings += found
        for kind, known in merged.items():
            findings += _merge(known, getattr(rows, kind), f"{layout.SITE_CATALOG}/{file.name}: {kind}")
    findings += _without_architecture(merged)
    return SiteCatalog(SiteRows(**merged), tuple(findings))


def _rows(file: Path) -> tuple[SiteRows, list[Finding]]:
    """Return the rows of a file, none if one of them is invalid, and the findings."""
    name = f"{layout.SITE_CATALOG}/{file.name}"
    data, found = yaml_reader.read(file)
    if has_errors(found):
        return SiteRows(), found
    if not isinstance(data, Mapping):
        kinds = ", ".join(f"`{kind}:`" for kind in SiteRows.model_fields)
        hint = f"write one of {kinds} and the rows below, or remove the file"
        return SiteRows(), [Finding(Severity.ERROR, RULE, name, "is empty" if data is None else "expected a mapping", hint)]
    try:
        return SiteRows.model_validate_json(json.dumps(data, default=str), strict=True), found
    except ValidationError as error:
        problems = [problem.finding for problem in explain(error, SiteRows)]
        return SiteRows(), [Finding(one.level, RULE, f"{name}: {one.path}", one.cause, one.hint) for one in problems]


def _without_architecture(merged: dict[str, dict[str, Any]]) -> list[Finding]:
    """Remove GPUs whose architecture neither catalogue has, because no rule can judge them; return a finding for each."""
    known = [*load_yaml(_COMPATIBILITY.read_text(encoding="utf-8"))["architectures"], *merged["architectures"]] if merged["gpus"] else []
    lost = {name: row.architecture for name, row in merged["gpus"].items() if row.architecture not in known}
    for name in lost:
        del merged["gpus"][name]
    return [
        Finding(
            Severity.ERROR,
            RULE,
            f"{layout.SITE_CATALOG}: gpus.{name}.architecture",
            f"`{architecture}` is not one of {', '.join(known)}",
            did_you_mean_model(architecture, known, hint_to_add("architectures", architecture)),
        )
        for name, architecture in lost.items()
    ]


def _merge(known: dict[str, Any], new: Mapping[str, Any], where: str) -> list[Finding]:
    """Add rows; return a finding for each name that occurs in another file."""
    twice = [f"{where}.{name}" for name in new if name in known]
    known.update(new)
    return [Finding(Severity.ERROR, RULE, path, "another file has a row of this name", "remove one of them") for path in twice]
