"""Disk images of vendors: inspected, compared with their digest, and copied into the cache. Blocking calls.

Machines start from the copy: the disks of existing machines are based on it, and a vendor's `latest` file is replaced under its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rackwright.errors import InputError, RackwrightError

DISK, CONTENTS = "disk.img", "image.json"
"""Files of a cached image. CONTENTS is written last: an image that has it is complete."""
_SCHEMA: Final = "rackwright.cloud-image/1"
_FORMATS: Final = ("qcow2", "raw")
_SECTOR: Final = 512
"""Bytes of the boot sector that the firmware reads (UEFI 2.10, section 5.2.1)."""
_SIGNATURE: Final = b"\x55\xaa"
"""Its end."""
_CODE: Final = 440
"""Its first bytes, which are the boot loader's."""
_COMPRESSED: Final = {
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "unzstd"),
    b"BZh": ("bzip2", "bunzip2"),
    b"PK\x03\x04": ("ZIP", "unzip"),
}
"""Magic numbers of archives (file(1)), to which qemu-img says `raw`, with the program that unpacks them."""


def name(digest: str) -> str:
    """Return the name of an image's folder in the cache. It has the whole digest: a mistyped one must not name another image.

    >>> name("sha256:0f")
    'cloud-sha256-0f'
    """
    return f"cloud-{digest.replace(':', '-')}"


def is_complete(folder: Path) -> bool:
    """Return whether the folder has a complete image."""
    return (folder / CONTENTS).is_file()


def disk_format(folder: Path) -> str:
    """Return the format of a cached image's disk: qcow2 or raw."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((folder / CONTENTS).read_bytes())["format"]
        if found in _FORMATS:
            return str(found)
    raise RackwrightError("is missing or cannot be read", path=str(folder / CONTENTS), hint="remove the folder, and run `up` again")


def virtual_size(folder: Path) -> int:
    """Return the bytes of a cached image's disk as the machine sees it."""
    return int(_describe(folder / DISK)["virtual-size"])


def require_bootable(file: Path, digest: str) -> str:
    """Return the format of an image. Raises InputError where it is missing, differs from its digest, or boots no machine."""
    try:
        with file.open("rb") as opened:
            start = opened.read(_SECTOR)
            found = hashlib.file_digest(_rewound(opened), digest.partition(":")[0]).hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(file), hint="download the image, or correct the path") from None
    if found != digest.partition(":")[2]:
        cause = f"has the digest {digest.partition(':')[0]}:{found}, and {digest} is declared"
        raise InputError(cause, path=str(file), hint="download it again, or declare the digest that the vendor publishes for it")
    for magic, (kind, program) in _COMPRESSED.items():
        if start.startswith(magic):
            hint = f"unpack it with `{program}`, and declare the digest of the result"
            raise InputError(f"is compressed ({kind})", path=str(file), hint=hint)
    described = _describe(file)
    _require_self_contained(file, described)
    _require_boot_loader(file, described["format"])
    return str(described["format"])


def copy(file: Path, digest: str, folder: Path) -> None:
    """Copy an image into the cache, in a folder that appears when it is complete. Raises InputError as `require_bootable`."""
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    try:
        _run("cp", "--reflink=auto", "--sparse=always", "--", str(file), str(unfinished / DISK))
        found = require_bootable(unfinished / DISK, digest)
        (unfinished / DISK).chmod(0o400)
        (unfinished / CONTENTS).write_text(json.dumps({"schema": _SCHEMA, "digest": digest, "format": found}) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _rewound(opened: Any) -> Any:
    opened.seek(0)
    return opened


def _describe(file: Path) -> dict[str, Any]:
    """Return what qemu-img says about an image."""
    described: dict[str, Any] = json.loads(_run("qemu-img", "info", "--output=json", str(file)))
    return described


def _require_self_contained(file: Path, described: dict[str, Any]) -> None:
    details = described.get("format-specific", {}).get("data", {})
    if described["format"] not in _FORMATS:
        hint = f"convert it with `qemu-img convert -O qcow2`, and declare the digest of the result; known formats: {', '.join(_FORMATS)}"
        raise InputError(f"has the format {described['format']}", path=str(file), hint=hint)
    if other := described.get("backing-filename") or details.get("data-file"):
        hint = "merge them with `qemu-img convert -O qcow2`, and declare the digest of the result"
        raise InputError(f"has only a part of its data, the rest is in {other}", path=str(file), hint=hint)
    if described.get("encrypted") or details.get("corrupt"):
        cause = "is encrypted" if described.get("encrypted") else "is marked as corrupt"
        raise InputError(cause, path=str(file), hint="use the image as its vendor publishes it")


def _require_boot_loader(file: Path, found: str) -> None:
    """Raise InputError without a boot loader in the first sector, such as an image for UEFI alone, for arm64, or of one file system."""
    with tempfile.TemporaryDirectory(prefix="rackwright-") as folder:
        first = Path(folder) / "sector"
        _run("qemu-img", "dd", "-f", found, "-O", "raw", f"bs={_SECTOR}", "count=1", f"if={file}", f"of={first}")
        sector = first.read_bytes()
    if sector[510:512] != _SIGNATURE or not any(sector[:_CODE]):
        hint = "use the vendor's image for x86_64 that boots with BIOS (`generic`, `genericcloud`, `GenericCloud`, `cloudimg-amd64`)"
        raise InputError("has no boot loader for BIOS in its first sector", path=str(file), hint=hint)


def _run(*command: str) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RackwrightError(f"{command[0]} is not installed", hint="Debian, Ubuntu: `sudo apt install qemu-utils`") from None
    if ended.returncode:
        raise RackwrightError(ended.stderr.strip() or f"{command[0]} ended with status {ended.returncode}")
    return ended.stdout
