"""Train the demo's model on all ranks that torchrun starts; write what happens as lines of JSON to RUN/events-ATTEMPT.jsonl (rank 0).

Events: `start` (device, versions, sizes), `resume` (step of the checkpoint), `step` (loss, its bits, seconds), `checkpoint`, `end`. Every
event has `attempt` and `time`, seconds since 1970.
"""

from __future__ import annotations

from rackwright.workloads.training import compat

import argparse  # isort: skip
import datetime
import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor, nn
from torch.nn import functional

from rackwright.workloads.training import batches, checkpoints, corpus
from rackwright.workloads.training.events import Events
from rackwright.workloads.training.model import Shape, Transformer, count_parameters

LEARNING_RATE = 1e-3
"""Of AdamW, whose default it is (PyTorch's documentation of AdamW)."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder on the shared file system for events and checkpoints")
    parser.add_argument("--mode", choices=("ddp", "fsdp2"), default="ddp")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="sequences of all ranks together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=40, help="steps between two checkpoints")
    parser.add_argument("--keep", type=int, default=3, help="checkpoints that are kept")
    parser.add_argument("--timeout", type=float, default=60, help="seconds that a rank waits for the others")
    parser.add_argument("--attempt", default="0", help="number of the job's attempt")
    return parser.parse_args(arguments)


class Trainer:
    """Model, optimizer and text of one rank."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.shape = options, Shape()
        self.rank, self.ranks = distributed.get_rank(), distributed.get_world_size()
        self.device = _device()
        torch.manual_seed(options.seed)
        model = Transformer(self.shape).to(self.device)
        self.parameters = count_parameters(model)
        self.model = _distribute(model, options.mode)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        text = corpus.make_text(options.seed)
        self.text_digest = corpus.text_digest(text)
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

    def train_step(self, step: int) -> float:
        """Train on one batch; return the mean loss of all ranks."""
        inputs, targets = self._batch(step)
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        self.optimizer.step()
        mean = loss.detach().clone()
        distributed.all_reduce(mean)
        return float(mean / self.ranks)

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        context = self.shape.context
        starts = batches.global_batch(self.options.seed, step, sequences=self.options.batch, context=context, size=len(self.text))
        own = batches.share_of_rank(starts, self.rank, self.ranks)
        pieces = torch.stack([self.text[start : start + context + 1] for start in own]).to(self.device)
        return pieces[:, :-1], pieces[:, 1:]


def train(options: argparse.Namespace) -> None:
    """Resume, train to the last step, and write a checkpoint at every interval and at the end."""
    trainer = Trainer(options)
    events = Events(options.run, options.attempt, writes=trainer.rank == 0)
    events.write("start", **_facts(trainer))
    root = options.run / "checkpoints"
    root.mkdir(exist_ok=True)
    begun = time.monotonic()
    done, damaged = checkpoints.resume(root, trainer.model, trainer.optimizer)
    events.write("resume", step=done, damaged=damaged, seconds=round(time.monotonic() - begun, 3))
    for step in range(done + 1, options.steps + 1):
        begun = time.monotonic()
        loss = trainer.train_step(step)
        events.write("step", step=step, loss=loss, bits=struct.pack(">f", loss).hex(), seconds=round(time.monotonic() - begun, 4))
        if step % options.every == 0 or step == options.steps:
            identity = f"{options.attempt}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
            saved = checkpoints.save(root, step, trainer.model, trainer.optimizer, attempt=identity, keep=options.keep)
            if saved:
                events.write("checkpoint", step=step, bytes=saved.size, seconds=round(saved.seconds, 3), sha256=saved.digest)
    events.write("end", step=options.steps)


def _facts(trainer: Trainer) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(0) if trainer.device.type == "cuda" else ""
    return {
        "ranks": trainer.ranks,
        "restart": int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
        "device": gpu or "CPU",
        "backend": distributed.get_backend(),
        "blas": compat.blas(),
        "torch": str(torch.__version__),
        "cured": compat.AFFECTED,
        "parameters": trainer.parameters,
        "layers": trainer.shape.layers,
        "width": trainer.shape.width,
        "context": trainer.shape.context,
        "text_sha256": trainer.text_digest,
    }


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def _distribute(model: nn.Module, mode: str) -> nn.Module:
    """Return the model with gradients, or weights and gradients, shared between ranks."""
    if mode == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", (distributed.get_world_size(),))
    # With the CPU streams of 2.6, a second gather in backward counts as a change of the weights.
    again = not compat.AFFECTED
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=again)
    fully_shard(model, mesh=mesh, reshard_after_forward=again)
    return model


def main() -> None:
    """Join the other ranks, and train."""
    options = parse()
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
    # The default is 30 minutes: a node without power sends nothing, so that only the time limit ends the wait.
    distributed.init_process_group("nccl" if gpus else "gloo", timeout=datetime.timedelta(seconds=options.timeout))
    try:
        train(options)
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
