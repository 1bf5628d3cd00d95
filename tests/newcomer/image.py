"""The disk images of the machines: plain Debian, built once for each recipe and cached for the user."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from newcomer.errors import MachineError

SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}
PACKAGES = (
    "ca-certificates",
    "dbus",
    "dbus-user-session",
    "e2fsprogs",
    "git",
    "initramfs-tools",
    "iproute2",
    "iputils-ping",
    "kmod",
    "less",
    "libpam-systemd",
    "linux-image-amd64",
    "make",
    "netbase",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd-resolved",
    "systemd-sysv",
    "systemd-timesyncd",
    "udev",
)
"""What an installer brings, and git, make and python3, which the README expects; nothing of the lab."""
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
}
"""Commands of this machine, with the Debian packages that bring them."""
_DISK = "60G"
_HERE = Path(__file__).resolve().parent
_SCRIPTS = ("prepare.sh", "pack.sh")
_LOCAL_CERTIFICATES = Path("/usr/local/share/ca-certificates")
_TIMEOUT = 3600.0
_TAIL = 20


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the content of an image, except the state of the archive."""

    os: str
    packages: tuple[str, ...]
    scripts: tuple[str, ...]
    """Texts of the scripts that build it."""
    certificates: tuple[tuple[str, str], ...]
    """Names and texts of this machine's own CA certificates: whatever intercepts TLS here does so in the guest."""
    disk: str = _DISK

    @property
    def suite(self) -> str:
        """Return Debian's code name of the release."""
        return SUITES[self.os]

    @property
    def digest(self) -> str:
        """Return 12 hexadecimal digits that identify the recipe."""
        digest = hashlib.sha256()
        certificates = (part for pair in self.certificates for part in pair)
        for part in (self.os, self.suite, self.disk, *sorted(self.packages), "", *self.scripts, "", *certificates):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Image:
    """One built image: a raw ext4 file without partitions, and what boots it."""

    folder: Path

    @property
    def disk(self) -> Path:
        """Return the path of the raw disk."""
        return self.folder / "disk.raw"

    @property
    def kernel(self) -> Path:
        """Return the path of the kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """Return the path of the initial RAM disk."""
        return self.folder / "initrd"


def read_recipe(os_name: str, certificates: Path = _LOCAL_CERTIFICATES) -> Recipe:
    """Return the recipe of a release, with this machine's CA certificates."""
    scripts = tuple((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    own = tuple((path.name, path.read_text(encoding="utf-8")) for path in sorted(certificates.glob("*.crt")))
    return Recipe(os_name, PACKAGES, scripts, own)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for images, caches and runs of these tests."""
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return Path(cache) / "rackwright" / "newcomer"


def missing_tools() -> list[str]:
    """Return the Debian packages to install on this machine."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return [package for command, package in TOOLS.items() if shutil.which(command, path=folders) is None]


def require_tools() -> None:
    """Raise MachineError with the command that installs what is missing."""
    if packages := missing_tools():
        sudo = "" if os.getuid() == 0 else "sudo "
        raise MachineError(
            f"virtual machines: programs missing (expected {', '.join(TOOLS)})\n"
            f"  {sudo}apt-get install -y --no-install-recommends {' '.join(packages)}"
        )


def provide_image(os_name: str) -> Image:
    """Return the image of a release; build it if the cache does not hold it."""
    recipe = read_recipe(os_name)
    images = cache_folder() / "images"
    image = Image(images / f"{os_name}-{recipe.digest}")
    images.mkdir(parents=True, exist_ok=True)
    with _hold_lock(images / f".{os_name}.lock"):
        if not image.folder.exists():
            _build(recipe, image)
            _remove_other_builds(images, image)
    return image


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(recipe: Recipe, image: Image) -> None:
    started = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=f".{image.folder.name}-", dir=image.folder.parent))
    # mmdebstrap's own user namespace has to reach the hook's files.
    work.chmod(0o755)
    try:
        archive = work / "root.tar"
        _run(bootstrap_command(recipe, archive, _write_certificates(recipe, work)))
        _run([*_as_owner_of_files(), str(_HERE / "pack.sh"), str(archive), str(work), recipe.disk])
        archive.unlink()
        shutil.rmtree(work / "certificates")
        work.rename(image.folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"image {image.folder.name}: built in {time.monotonic() - started:.0f} s", flush=True)


def bootstrap_command(recipe: Recipe, archive: Path, certificates: Path) -> list[str]:
    """Return the mmdebstrap command; the mirror is mmdebstrap's default for the release."""
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        "--components=main",
        f"--include={','.join(recipe.packages)}",
        f'--customize-hook={shlex.quote(str(_HERE / "prepare.sh"))} "$1" {shlex.quote(str(certificates))}',
        recipe.suite,
        str(archive),
    ]


def _write_certificates(recipe: Recipe, work: Path) -> Path:
    folder = work / "certificates"
    folder.mkdir()
    for name, text in recipe.certificates:
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _as_owner_of_files() -> list[str]:
    """Return the prefix under which an ordinary user may set owners: a user namespace with the subordinate ids."""
    return [] if os.getuid() == 0 else ["unshare", "--map-root-user", "--map-auto"]


def _run(command: list[str]) -> None:
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT,
        check=False,
        env={**os.environ, "PATH": folders},
    )
    if ended.returncode != 0:
        last = "\n".join(ended.stdout.splitlines()[-_TAIL:])
        raise MachineError(f"image: {command[0]} failed with exit code {ended.returncode}\n{last}")


def _remove_other_builds(images: Path, image: Image) -> None:
    """Remove images of older recipes, unless a machine still has one of their files as backing file."""
    os_name = image.folder.name.rsplit("-", 1)[0]
    for other in images.glob(f"{os_name}-*"):
        if other != image.folder and not _is_in_use(other):
            shutil.rmtree(other, ignore_errors=True)


def _is_in_use(folder: Path) -> bool:
    for run in (cache_folder() / "runs").glob("*/*/image"):
        with contextlib.suppress(OSError):
            if Path(run.read_text(encoding="utf-8")) == folder:
                return True
    return False
