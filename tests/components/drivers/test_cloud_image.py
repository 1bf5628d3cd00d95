"""Vendors' disk images: which ones a machine can start from, and what the refusal of the others says. With QEMU's own tools."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rackwright.drivers.vm import cloud_image
from rackwright.drivers.vm.acceleration import _run as run_guest
from rackwright.drivers.vm.acceleration import _sector_guest
from rackwright.errors import InputError, RackwrightError

_MISSING = [program for program in ("qemu-img", "qemu-system-x86_64") if shutil.which(program) is None]
pytestmark = pytest.mark.skipif(
    bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)} (Debian: packages qemu-utils, qemu-system-x86)"
)
SECTOR = b"\xeb\x63\x90".ljust(510, b"\1") + b"\x55\xaa"
"""A boot sector with code and a partition table."""
MIB = 2**20


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Return an image of 1 MiB with a boot loader, in raw format."""
    file = tmp_path / "image.raw"
    file.write_bytes(SECTOR.ljust(MIB, b"\0"))
    return file


def converted(file: Path, to: str) -> Path:
    """Return the image in another format."""
    other = file.with_suffix(f".{to}")
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", to, str(file), str(other)], check=True)
    return other


def digest(file: Path, name: str = "sha256") -> str:
    """Return the file's digest as a stack file declares it."""
    return f"{name}:{hashlib.new(name, file.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("found", ["raw", "qcow2"])
def test_bootable_image_is_copied_into_the_cache(raw: Path, tmp_path: Path, found: str, algorithm: str) -> None:
    file = raw if found == "raw" else converted(raw, found)
    folder = tmp_path / "cache" / "image"
    cloud_image.copy(file, digest(file, algorithm), folder)
    assert cloud_image.is_complete(folder)
    assert (folder / "disk.img").read_bytes() == file.read_bytes()
    assert (cloud_image.disk_format(folder), cloud_image.virtual_size(folder)) == (found, MIB)


def test_copy_stays_when_the_vendors_file_changes(raw: Path, tmp_path: Path) -> None:
    folder, before = tmp_path / "image", raw.read_bytes()
    cloud_image.copy(raw, digest(raw), folder)
    raw.write_bytes(b"another release")
    assert (folder / "disk.img").read_bytes() == before


def compressed(pack: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """Return a change that packs the image."""

    def change(file: Path) -> Path:
        packed = file.with_suffix(".packed")
        packed.write_bytes(pack(file.read_bytes()))
        return packed

    return change


def without_code(file: Path) -> Path:
    """Return a disk with a partition table alone, as of an image for UEFI or arm64."""
    file.write_bytes((bytes(510) + b"\x55\xaa").ljust(MIB, b"\0"))
    return file


def file_system(file: Path) -> Path:
    """Return a disk without a boot sector."""
    file.write_bytes(bytes(MIB))
    return file


def overlay(file: Path) -> Path:
    """Return an image with another one behind it."""
    other = file.with_suffix(".qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(file), str(other)], check=True)
    return other


REFUSED: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "xz": (compressed(lzma.compress), "is compressed (xz)", "unxz"),
    "gzip": (compressed(gzip.compress), "is compressed (gzip)", "gunzip"),
    "vmdk": (lambda file: converted(file, "vmdk"), "has the format vmdk", "qemu-img convert -O qcow2"),
    "backing-file": (overlay, "has only a part of its data", "image.raw"),
    "no-boot-loader": (without_code, "has no boot loader for BIOS", "genericcloud"),
    "one-file-system": (file_system, "has no boot loader for BIOS", "genericcloud"),
}


@pytest.mark.parametrize(("change", "cause", "hint"), REFUSED.values(), ids=REFUSED)
def test_other_files_are_refused_with_a_remedy(raw: Path, tmp_path: Path, change: Callable[[Path], Path], cause: str, hint: str) -> None:
    file = change(raw)
    with pytest.raises(InputError) as caught:
        cloud_image.copy(file, digest(file), tmp_path / "cache" / "image")
    assert cause in str(caught.value) and hint in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_other_digest_is_refused_with_the_files_own(raw: Path) -> None:
    with pytest.raises(InputError) as caught:
        cloud_image.require_bootable(raw, "sha256:" + 64 * "0")
    assert digest(raw) in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        cloud_image.require_bootable(tmp_path / "missing.img", "sha256:" + 64 * "0")


def test_unreadable_contents_of_the_cache_are_reported(tmp_path: Path) -> None:
    (tmp_path / "image.json").write_text("{}")
    with pytest.raises(RackwrightError, match="run `up` again"):
        cloud_image.disk_format(tmp_path)


def test_boot_sector_of_the_acceleration_probe_ends_a_guest(tmp_path: Path) -> None:
    assert run_guest(_sector_guest(tmp_path), "tcg", "max") is None
