"""Query block devices and their signatures."""

from __future__ import annotations

import os
import stat
import subprocess


class DiskError(Exception):
    """A disk that cannot be used as it is: where, what, what now."""


def is_block_device(device: str) -> bool:
    """Whether a block device is there, links followed."""
    try:
        return stat.S_ISBLK(os.stat(device).st_mode)
    except OSError:
        return False


def signatures(device: str) -> list[str]:
    """What a disk holds, as wipefs names it: file systems, partition tables, parts of volume groups and arrays; each once."""
    return sorted(set(call("wipefs", "--noheadings", "--output", "TYPE", device).split()))


def hides(mount: str) -> bool:
    """Whether mounting there would put files out of sight."""
    return not os.path.ismount(mount) and os.path.isdir(mount) and bool(os.listdir(mount))


def call(*command: str) -> str:
    """What a command prints; its complaint where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise DiskError(f"{command[0]}: command not found - install util-linux and e2fsprogs on this node") from None
    if done.returncode:
        raise DiskError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip() or f'exit code {done.returncode}'}")
    return done.stdout
