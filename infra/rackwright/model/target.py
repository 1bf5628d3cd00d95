"""Where nodes come from. Each target is one class here, with what the plan must know of it as attributes, and one folder in `targets/`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.hosts import HostsTarget
from rackwright.model.policy import Change


class LabOs(StrEnum):
    """Operating systems the lab has an image recipe for."""

    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"


class ImageSource(StrEnum):
    """Where the base image comes from: `auto` pulls where a registry answers and bootstraps otherwise."""

    AUTO = "auto"
    PULL = "pull"
    BOOTSTRAP = "bootstrap"


class LabTarget(Part):
    """Containers on this machine that run systemd: the real thing, smaller."""

    simulated: ClassVar[tuple[str, ...]] = ("gpu",)
    """Subsystems whose evidence is simulated here."""
    owns_network: ClassVar[bool] = True
    """Whether the network is ours: then only login nodes are published and all others are reached through them."""
    gives_cgroups: ClassVar[bool] = False
    """Whether the nodes' kernels give Slurm cgroups of its own."""
    sets_hostname: ClassVar[bool] = False
    """Whether nodes are given their names by a role; here they are born with them."""
    owns_kernel: ClassVar[bool] = False
    """Whether nodes have kernels of their own: then their clocks and kernel settings are ours to keep."""
    declared_hardware: ClassVar[bool] = True
    """Whether CPUs and memory are what the stack declares rather than what the node shows."""
    default_cpus: ClassVar[int] = 2
    default_memory: ClassVar[int] = 2**30
    bills: ClassVar[bool] = False
    """Whether its nodes cost money by the hour."""
    baked: ClassVar[bool] = True
    """Whether nodes start from an image that holds what the roles install."""
    via: ClassVar[str | None] = None
    """The node through which others are reached where the network is not ours."""

    kind: Annotated[Literal["lab"], Change.FORBIDDEN] = Field(description="Containers on this machine.")
    os: Annotated[LabOs, Change.FORBIDDEN] = Field(default=LabOs.DEBIAN_13, description="The operating system of every node.")
    image: Annotated[ImageSource, Change.NEW] = Field(
        default=ImageSource.AUTO, description="Pull the base image, bootstrap it, or whichever works."
    )
    mirror: Annotated[str | None, Change.NEW] = Field(
        default=None, pattern=r"^https?://\S+$", description="Package mirror for the bootstrap; the system's own otherwise."
    )

    def place_of(self, name: str) -> None:
        """The plan gives nodes their addresses."""

    def os_of(self, name: str) -> str:
        """One image, one system."""
        return self.os.value


Target = Annotated[LabTarget | HostsTarget, Field(discriminator="kind")]
