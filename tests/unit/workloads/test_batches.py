"""A batch is a function of seed and step, and the ranks' parts together are the batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackwright.workloads.training import batches, corpus


@given(st.integers(0, 99), st.integers(1, 10_000), st.sampled_from([1, 2, 4, 8, 16]))
def test_ranks_share_same_global_batch(seed: int, step: int, ranks: int) -> None:
    starts = batches.global_batch(seed, step, sequences=16, context=128, size=2_000)
    shares = [batches.share_of_rank(starts, rank, ranks) for rank in range(ranks)]
    assert [start for share in shares for start in share] == starts
    assert all(start >= 0 and start + 129 <= 2_000 for start in starts)


def test_steps_and_seeds_have_different_batches() -> None:
    drawn = [batches.global_batch(seed, step, sequences=16, context=128, size=2_000) for seed in (1, 2) for step in (1, 2)]
    assert len({tuple(one) for one in drawn}) == 4


def test_uneven_share_is_refused() -> None:
    with pytest.raises(ValueError, match="16 sequences cannot be split evenly between 3 ranks"):
        batches.share_of_rank(list(range(16)), 0, 3)


def test_text_is_same_on_every_machine() -> None:
    """The digest of seed 1 is part of each record; another text is another experiment."""
    text = corpus.make_text(1)
    assert len(text) == corpus.SIZE and set(text) < set(range(128))
    assert corpus.text_digest(text) == "f6c68f2cd8034b6da2b80f67faeaef8b2e8eb758f3b07b160595833db4ff3649"
    assert corpus.make_text(2) != text
