#!/usr/bin/python3
"""Create the device files of simulated GPUs: /dev/nvidia0 and so on. Arguments: how many, and their major device number.

Where the kernel lets this user make devices, each is one of its own. In a user namespace (rootless Podman) it does not. There each is the
slave of a pseudoterminal, mounted under the GPU's name: a character device with a number of its own that needs no privilege. Its master
is closed at once, so that opening the file fails with EIO (drivers/tty/pty.c, pts_unix98_lookup), as opening a device without a driver
fails with ENXIO.
"""

from __future__ import annotations

import glob
import os
import stat
import subprocess
import sys

MODE = 0o666
PREFIX = "/dev/nvidia"


def remove_devices(major: int, prefix: str) -> None:
    """Remove what an earlier start made, and nothing else: mounts, the files they lie on, and devices with the simulation's number."""
    for path in glob.glob(f"{prefix}[0-9]*"):
        mounted = os.path.ismount(path)
        if mounted:
            subprocess.run(["umount", path], check=True)
        found = os.lstat(path)
        own = stat.S_ISCHR(found.st_mode) and os.major(found.st_rdev) == major
        if mounted or own or (stat.S_ISREG(found.st_mode) and found.st_size == 0):
            os.unlink(path)


def create_devices(count: int, major: int, prefix: str) -> None:
    """Create `count` devices; PermissionError where this user may make none."""
    for index in range(count):
        path = f"{prefix}{index}"
        os.mknod(path, stat.S_IFCHR | MODE, os.makedev(major, index))
        os.chmod(path, MODE)


def mount_terminals(count: int, prefix: str) -> None:
    """Mount the slave of a pseudoterminal under each name; all are open at the same time, or they would share one number."""
    terminals = [os.openpty() for _ in range(count)]
    try:
        for index, (_, slave) in enumerate(terminals):
            path = f"{prefix}{index}"
            os.fchmod(slave, MODE)
            with open(path, "w", encoding="ascii"):
                pass
            subprocess.run(["mount", "--bind", os.ttyname(slave), path], check=True)
    finally:
        for descriptor in (descriptor for pair in terminals for descriptor in pair):
            os.close(descriptor)


def main(count: int, major: int, prefix: str = PREFIX) -> None:
    """Bring the devices to `count`."""
    remove_devices(major, prefix)
    try:
        create_devices(count, major, prefix)
    except PermissionError:
        mount_terminals(count, prefix)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
