"""Query block devices and their signatures."""

from __future__ import annotations

import os
import stat
import subprocess

BLOCKS = "/sys/class/block"
PACKAGES = {"mdadm": "mdadm", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "wipefs": "util-linux"}
"""Packages of the tools, on Debian and Enterprise Linux alike."""


class DiskError(Exception):
    """A disk error: place, problem, hint."""


def is_block_device(device: str) -> bool:
    """Return whether the path is a block device, following links."""
    try:
        return stat.S_ISBLK(os.stat(device).st_mode)
    except OSError:
        return False


def signatures(device: str) -> list[str]:
    """Return the signatures of a disk from wipefs (file systems, partition tables, volume groups, arrays), each once."""
    return sorted(set(call("wipefs", "--noheadings", "--output", "TYPE", device).split()))


def arrays_of(device: str) -> list[str]:
    """Return the running arrays that the disk is a member of, as device paths: sysfs, block/*/holders."""
    try:
        holders = os.listdir(os.path.join(BLOCKS, os.path.basename(os.path.realpath(device)), "holders"))
    except OSError:
        return []
    return sorted(os.path.join("/dev", name) for name in holders if name.startswith("md"))


def hides(mount: str) -> bool:
    """Return whether mounting there would hide files, links or another mounted file system. Packages leave empty directories."""
    if os.path.ismount(mount):
        return False
    for folder, directories, files in os.walk(mount):
        inside = [os.path.join(folder, name) for name in directories]
        if files or any(os.path.islink(path) or os.path.ismount(path) for path in inside):
            return True
    return False


def call(*command: str) -> str:
    """Return the output of a command. Raise DiskError if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        package = PACKAGES.get(command[0], command[0])
        raise DiskError(f"{command[0]}: command not found - install the package {package} on this node") from None
    if done.returncode:
        raise DiskError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip() or f'exit code {done.returncode}'}")
    return done.stdout
