"""Programs of this machine that virtual machines need: refused before the first resource if one is missing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pulumi

from rackwright.drivers.vm import cloud_image
from rackwright.drivers.vm.command_line import BINARY
from rackwright.drivers.vm.emulated_processor import qemu_version
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.model.targets.cloud_image import CloudImage
from rackwright.model.targets.vm import VmTarget
from rackwright.plan import Plan

_PROGRAMS: Final = {BINARY: "qemu-system-x86", "qemu-img": "qemu-utils"}
"""Program and the Debian package that has it."""
_BUILD_PROGRAMS: Final = {"mke2fs": "e2fsprogs", "podman": "podman"}
"""Podman builds the image, unless it is a vendor's; no machine runs in it."""
_FOLDERS: Final = "/usr/sbin:/sbin"
_OLDEST: Final = (7, 2)
"""Release of QEMU with network cards whose frames are datagrams of UNIX sockets (QEMU ChangeLog/7.2, netdev dgram)."""


def refuse_unfit(plan: Plan) -> None:
    """Raise where virtual machines of this plan cannot run here, with every reason and the command that helps."""
    if not isinstance(plan.target, VmTarget):
        return
    programs = _PROGRAMS if plan.target.cloud_image else {**_PROGRAMS, **_BUILD_PROGRAMS}
    missing = [program for program in programs if not _found(program)]
    if missing:
        packages = " ".join(programs[program] for program in missing)
        raise pulumi.RunError(
            f"stacks/Pulumi.{plan.stack}.yaml: target.kind: vm: {', '.join(missing)} not installed\n"
            f"  Debian, Ubuntu: `sudo apt install {packages}`"
        )
    release = qemu_release(qemu_version())
    if release is not None and release < _OLDEST:
        found = ".".join(map(str, release))
        raise pulumi.RunError(
            f"stacks/Pulumi.{plan.stack}.yaml: target.kind: vm: QEMU {found} is installed, 7.2 or newer is needed\n"
            "  upgrade it, or use target lab (containers)"
        )
    if plan.target.cloud_image:
        _refuse_unusable(plan.stack, plan.target.cloud_image)


def _refuse_unusable(stack: str, image: CloudImage) -> None:
    """Raise where no machine can start from the image; one that is in the cache was accepted before."""
    if cloud_image.is_complete(paths.machine_images() / cloud_image.name(image.digest)):
        return
    try:
        cloud_image.require_bootable(Path(image.file).expanduser(), image.digest)
    except RackwrightError as error:
        raise pulumi.RunError(f"stacks/Pulumi.{stack}.yaml: target.cloud_image: {error}") from None


def qemu_release(text: str) -> tuple[int, int] | None:
    """Return major and minor release from the output of `--version`, None for an unknown form.

    >>> qemu_release("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"), qemu_release("?")
    ((7, 2), None)
    """
    found = re.search(r"version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _found(program: str) -> bool:
    return shutil.which(program) is not None or shutil.which(program, path=_FOLDERS) is not None
