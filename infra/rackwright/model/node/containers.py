"""Container tools for users."""

from __future__ import annotations

from enum import StrEnum


class ContainerRuntime(StrEnum):
    """Container tools that can be installed on a node. enroot includes pyxis, its Slurm plugin."""

    PODMAN = "podman"
    DOCKER = "docker"
    APPTAINER = "apptainer"
    ENROOT = "enroot"
