"""The model of the demo: a decoder-only transformer on bytes, 875,264 weights by default."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

TOKENS = 256
"""A token is a byte."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the model."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    context: int = 128


class Block(nn.Module):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    """Attention and a perceptron, each after a norm and added to its input. No dropout: a run must be repeatable."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.before_attention = nn.LayerNorm(shape.width)
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.projection = nn.Linear(shape.width, shape.width)
        self.before_perceptron = nn.LayerNorm(shape.width)
        self.widen = nn.Linear(shape.width, 4 * shape.width)
        self.narrow = nn.Linear(4 * shape.width, shape.width)

    def forward(self, state: Tensor) -> Tensor:
        """Return the state after this block."""
        sequences, length, width = state.shape
        parts = self.query_key_value(self.before_attention(state)).split(width, dim=2)
        query, key, value = (part.view(sequences, length, self.heads, -1).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        state = state + self.projection(attended.transpose(1, 2).reshape(sequences, length, width))
        return state + self.narrow(functional.gelu(self.widen(self.before_perceptron(state))))


class Transformer(nn.Module):  # type: ignore[misc]
    """Embeddings, blocks, and a score for each possible next byte."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.scores = nn.Linear(shape.width, TOKENS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the byte after each byte."""
        state = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            state = block(state)
        scores: Tensor = self.scores(self.norm(state))
        return scores


def count_parameters(model: nn.Module) -> int:
    """Return the number of weights of a model that is not sharded yet."""
    return sum(weight.numel() for weight in model.parameters())
