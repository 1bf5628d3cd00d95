"""Sharded checkpoints: every rank writes its part, rank 0 hashes all parts and publishes them, a resume reads the newest intact one."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def save(root: Path, step: int, model: nn.Module, optimizer: Any, *, attempt: str, keep: int) -> Saved | None:
    """Write the state after a step; return the checkpoint on rank 0, None elsewhere.

    attempt: part of the unfinished folder's name. Ranks of an attempt that was given up must not write into this one's.
    """
    begun = time.monotonic()
    folder = root / f"{manifest.UNFINISHED}{step:08d}-{attempt}"
    state = _state(model, optimizer, step)
    sharded.save(state, storage_writer=sharded.FileSystemWriter(folder, single_file_per_rank=True, sync_files=True))
    distributed.barrier()
    saved = None
    if distributed.get_rank() == 0:
        content = manifest.write_manifest(folder, step=step, world_size=distributed.get_world_size(), version=str(torch.__version__))
        final = manifest.publish(folder, step)
        size = sum(shard["bytes"] for shard in content["shards"].values())
        saved = Saved(final, size, time.monotonic() - begun, manifest.digest(final / manifest.MANIFEST))
        manifest.prune(root, keep)
    distributed.barrier()
    return saved


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
