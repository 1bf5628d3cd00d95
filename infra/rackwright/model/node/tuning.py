"""Kernel settings, huge pages and resource limits of compute nodes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from rackwright.model import limits
from rackwright.model.base import ConfigModel
from rackwright.model.names import Label
from rackwright.model.update_policy import UpdatePolicy


class TunedProfile(StrEnum):
    """Profiles of the tuned package, available on every distribution that the roles support."""

    HPC_COMPUTE = "hpc-compute"
    LATENCY = "latency-performance"
    THROUGHPUT = "throughput-performance"
    ACCELERATOR = "accelerator-performance"
    VIRTUAL_GUEST = "virtual-guest"


class TransparentHugepages(StrEnum):
    """Transparent huge pages: when the kernel uses 2 MiB pages for ordinary memory."""

    ALWAYS = "always"
    MADVISE = "madvise"
    NEVER = "never"


class PageSize(StrEnum):
    """Huge page sizes of x86-64."""

    TWO_MIB = "2MiB"
    ONE_GIB = "1GiB"


PAGE_BYTES: Final = {PageSize.TWO_MIB: 2**21, PageSize.ONE_GIB: 2**30}


class Limit(StrEnum):
    """Resource limits, named as in limits.conf."""

    MEMLOCK = "memlock"
    NOFILE = "nofile"
    NPROC = "nproc"
    STACK = "stack"


LimitValue = Annotated[int, Field(ge=1), limits.RESOURCE_LIMIT] | Literal["unlimited"]
SysctlName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*([./][A-Za-z0-9_-]+)+$")]
SysctlValue = int | Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$")]


class Tuning(ConfigModel):
    """Tuning of the nodes' kernels. Nodes that are containers share their host's kernel and are not tuned."""

    groups: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Groups to tune. Default: all groups that run jobs. A group that is removed keeps its settings."
    )
    profile: Annotated[TunedProfile, UpdatePolicy.LIVE] = Field(
        default=TunedProfile.HPC_COMPUTE, description="tuned profile, to which the other settings are added."
    )
    transparent_hugepages: Annotated[TransparentHugepages | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Transparent huge pages. Default: the setting of the profile."
    )
    hugepages: Annotated[dict[PageSize, Annotated[int, Field(ge=0)]], UpdatePolicy.LIVE] = Field(
        default={},
        description="Number of reserved huge pages per node, by size, for example 2MiB: 1024. Only programs that request them use them.",
    )
    limits: Annotated[dict[Limit, LimitValue], UpdatePolicy.LIVE] = Field(
        default={Limit.MEMLOCK: "unlimited", Limit.NOFILE: 1048576},
        description="Resource limits of logins and services: memlock and stack in KiB, nofile and nproc as numbers, or unlimited.",
    )
    sysctl: Annotated[dict[SysctlName, SysctlValue], UpdatePolicy.LIVE] = Field(
        default={}, description="Kernel settings in addition to the profile's, for example vm.swappiness: 10."
    )
