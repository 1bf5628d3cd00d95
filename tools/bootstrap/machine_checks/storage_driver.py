"""Storage driver of rootless Podman. Podman 4.3 chooses vfs unless a file names another, and vfs copies the whole image for each node."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from bootstrap.machine import Machine
from bootstrap.machine_checks.capacity import observe_storage
from bootstrap.machine_checks.finding import Finding, Level, ok
from bootstrap.machine_checks.observation import read_file, run_command

OVERLAY = '[storage]\ndriver = "overlay"\n'
"""Content of a storage.conf that chooses overlay."""
_OVERLAY_KERNEL = (5, 13)
"""The first kernel that mounts overlay for a user, with SELinux too (Podman's rootless tutorial); older ones need fuse-overlayfs."""
_SYSTEM_FILES = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")
"""The first one takes precedence (containers-storage.conf(5))."""


class StorageDriver(NamedTuple):
    """What decides which driver Podman uses."""

    existing: str
    """Driver of the existing store; empty without one."""
    declared: str
    """Driver that the environment or a storage.conf names; empty without one."""
    podman: str
    """Output of `podman --version`; empty without Podman."""
    kernel: str
    file: Path
    """The user's own storage.conf."""
    has_file: bool

    @property
    def name(self) -> str:
        """Return the driver; empty if Podman chooses it, which was overlay in Podman 5.

        4.3 of Debian 12 chose vfs for a user, with fuse-overlayfs too (2026-11-30).
        """
        old = re.search(r"version [0-4]\.", self.podman) is not None
        return self.existing or self.declared or ("vfs" if old else "")

    @property
    def is_open(self) -> bool:
        """Return whether Podman would choose vfs only because no store and no file exists, so that setup may choose overlay."""
        release = tuple(int(part) for part in re.findall(r"\d+", self.kernel)[:2])
        return self.name == "vfs" and not (self.existing or self.declared or self.has_file) and release >= _OVERLAY_KERNEL


def observe_storage_driver(machine: Machine) -> StorageDriver:
    """Find the driver. Podman is not asked: it would create the store with the driver that it chooses."""
    folder = observe_storage(machine).folder
    existing = [name for name in ("overlay", "vfs") if os.path.isdir(os.path.join(folder, f"{name}-images"))]
    home = machine.environ.get("HOME", "/")
    own = Path(machine.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")) / "containers/storage.conf"
    version = run_command(machine, "podman", "--version")
    return StorageDriver(
        existing[0] if existing else "",
        machine.environ.get("STORAGE_DRIVER", "") or _declared_driver(machine, own),
        version.stdout if version else "",
        read_file(machine, "/proc/sys/kernel/osrelease") or "",
        own,
        own.exists(),
    )


def _declared_driver(machine: Machine, own: Path) -> str:
    """Return the driver that the first of the files names; empty without one."""
    try:
        texts = [own.read_text(encoding="utf-8", errors="replace")]
    except OSError:
        texts = []
    for text in (*texts, *(read_file(machine, path) or "" for path in _SYSTEM_FILES)):
        match = re.search(r'^\s*driver\s*=\s*"(\w+)"', text, re.MULTILINE)
        if match:
            return match[1]
    return ""


def check_storage_driver(machine: Machine) -> Finding:
    """Check the driver that Podman uses or will choose."""
    return judge_storage_driver(observe_storage_driver(machine))


def judge_storage_driver(driver: StorageDriver) -> Finding:
    """Judge the driver; one that setup chooses before the first node is no finding."""
    subject = "storage driver"
    if driver.is_open:
        return ok(subject, f"overlay, as soon as `make setup` has written {driver.file}")
    if driver.name != "vfs":
        return ok(subject, driver.name or "Podman's own choice")
    return Finding(
        Level.WARNING,
        subject,
        "copies whole images (expected overlay, found vfs)",
        "each node takes 0.7 GiB and starts slowly",
        (
            *(("podman system reset --force",) if driver.existing else ()),
            "mkdir -p ~/.config/containers",
            "printf '[storage]\\ndriver = \"overlay\"\\n' >> ~/.config/containers/storage.conf",
        ),
        "`podman system reset` removes all containers and images of this user." if driver.existing else "",
    )
