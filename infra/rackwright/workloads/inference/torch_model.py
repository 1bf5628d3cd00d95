"""A checkpoint of the training program as the model of the server."""

from __future__ import annotations

from rackwright.workloads.training import compat

from collections.abc import Sequence  # isort: skip
from pathlib import Path

import torch

from rackwright.workloads.training import manifest
from rackwright.workloads.training.finetune import load_base
from rackwright.workloads.training.model import Shape


class DamagedCheckpointError(Exception):
    """A checkpoint whose digests do not agree."""


class TorchModel:
    """The model of a checkpoint, on a GPU if there is one."""

    def __init__(self, checkpoint: Path) -> None:
        """Load a checkpoint. Raises DamagedCheckpointError before anything of a damaged one is read."""
        if damage := manifest.find_damage(checkpoint):
            raise DamagedCheckpointError(f"{checkpoint}: {damage[0].file} is {damage[0].problem}: {damage[0].detail}")
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model = load_base(checkpoint, self._device).eval()

    @property
    def context(self) -> int:
        """Largest number of tokens of prompt and answer."""
        return Shape().context

    @property
    def facts(self) -> dict[str, str]:
        """Return what computes."""
        device = torch.cuda.get_device_name(0) if self._device.type == "cuda" else "CPU"
        return {"device": device, "torch": str(torch.__version__), "blas": compat.blas()}

    def next_tokens(self, texts: Sequence[bytes], temperatures: Sequence[float]) -> list[int]:
        """Return the next byte of each text. Shorter texts are filled up on the right, where attention does not look."""
        longest = max(map(len, texts))
        padded = b"".join(text.ljust(longest, b"\0") for text in texts)
        tokens = torch.frombuffer(bytearray(padded), dtype=torch.uint8).long().view(len(texts), longest).to(self._device)
        last = torch.tensor([len(text) - 1 for text in texts], device=self._device)
        with torch.inference_mode():
            scores = self._model(tokens)[torch.arange(len(texts), device=self._device), last]
            heat = torch.tensor(temperatures, device=self._device).unsqueeze(1)
            drawn = torch.multinomial(torch.softmax(scores / heat.clamp(min=1e-3), dim=1), 1).squeeze(1)
            chosen = torch.where(heat.squeeze(1) > 0, drawn, scores.argmax(dim=1))
        return [int(one) for one in chosen.tolist()]
