"""Sharded checkpoints: every rank writes its part, rank 0 hashes all parts and publishes them, a resume reads the newest intact one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as distributed
import torch.distributed.checkpoint as sharded
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from rackwright.workloads.training import manifest


@dataclass(frozen=True)
class Saved:
    """A published checkpoint."""

    path: Path
    size: int
    """Bytes."""
    seconds: float
    digest: str
    """SHA-256 of the manifest, which holds those of all shards."""


_SECONDS: Final = 60.0
"""Seconds in which files of other nodes must appear: a client of NFS may keep an old list of a folder for that long (nfs(5), acdirmax)."""


def save(root: Path, step: int, model: nn.Module, optimizer: Any, *, attempt: str, keep: int) -> Saved | None:
    """Write the state after a step; return the checkpoint on rank 0, None elsewhere. Raises OSError on rank 0 if a shard is missing.

    attempt: part of the unfinished folder's name; that of rank 0 counts. Ranks of an attempt that was given up must not write into this
    one's.
    """
    begun = time.monotonic()
    # A launcher counts only its own restarts, so that the names that ranks on different nodes know may differ.
    named = [f"{manifest.UNFINISHED}{step:08d}-{attempt}"]
    distributed.broadcast_object_list(named)
    folder = root / named[0]
    state = _state(model, optimizer, step)
    sharded.save(state, storage_writer=sharded.FileSystemWriter(folder, single_file_per_rank=True, sync_files=True))
    distributed.barrier()
    saved = None
    if distributed.get_rank() == 0:
        _wait_for_shards(folder)
        content = manifest.write_manifest(folder, step=step, world_size=distributed.get_world_size(), version=str(torch.__version__))
        final = manifest.publish(folder, step)
        size = sum(shard["bytes"] for shard in content["shards"].values())
        saved = Saved(final, size, time.monotonic() - begun, manifest.digest(final / manifest.MANIFEST))
        manifest.prune(root, keep)
    distributed.barrier()
    return saved


def _wait_for_shards(folder: Path) -> None:
    """Wait for all files that the metadata names. Raises OSError if one stays missing: a manifest without it would count as intact."""
    named = {one.relative_path for one in sharded.FileSystemReader(folder).read_metadata().storage_data.values()}
    deadline = time.monotonic() + _SECONDS
    while missing := named - set(os.listdir(folder)):
        if time.monotonic() > deadline:
            raise FileNotFoundError(f"{folder}: {', '.join(sorted(missing))} missing, which the checkpoint's metadata names")
        time.sleep(0.1)


def resume(root: Path, model: nn.Module, optimizer: Any) -> tuple[int, list[str]]:
    """Load the newest intact checkpoint into model and optimizer; return its step, 0 without one, and the damaged ones passed over.

    Rank 0 decides for all ranks. A damaged checkpoint is renamed, so that its step can be written again.
    """
    found: list[Any] = [None, []]
    if distributed.get_rank() == 0:
        path, damaged = manifest.newest_intact(root)
        for one in damaged:
            os.rename(one, one.with_name(f"damaged-{one.name}-{time.time_ns()}"))
        manifest.prune(root, keep=len(manifest.checkpoints(root)))
        found = [str(path) if path else None, [one.name for one in damaged]]
    distributed.broadcast_object_list(found)
    if found[0] is None:
        return 0, found[1]
    state = _state(model, optimizer, 0)
    sharded.load(state, storage_reader=sharded.FileSystemReader(found[0]))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return int(state["step"]), found[1]


def _state(model: nn.Module, optimizer: Any, step: int) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": torch.tensor(step)}
