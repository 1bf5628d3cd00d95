"""How many nodes are asked at a time."""

from __future__ import annotations

import pytest

from rackwright.inventory.concurrency import PER_CORE, max_parallel


@pytest.mark.parametrize(
    ("target", "most", "cores", "expected"),
    [("lab", 48, 2, 2 * PER_CORE), ("lab", 4, 2, 4), ("lab", 48, 64, 48), ("hosts", 48, 2, 48), ("aws", 32, 1, 32)],
)
def test_a_lab_is_asked_as_its_machine_can_and_machines_of_their_own_all_at_once(target: str, most: int, cores: int, expected: int) -> None:
    assert max_parallel(target, most, cores) == expected


def test_without_a_word_on_cores_this_machine_decides() -> None:
    assert 1 <= max_parallel("lab", 10**6) < 10**6
