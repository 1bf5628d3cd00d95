"""Digests of a checkpoint's files: written when a checkpoint is complete, verified before it is read. Standard library only.

A checkpoint is a folder `step-STEP` with shards and `manifest.json`. It is written as `.tmp-STEP…` and renamed when the manifest and all
shards are on disk: a folder that starts with `.tmp-` was left by a killed job and is no checkpoint. PyTorch's loader accepts a shard with
a flipped bit, and `.metadata` is a pickle, so nothing is read before its digest agrees.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SCHEMA: Final = "rackwright.checkpoint/1"
MANIFEST: Final = "manifest.json"
UNFINISHED: Final = ".tmp-"
"""Start of the names of folders that are being written."""
_NAME: Final = re.compile(r"step-(\d{8})")
_BLOCK: Final = 1 << 20
"""Bytes that are read at once. Chosen: a shard of the demo has 5 MB."""


@dataclass(frozen=True)
class Damage:
    """A file of a checkpoint that is not as its manifest says."""

    file: str
    problem: str
    """damaged, missing, additional or unreadable."""
    detail: str


def name_of(step: int) -> str:
    """Return the folder name of a step's checkpoint.

    >>> name_of(40)
    'step-00000040'
    """
    return f"step-{step:08d}"


def write_manifest(folder: Path, *, step: int, world_size: int, version: str) -> dict[str, Any]:
    """Hash all shards of a folder, write the manifest to disk, and return it. `version`: of the library that wrote the shards."""
    shards = {path.name: {"bytes": path.stat().st_size, "sha256": digest(path)} for path in _files(folder) if path.name != MANIFEST}
    manifest = {"schema": SCHEMA, "step": step, "world_size": world_size, "torch": version, "shards": shards}
    with (folder / MANIFEST).open("wb") as file:
        file.write(_encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)
    return manifest


def publish(unfinished: Path, step: int) -> Path:
    """Rename a complete folder to a checkpoint, atomically, and return its path. Raises OSError if the step has a checkpoint."""
    final = unfinished.with_name(name_of(step))
    unfinished.rename(final)
    _sync_folder(final.parent)
    return final


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest. Raises ValueError if it is incomplete or altered, FileNotFoundError if there is none."""
    text = (folder / MANIFEST).read_bytes()
    try:
        stored = json.loads(text)
        manifest = {key: value for key, value in stored.items() if key != "sha256"}
        intact = _encode(manifest) == text and manifest["schema"] == SCHEMA
    except (ValueError, AttributeError, KeyError):
        raise ValueError("is incomplete or no manifest") from None
    if not intact:
        raise ValueError("does not match its own digest")
    return manifest


def find_damage(folder: Path) -> list[Damage]:
    """Return each damaged, missing or additional file of a checkpoint, by name; empty if all digests agree. Raises OSError."""
    try:
        manifest = read_manifest(folder)
    except FileNotFoundError:
        return [Damage(MANIFEST, "missing", "no manifest")]
    except ValueError as error:
        return [Damage(MANIFEST, "unreadable", f"the manifest {error}")]
    found = list(_moved(folder, manifest)) if folder.name != name_of(manifest["step"]) else []
    declared, present = manifest["shards"], {path.name: path for path in _files(folder) if path.name != MANIFEST}
    for name in sorted({*declared, *present}):
        if name not in present:
            found.append(Damage(name, "missing", f"the manifest lists {declared[name]['bytes']} bytes"))
        elif name not in declared:
            found.append(Damage(name, "additional", "the manifest does not list it"))
        else:
            found += _compare(present[name], declared[name])
    return found


def checkpoints(root: Path) -> list[Path]:
    """Return the checkpoints of a run, the newest first; what a kill left unfinished is none."""
    return sorted((path for path in root.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)), reverse=True) if root.is_dir() else []


def unfinished(root: Path) -> list[Path]:
    """Return the folders that killed jobs left."""
    return sorted(path for path in root.iterdir() if path.is_dir() and path.name.startswith(UNFINISHED)) if root.is_dir() else []


def newest_intact(root: Path) -> tuple[Path | None, list[Path]]:
    """Return the newest checkpoint whose digests agree, or None, and the newer ones that were passed over."""
    damaged: list[Path] = []
    for path in checkpoints(root):
        if not find_damage(path):
            return path, damaged
        damaged.append(path)
    return None, damaged


def prune(root: Path, keep: int) -> list[str]:
    """Delete all but the newest checkpoints and all unfinished folders; return their names. Only for the one process that writes."""
    removed = [*checkpoints(root)[keep:], *unfinished(root)]
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return [path.name for path in removed]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _moved(folder: Path, manifest: dict[str, Any]) -> Iterator[Damage]:
    if _NAME.fullmatch(folder.name):
        yield Damage(MANIFEST, "damaged", f"the manifest is that of step {manifest['step']}")


def _compare(path: Path, declared: dict[str, Any]) -> Iterator[Damage]:
    size = path.stat().st_size
    if size != declared["bytes"]:
        yield Damage(path.name, "damaged", f"{size} bytes (expected {declared['bytes']})")
    elif (found := digest(path)) != declared["sha256"]:
        yield Damage(path.name, "damaged", f"SHA-256 {found[:12]}… (expected {declared['sha256'][:12]}…)")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.is_dir())


def _encode(manifest: dict[str, Any]) -> bytes:
    """Return a manifest as it is stored, with the digest of its own content: a changed byte is found in it, too."""
    content = json.dumps(manifest, sort_keys=True)
    own = hashlib.sha256(content.encode()).hexdigest()
    return (json.dumps({**manifest, "sha256": own}, sort_keys=True, indent=1) + "\n").encode()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
