"""The vendor's disk image from which virtual machines start."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.update_policy import UpdatePolicy


class CloudImage(ConfigModel):
    """A vendor's disk image (qcow2 or raw, x86_64, with a boot loader for BIOS) that cloud-init configures at the first boot."""

    file: Annotated[str, UpdatePolicy.NEW] = Field(
        pattern=r"^(/|~/)[^\x00]+$", description="Path of the image on this machine, absolute or in the home folder (~/images/noble.img)."
    )
    digest: Annotated[str, UpdatePolicy.NEW] = Field(
        pattern=r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$",
        description="Digest of the file that the vendor publishes: `sha256:` or `sha512:` and the hexadecimal digits.",
    )
