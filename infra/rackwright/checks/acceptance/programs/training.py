"""Measure the tokens per second of training a small transformer: one process per GPU, DDP or FSDP, random tokens.

Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT from its environment, or runs alone. Rank 0 prints one line of JSON:
{"mode", "ranks", "tokens_s", "first_loss", "last_loss", "torch", "device"}; any rank that cannot run prints {"unknown": why}.
With --device cpu and small sizes its logic runs anywhere; the figures then do not apply to a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from typing import Any


def arguments() -> argparse.Namespace:
    """Return the options. The default is a model of some 350 million parameters;
    --width 64 --layers 2 --length 32 --batch 2 --words 256 is quick on a CPU.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=8, help="sequences per GPU")
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--warm", type=int, default=5, help="steps that are not timed")
    parser.add_argument("--steps", type=int, default=20)
    return parser.parse_args()


def model_class(torch: Any) -> tuple[Any, Any]:
    """Return the classes of the transformer; a function, because PyTorch may not be installed."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        """Attention and a perceptron, each after a norm and with a residual connection."""

        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, seen: Any) -> Any:
            batch, length, width = seen.shape
            split = self.qkv(self.norms[0](seen)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=True)
            seen = seen + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return seen + self.mlp(self.norms[1](seen))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        """A model for next-word prediction."""

        def __init__(self, options: argparse.Namespace) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(options.words, options.width), nn.Embedding(options.length, options.width)
            self.blocks = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
            self.norm, self.head = nn.LayerNorm(options.width), nn.Linear(options.width, options.words, bias=False)

        def forward(self, tokens: Any) -> Any:
            seen = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                seen = block(seen)
            return self.head(self.norm(seen))

    return Model, Block


def wrapped(torch: Any, model: Any, block: Any, options: argparse.Namespace, device: Any) -> Any:
    """Return the model, distributed as requested."""
    place = [device.index] if device.type == "cuda" else None
    if options.mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=place)
    from functools import partial

    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={block})
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=device)


def train(torch: Any, options: argparse.Namespace, device: Any, ranks: int) -> tuple[float, list[float]]:
    """Train on repeated random tokens, so that the loss must fall; return tokens per second of all ranks, first and last loss."""
    model_type, block = model_class(torch)
    torch.manual_seed(1)
    model = wrapped(torch, model_type(options).to(device), block, options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, options.words, (options.batch, options.length + 1), device=device)
    losses, begun = [], 0.0
    for step in range(options.warm + options.steps):
        if step == options.warm:
            settle(torch, device)
            begun = time.perf_counter()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            guess = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(guess.reshape(-1, options.words), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step in (0, options.warm + options.steps - 1):
            losses.append(loss.detach())
    settle(torch, device)
    seconds = time.perf_counter() - begun
    return options.steps * options.batch * options.length * ranks / seconds, [float(loss) for loss in losses]


def settle(torch: Any, device: Any) -> None:
    """Wait until all ranks have finished their work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    torch.distributed.barrier()


def main() -> dict[str, Any] | None:
    """Train, or return the reason why not."""
    options = arguments()
    try:
        import torch
    except ImportError:
        return {"unknown": "PyTorch is not installed for this interpreter"}
    if options.device == "cuda" and not torch.cuda.is_available():
        return {"unknown": "PyTorch sees no GPU"}
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    # Debian's PyTorch is built without libuv and does not detect that by itself.
    for name, value in {**alone, "USE_LIBUV": "0"}.items():
        os.environ.setdefault(name, value)
    rank, ranks, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    # A task with one GPU of its own sees it as number 0.
    device = torch.device("cuda", local % torch.cuda.device_count()) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=ranks)
    tokens_s, (first, last) = train(torch, options, device, ranks)
    torch.distributed.destroy_process_group()
    if rank:
        return None
    if not math.isfinite(last):
        return {"unknown": f"the loss is not a number: {last}"}
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    found = {"mode": options.mode, "ranks": ranks, "tokens_s": tokens_s, "first_loss": first, "last_loss": last}
    return dict(found, torch=torch.__version__, device=name)


if __name__ == "__main__":
    said = main()
    if said is not None:
        print(json.dumps(said))
