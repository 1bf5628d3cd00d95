"""Which pieces of the text a step trains on: a function of seed and step, split by rank. Standard library only.

A batch depends neither on the number of ranks nor on what ran before. A job that resumes at a step, on any number of ranks, reads what the
undisturbed job would have read.
"""

from __future__ import annotations

import random


def global_batch(seed: int, step: int, *, sequences: int, context: int, size: int) -> list[int]:
    """Return the start of each sequence of a step; a sequence has `context` tokens and the one to predict after each."""
    source = random.Random(f"{seed}/{step}")
    return [source.randrange(size - context) for _ in range(sequences)]


def share_of_rank(starts: list[int], rank: int, ranks: int) -> list[int]:
    """Return the part of a rank. Raises ValueError if the batch cannot be split evenly.

    >>> share_of_rank([5, 6, 7, 8], 1, 2)
    [7, 8]
    """
    if len(starts) % ranks:
        raise ValueError(f"a batch of {len(starts)} sequences cannot be split evenly between {ranks} ranks")
    share = len(starts) // ranks
    return starts[rank * share : (rank + 1) * share]


def batch_size(ranks: int, least: int = 16) -> int:
    """Return the smallest number of sequences, at least 16, that can be split evenly.

    >>> batch_size(2), batch_size(3), batch_size(64)
    (16, 18, 64)
    """
    return -(-least // ranks) * ranks
