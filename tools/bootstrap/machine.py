"""The machine the bootstrap runs on."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import pwd
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from bootstrap.failure import Failure

_ELSEWHERE = {
    "Darwin": "macOS: the lab needs a Linux kernel. Use a Linux machine or a virtual one, for example\n"
    "  limactl start template://debian-12 && limactl shell debian-12\n"
    "and run make there, in a checkout inside the virtual machine. Never tried by this project.",
    "Windows": "Windows: the lab needs a Linux kernel. Use WSL 2, for example\n"
    "  wsl --install -d Debian\n"
    "and run make there, in a checkout inside WSL's own file system. Never tried by this project.",
}


class Machine:
    """The machine, as the bootstrap sees it; tests create one with another root folder and PATH."""

    def __init__(
        self,
        system: str,
        processor: str,
        root: Path,
        environ: Mapping[str, str],
        user_id: int,
        python: tuple[int, int] = (0, 0),
        user: str = "",
    ) -> None:
        self.system = system
        self.processor = processor
        self.root = root
        self.environ = environ
        self.user_id = user_id
        self.python = python
        self.user = user or _user_name(user_id)
        """Login name; the user id as text if it has no name."""
        self.release = _os_release(root)

    @classmethod
    def this(cls, environ: Mapping[str, str]) -> Machine:
        """Return the actual machine."""
        return cls(platform.system(), platform.machine(), Path("/"), environ, os.getuid(), sys.version_info[:2])

    def must_be_linux(self) -> None:
        """Raise Failure on other systems, with the alternative for the system."""
        if self.system != "Linux":
            raise Failure(_ELSEWHERE.get(self.system, f"{self.system}: rackwright runs on Linux."))

    @property
    def name(self) -> str:
        """Return the system's name, such as `Debian GNU/Linux 12 (bookworm)`."""
        return self.release.get("PRETTY_NAME", "unknown Linux")

    @property
    def manager(self) -> str:
        """Return the package manager: `apt`, `dnf`, or empty if the bootstrap supports none."""
        families = {self.release.get("ID", ""), *self.release.get("ID_LIKE", "").split()}
        if families & {"debian", "ubuntu"}:
            return "apt"
        if families & {"fedora", "rhel", "centos"}:
            return "dnf"
        return ""

    @property
    def is_root(self) -> bool:
        """Return whether packages can be installed without sudo."""
        return self.user_id == 0

    def which(self, command: str) -> str | None:
        """Return the command's path, also in the administrators' folders, which a user's PATH often omits."""
        path = self.environ.get("PATH", os.defpath).split(os.pathsep)
        administrators = [str(self.root / folder) for folder in ("usr/local/sbin", "usr/sbin", "sbin")]
        return shutil.which(command, path=os.pathsep.join([*path, *administrators]))

    def has_file(self, *candidates: str) -> bool:
        """Return whether one of these files exists and is visible to this user."""
        return any(os.path.exists(self.root / candidate.lstrip("/")) for candidate in candidates)

    def makes_environments(self) -> bool:
        """Return whether this Python can create virtual environments: Debian's lacks ensurepip."""
        importlib.invalidate_caches()
        return importlib.util.find_spec("ensurepip") is not None and importlib.util.find_spec("venv") is not None

    def cache(self) -> Path:
        """Return the user's cache folder for rackwright."""
        folder = self.environ.get("XDG_CACHE_HOME")
        return (Path(folder) if folder else Path(self.environ.get("HOME", "~")).expanduser() / ".cache") / "rackwright"


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def _os_release(root: Path) -> dict[str, str]:
    for place in ("etc/os-release", "usr/lib/os-release"):
        try:
            text = (root / place).read_text(encoding="utf-8")
        except OSError:
            continue
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
    return {}
