"""Probe of owner and mode of shared directories, and of directories from which daemons read secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, read_each_line


@dataclass(frozen=True)
class Directory:
    """Owner and mode of a directory as its distribution creates it. A site may add bits up to `most` and remove those not in `least`."""

    owners: tuple[str, ...]
    min_mode: int
    max_mode: int
    on: str = "nodes"
    """Group of the nodes that have the directory."""
    optional: bool = False
    """Whether a node may lack the directory."""

    def allows(self, owner: str, mode: int) -> bool:
        """Return whether owner and mode are within the limits."""
        return owner in self.owners and mode & self.min_mode == self.min_mode and mode & ~self.max_mode == 0

    def __str__(self) -> str:
        modes = f"{self.min_mode:04o}" if self.min_mode == self.max_mode else f"{self.min_mode:04o} to {self.max_mode:04o}"
        return f"{' or '.join(self.owners)} {modes}"


_SHARED: Final = Directory(("root",), 0o1777, 0o1777)
_PROGRAMS: Final = Directory(("root",), 0o555, 0o755)
DIRECTORIES: Final[dict[str, Directory]] = {
    "/tmp": _SHARED,
    "/var/tmp": _SHARED,
    "/dev/shm": _SHARED,
    **dict.fromkeys(("/", "/etc", "/run", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/var", "/var/lib"), _PROGRAMS),
    "/etc/ssh": _PROGRAMS,
    "/var/log": Directory(("root",), 0o555, 0o775),
    "/run/lock": Directory(("root",), 0o755, 0o1777, optional=True),
    "/root": Directory(("root",), 0o500, 0o750),
    "/etc/sudoers.d": Directory(("root",), 0o500, 0o755, optional=True),
    "/etc/slurm": Directory(("root", "slurm"), 0o555, 0o755, "slurm", optional=True),
    "/etc/munge": Directory(("munge",), 0o500, 0o700, "slurm"),
    "/var/lib/munge": Directory(("munge",), 0o700, 0o711, "slurm"),
    "/var/log/munge": Directory(("munge",), 0o700, 0o750, "slurm"),
    "/run/munge": Directory(("munge", "root"), 0o711, 0o755, "slurm", optional=True),
}
"""Directories by path. Groups are not compared: an upgraded Debian 12 has the group staff on /usr/local. Sources:
tmpfiles.d/tmp.conf and src/shared/mount-setup.c of systemd 257 (1777), tmpfiles.d/legacy.conf (/run/lock 0755, on Debian 1777);
base-files of Debian 13; filesystem of Rocky Linux 9, whose /, /usr/bin and /usr/lib are 0555 and whose /root is 0550;
rsyslog of Ubuntu 24.04 (/var/log 0775, group syslog); slurm.conf(5), which every user's commands read;
the installation guide of munge 0.5 (0700, 0711, 0700, /run/munge 0755), whose daemon refuses a key that others can replace: munged(8),
--key-file. Users reach the socket in /run/munge, which systemd removes with the daemon, only if all may enter the directory: munged(8),
--socket."""


def directories_of(context: ProbeContext) -> dict[str, Directory]:
    """Return the directories that a node has for its roles."""
    return {path: one for path, one in DIRECTORIES.items() if context.node["name"] in context.declared.members(one.on)}


def parse_directories(text: str) -> Lines[tuple[str, int]]:
    """Return owner and mode by path from lines `mode owner path` of stat."""
    found = read_each_line(text, _directory)
    if "/" not in found:
        raise ValueError("the root directory is not listed")
    return found


def _directory(line: str) -> tuple[str, tuple[str, int]]:
    found = re.fullmatch(r"([0-7]+) (.+?) (/.*)", line)  # a user of a directory service may have a blank in the name
    if found is None:
        raise ValueError(f'"{line}" is not a directory')
    return found[3], (found[2], int(found[1], 8))


OWNERSHIP = Probe(
    "directories",
    on="nodes",
    command=lambda context: f"stat --dereference --format='%a %U %n' {' '.join(directories_of(context))} 2>/dev/null; true",
    parse=parse_directories,
)
