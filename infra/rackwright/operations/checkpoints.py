"""Verification of a training run's checkpoints by their digests; neither PyTorch nor a cluster is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.errors import InputError, UndeterminedError
from rackwright.report.verdict import Verdict
from rackwright.workloads.training import manifest
from rackwright.workloads.training.manifest import Damage

SCHEMA: Final = "rackwright.checkpoints/1"


@dataclass(frozen=True, slots=True)
class VerifiedCheckpoint:
    """A checkpoint and what its manifest and its files say; without a readable manifest, its step and its size are unknown."""

    path: Path
    damage: tuple[Damage, ...]
    step: int | None = None
    world_size: int | None = None
    torch: str | None = None
    shards: int | None = None
    size: int | None = None
    """Bytes of all shards, as the manifest lists them."""


@dataclass(frozen=True, slots=True)
class VerifiedCheckpoints:
    """The checkpoints below a path, the newest first, and the folders that killed jobs left."""

    path: Path
    checkpoints: tuple[VerifiedCheckpoint, ...]
    unfinished: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return whether every checkpoint is intact."""
        return Verdict.FAILED if any(one.damage for one in self.checkpoints) else Verdict.PASSED

    @property
    def newest_intact(self) -> str | None:
        """Return the name of the checkpoint that a job would resume from."""
        return next((one.path.name for one in self.checkpoints if not one.damage), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the document rackwright.checkpoints/1."""
        return {
            "schema": SCHEMA,
            "path": str(self.path),
            "verdict": self.verdict.value,
            "newest_intact": self.newest_intact,
            "unfinished": list(self.unfinished),
            "checkpoints": [_as_dict(one) for one in self.checkpoints],
        }


def verify_checkpoints(path: Path) -> VerifiedCheckpoints:
    """Compare the files of a checkpoint, or of all checkpoints in a folder, with their manifests.

    `path`: a checkpoint, the folder of a run's checkpoints, or the folder of a run.
    Raises InputError if there is no checkpoint, UndeterminedError if a file cannot be read.
    """
    if not path.exists():
        raise InputError("there is no such folder", path=str(path))
    if not path.is_dir():
        raise InputError("is a file (expected the folder of a checkpoint or of a run)", path=str(path))
    try:
        root = path / "checkpoints" if (path / "checkpoints").is_dir() else path
        found = manifest.checkpoints(root)
        if not found and _is_checkpoint(path):
            return VerifiedCheckpoints(path, (_verify(path),))
        left = tuple(one.name for one in manifest.unfinished(root))
        if not found:
            hint = f"{len(left)} unfinished folders (.tmp-*) were left by killed jobs; no job resumes from them" if left else ""
            raise InputError("contains no checkpoint (expected folders named step-STEP, or a manifest.json)", path=str(path), hint=hint)
        return VerifiedCheckpoints(path, tuple(map(_verify, found)), left)
    except OSError as error:
        where, why = error.filename or path, error.strerror or str(error)
        raise UndeterminedError(f"cannot be read: {why}", path=str(where), hint="run the command as the owner of the files") from None


def _is_checkpoint(path: Path) -> bool:
    """Return whether a folder claims to be a checkpoint: by its name, or by a manifest; an unfinished one does not."""
    named = path.resolve().name
    return not named.startswith(manifest.UNFINISHED) and (named.startswith("step-") or (path / manifest.MANIFEST).exists())


def _verify(path: Path) -> VerifiedCheckpoint:
    damage = tuple(manifest.find_damage(path))
    try:
        content = manifest.read_manifest(path)
    except (ValueError, FileNotFoundError):
        return VerifiedCheckpoint(path, damage)
    sizes = [shard["bytes"] for shard in content["shards"].values()]
    return VerifiedCheckpoint(path, damage, content["step"], content["world_size"], content["torch"], len(sizes), sum(sizes))


def _as_dict(one: VerifiedCheckpoint) -> dict[str, Any]:
    return {
        "name": one.path.name,
        "verdict": (Verdict.FAILED if one.damage else Verdict.PASSED).value,
        "step": one.step,
        "world_size": one.world_size,
        "torch": one.torch,
        "shards": one.shards,
        "bytes": one.size,
        "damage": [{"file": found.file, "problem": found.problem, "detail": found.detail} for found in one.damage],
    }


def describe(found: VerifiedCheckpoints) -> Iterator[tuple[str, str, str, str]]:
    """Yield (checkpoint, file, problem, detail) for each damaged file, and one row for each intact checkpoint."""
    for one in found.checkpoints:
        for damage in one.damage:
            yield one.path.name, damage.file, damage.problem, damage.detail
        if not one.damage:
            yield one.path.name, f"{one.shards} shards", "intact", f"{one.size} bytes of {one.world_size} ranks"
