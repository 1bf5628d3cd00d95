"""Kernel settings, memory pages and limits of nodes that compute."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Label


class TunedProfile(StrEnum):
    """Profiles that the tuned package brings itself, on every distribution the roles know."""

    HPC_COMPUTE = "hpc-compute"
    LATENCY = "latency-performance"
    THROUGHPUT = "throughput-performance"
    ACCELERATOR = "accelerator-performance"
    VIRTUAL_GUEST = "virtual-guest"


class TransparentHugepages(StrEnum):
    """When the kernel backs ordinary memory with 2 MiB pages by itself."""

    ALWAYS = "always"
    MADVISE = "madvise"
    NEVER = "never"


class PageSize(StrEnum):
    """Huge pages that x86-64 has."""

    TWO_MIB = "2MiB"
    ONE_GIB = "1GiB"


PAGE_BYTES: Final = {PageSize.TWO_MIB: 2**21, PageSize.ONE_GIB: 2**30}


class Limit(StrEnum):
    """What a process may use, as limits.conf names it."""

    MEMLOCK = "memlock"
    NOFILE = "nofile"
    NPROC = "nproc"
    STACK = "stack"


LimitValue = Annotated[int, Field(ge=1)] | Literal["unlimited"]
SysctlName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*([./][A-Za-z0-9_-]+)+$")]
SysctlValue = int | Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$")]


class Tuning(Part):
    """How nodes are tuned. Their kernels are told; in containers that is the machine's business, and nothing is done."""

    groups: Annotated[tuple[Label, ...], Change.LIVE] = Field(
        default=(), description="Groups that are tuned; all that run jobs when left out. One that is taken out keeps what it has."
    )
    profile: Annotated[TunedProfile, Change.LIVE] = Field(
        default=TunedProfile.HPC_COMPUTE, description="The tuned profile that everything else here is added to."
    )
    transparent_hugepages: Annotated[TransparentHugepages | None, Change.LIVE] = Field(
        default=None, description="When ordinary memory gets huge pages by itself; as the profile has it when left out."
    )
    hugepages: Annotated[dict[PageSize, Annotated[int, Field(ge=0)]], Change.LIVE] = Field(
        default={}, description="Huge pages set aside on every node, by size, like 2MiB: 1024. Only programs that ask for them use them."
    )
    limits: Annotated[dict[Limit, LimitValue], Change.LIVE] = Field(
        default={Limit.MEMLOCK: "unlimited", Limit.NOFILE: 1048576},
        description="Limits of logins and of services: memlock in KiB, nofile and nproc in numbers, stack in KiB, or unlimited.",
    )
    sysctl: Annotated[dict[SysctlName, SysctlValue], Change.LIVE] = Field(
        default={}, description="Kernel settings beside the profile's, like vm.swappiness: 10."
    )
