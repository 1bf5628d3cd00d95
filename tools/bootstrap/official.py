"""The official download of the engine, verified by its published SHA-256.

Never run against the real server, which no development machine could reach; the verification and the fallback to the build are tested.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath

from bootstrap.engine import OFFICIAL_MARK
from bootstrap.failure import Failure
from bootstrap.machine import Machine

_PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
_PATIENCE = 5.0
"""Seconds to connect, and for each read."""

_ARCHIVE = "https://get.pulumi.com/releases/sdk/pulumi-v{version}-linux-{processor}.tar.gz"
_CHECKSUMS = "https://github.com/pulumi/pulumi/releases/download/v{version}/pulumi-{version}-checksums.txt"


def download(machine: Machine, version: str, folder: Path) -> None:
    """Download the official files into `folder`; raise Failure with the reason, also if the SHA-256 does not match."""
    processor = _PROCESSORS.get(machine.processor)
    if processor is None:
        raise Failure(f"no official build for {machine.processor}")
    address = _ARCHIVE.format(version=version, processor=processor)
    expected = checksum(_fetch(_CHECKSUMS.format(version=version)).decode(), PurePosixPath(address).name)
    archive = _fetch(address)
    found = hashlib.sha256(archive).hexdigest()
    if found != expected:
        raise Failure(f"the download's SHA-256 is {found}, published is {expected}")
    unpack(archive, folder)


def checksum(published: str, name: str) -> str:
    """Return the SHA-256 of `name` in a `sha256sum` list."""
    for line in published.splitlines():
        digest, _, file = line.strip().partition(" ")
        if file.strip().lstrip("*") == name:
            return digest.lower()
    raise Failure(f"the published checksums do not name {name}")


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack the archive's `pulumi/` files; the engine last, because its existence marks a complete download."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        files = [entry for entry in tar.getmembers() if entry.isfile() and PurePosixPath(entry.name).parts[:1] == ("pulumi",)]
        for entry in sorted(files, key=lambda each: PurePosixPath(each.name).name == "pulumi"):
            source = tar.extractfile(entry)
            if source is None:
                continue
            target = folder / PurePosixPath(entry.name).name
            fresh = target.with_suffix(".part")
            fresh.write_bytes(source.read())
            fresh.chmod(0o755)
            (folder / OFFICIAL_MARK).touch()
            fresh.replace(target)


def _fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE) as answer:
            content: bytes = answer.read()
            return content
    except (OSError, urllib.error.URLError) as error:
        raise Failure(f"{address.split('/')[2]} cannot be reached ({getattr(error, 'reason', error)})") from None
