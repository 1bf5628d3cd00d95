"""What users run containers with."""

from __future__ import annotations

from enum import StrEnum


class ContainerRuntime(StrEnum):
    """Container tools a node can be given. enroot comes with pyxis, Slurm's plugin for it."""

    PODMAN = "podman"
    DOCKER = "docker"
    APPTAINER = "apptainer"
    ENROOT = "enroot"
