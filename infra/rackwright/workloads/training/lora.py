"""Low-rank adapters: two small matrices beside each Linear of a block, which alone are trained (LoRA, arXiv 2106.09685).

Files have the names and keys of PEFT: adapter_config.json, adapter_model.bin. PEFT itself is not needed, and never read them.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

RANK = 8
ALPHA = 16
"""The product of the two matrices is multiplied by ALPHA / RANK."""
TARGETS = ("query_key_value", "projection", "widen", "narrow")
"""The four Linears of a block."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.bin"
_PREFIX = "base_model.model."
"""Start of PEFT's keys."""


class AdaptedLinear(nn.Module):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    """A frozen Linear and its adapter: W x + (alpha / rank) B A x. B starts as zero, so that training starts from the base model."""

    def __init__(self, base: nn.Linear, rank: int, alpha: int) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        # Both as in the authors' loralib and in PEFT.
        nn.init.kaiming_uniform_(self.lora_A.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, value: Tensor) -> Tensor:
        """Return the sum of base and adapter."""
        result: Tensor = self.base(value) + self.scale * self.lora_B(self.lora_A(value))
        return result


@dataclass(frozen=True)
class Size:
    """Number of weights."""

    adapter: int
    total: int


def adapt(model: nn.Module, rank: int = RANK, alpha: int = ALPHA) -> Size:
    """Freeze a model and add an adapter to each Linear of its blocks, in place."""
    model.requires_grad_(requires_grad=False)
    for block in model.blocks:
        for name in TARGETS:
            setattr(block, name, AdaptedLinear(getattr(block, name), rank, alpha))
    every = [(weight.numel(), weight.requires_grad) for weight in model.parameters()]
    return Size(sum(count for count, trained in every if trained), sum(count for count, _ in every))


def adapter_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of all adapters by PEFT's keys."""
    return {_PREFIX + name: weight.detach().cpu() for name, weight in model.named_parameters() if ".lora_" in name}


def write_adapter(folder: Path, model: nn.Module, base: str) -> None:
    """Write configuration and weights of the adapters. `base`: the checkpoint that they belong to."""
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": list(TARGETS),
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "task_type": None,
    }
    write_synced(folder / CONFIG, lambda file: file.write((json.dumps(config, indent=2) + "\n").encode()))
    write_synced(folder / WEIGHTS, lambda file: torch.save(adapter_state(model), file))


def load_adapter(folder: Path, model: nn.Module) -> None:
    """Add adapters to a model and give them the stored weights. Raises ValueError if a weight is missing or additional."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    adapt(model, config["r"], config["lora_alpha"])
    stored = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    present = adapter_state(model)
    if set(stored) != set(present):
        raise ValueError(f"{folder / WEIGHTS}: {len(stored)} weights (expected {len(present)} of the same names)")
    model.load_state_dict({name.removeprefix(_PREFIX): weight for name, weight in stored.items()}, strict=False)


def merge(model: nn.Module) -> None:
    """Add each adapter to the Linear that it adapts, in place: the model has the base's structure again."""
    for block in model.blocks:
        for name in TARGETS:
            adapted = getattr(block, name)
            with torch.no_grad():
                adapted.base.weight += adapted.scale * adapted.lora_B.weight @ adapted.lora_A.weight
            setattr(block, name, adapted.base)


def write_synced(path: Path, write: Any) -> None:
    """Write a file, and its content to disk. `write`: called with the open file."""
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
