"""Fine-tune the newest checkpoint of a training run with low-rank adapters on another text; write events to RUN/events-ATTEMPT.jsonl.

Events: `start` (device, versions, sizes), `base` (checkpoint), `step` (loss), `adapter` and `merged` (files), `evaluation` (losses before
and after, on both texts, and the difference between the merged model and base with adapter), `end`; `refused` without an intact checkpoint.
One process. Both models are read back from their files before they are evaluated.
"""

from __future__ import annotations

from rackwright.workloads.training import compat

import argparse  # isort: skip
import os
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as sharded
from torch import Tensor, nn
from torch.nn import functional

from rackwright.workloads.training import batches, corpus, lora, manifest
from rackwright.workloads.training.events import Events
from rackwright.workloads.training.model import Shape, Transformer

LEARNING_RATE = 2e-3
"""Of AdamW. Chosen: twice that of training; adapters start from zero."""
SEQUENCES = 16
"""Sequences of a step."""
EVALUATED = 64
"""Sequences of an evaluation: 8,192 bytes of a text that no step trains on."""
MODEL = "model.pt"
"""File of the merged model."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder on the shared file system for events, adapter and merged model")
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder with the checkpoints of a training run")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1, help="seed of the training run, whose text is changed")
    parser.add_argument("--attempt", default="0")
    return parser.parse_args(arguments)


class Texts:
    """The old text and the new one: to train on the latter, and to evaluate on both."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._seed, self._device, self._context = seed, device, Shape().context
        self._trained = _tensor(corpus.respell(corpus.make_text(seed)))
        unseen = corpus.make_text(seed + 1)
        self._evaluated = {"old": _tensor(unseen), "new": _tensor(corpus.respell(unseen))}

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of a step, from the new text."""
        starts = batches.global_batch(self._seed, step, sequences=SEQUENCES, context=self._context, size=len(self._trained))
        return self._cut(self._trained, starts)

    def unseen(self, name: str) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of an evaluation, always the same ones."""
        text = self._evaluated[name]
        return self._cut(text, batches.global_batch(self._seed, 0, sequences=EVALUATED, context=self._context, size=len(text)))

    def _cut(self, text: Tensor, starts: list[int]) -> tuple[Tensor, Tensor]:
        pieces = torch.stack([text[start : start + self._context + 1] for start in starts]).to(self._device)
        return pieces[:, :-1], pieces[:, 1:]


def _tensor(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def load_base(path: Path, device: torch.device) -> nn.Module:
    """Return the model of a checkpoint, whatever number of ranks wrote it."""
    model = Transformer(Shape())
    state = {"model": model.state_dict()}
    sharded.load(state, storage_reader=sharded.FileSystemReader(str(path)))
    model.load_state_dict(state["model"])
    return model.to(device)


def scores_and_loss(model: nn.Module, pieces: tuple[Tensor, Tensor]) -> tuple[Tensor, float]:
    """Return a model's scores and mean loss."""
    with torch.no_grad():
        scores: Tensor = model(pieces[0])
        return scores, float(functional.cross_entropy(scores.flatten(0, 1), pieces[1].flatten()))


def finetune(options: argparse.Namespace) -> bool:
    """Train adapters, write and merge them, and evaluate what was written. Return False without an intact checkpoint."""
    events = Events(options.run, options.attempt, writes=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint, damaged = manifest.newest_intact(options.checkpoints)
    if checkpoint is None:
        events.write("refused", folder=str(options.checkpoints), damaged=[one.name for one in damaged])
        return False
    torch.manual_seed(options.seed)
    texts, model = Texts(options.seed, device), load_base(checkpoint, device)
    before = {name: scores_and_loss(model, texts.unseen(name))[1] for name in ("new", "old")}
    size = lora.adapt(model)
    model.to(device)
    events.write("start", **_facts(device), parameters=size.adapter, total=size.total)
    stored = manifest.read_manifest(checkpoint)
    digest = manifest.digest(checkpoint / manifest.MANIFEST)
    events.write("base", step=stored["step"], path=str(checkpoint), sha256=digest, damaged=[one.name for one in damaged])
    _train(model, texts, options.steps, events)
    events.write("adapter", **_publish(options.run / "adapter", options.steps, lambda to: lora.write_adapter(to, model, str(checkpoint))))
    lora.merge(model)
    merged = {name: weight.cpu() for name, weight in model.state_dict().items()}
    write = lambda to: lora.write_synced(to / MODEL, lambda file: torch.save(merged, file))  # noqa: E731
    events.write("merged", **_publish(options.run / "merged", options.steps, write))
    events.write("evaluation", **_evaluate(options.run, checkpoint, texts, device, before))
    events.write("end", step=options.steps)
    return True


def _train(model: nn.Module, texts: Texts, steps: int, events: Events) -> None:
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=LEARNING_RATE)
    for step in range(1, steps + 1):
        begun = time.monotonic()
        inputs, targets = texts.batch(step)
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        value = float(loss.detach())
        bits = struct.pack(">f", value).hex()
        events.write("step", step=step, loss=value, bits=bits, seconds=round(time.monotonic() - begun, 4))


def _publish(folder: Path, step: int, write: Any) -> dict[str, Any]:
    """Write files and their digests to a folder that has its name only when it is complete; return path, size and digest."""
    unfinished = folder.with_name(f"{manifest.UNFINISHED}{folder.name}")
    unfinished.mkdir()
    write(unfinished)
    content = manifest.write_manifest(unfinished, step=step, world_size=1, version=str(torch.__version__))
    os.rename(unfinished, folder)
    size = sum(shard["bytes"] for shard in content["shards"].values())
    return {"path": str(folder), "bytes": size, "sha256": manifest.digest(folder / manifest.MANIFEST)}


def _evaluate(run: Path, checkpoint: Path, texts: Texts, device: torch.device, before: dict[str, float]) -> dict[str, Any]:
    """Return the losses, and the difference between the merged model and base with adapter, all read from disk.

    The difference is that of a score, relative to the largest score: in single precision, an error of rounding grows with the values.
    """
    adapted, merged = load_base(checkpoint, device), Transformer(Shape())
    lora.load_adapter(run / "adapter", adapted)
    adapted.to(device)
    merged.load_state_dict(torch.load(run / "merged" / MODEL, map_location="cpu", weights_only=True))
    merged.to(device)
    found: dict[str, Any] = {"merged_difference": 0.0}
    for name in ("new", "old"):
        pieces = texts.unseen(name)
        (expected, _), (scores, loss) = scores_and_loss(adapted, pieces), scores_and_loss(merged, pieces)
        found[name] = {"before": before[name], "after": loss}
        difference = float((expected - scores).abs().max() / expected.abs().max())
        found["merged_difference"] = max(found["merged_difference"], difference)
    return found


def _facts(device: torch.device) -> dict[str, Any]:
    shape = Shape()
    return {
        "device": torch.cuda.get_device_name(0) if device.type == "cuda" else "CPU",
        "blas": compat.blas(),
        "torch": str(torch.__version__),
        "context": shape.context,
        "sequences": SEQUENCES,
        "rank": lora.RANK,
        "alpha": lora.ALPHA,
    }


def main() -> int:
    """Fine-tune; exit with 1 without an intact checkpoint."""
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
    return 0 if finetune(parse()) else 1


if __name__ == "__main__":
    sys.exit(main())
