"""When packets count as lost, and which node is at fault."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.neighbours import PingStatistics
from rackwright.checks.cluster.test_node import test_no_packet_loss as no_packet_loss  # another name: pytest must not collect it here
from rackwright.errors import UndeterminedError

LIMIT = 1.0


def judged(*answered: int) -> bool:
    """Return whether a node passes that got so many of a hundred ping replies from each neighbour."""

    def ask(_probe: Any) -> tuple[PingStatistics, ...]:
        return tuple(PingStatistics(f"192.0.2.{place}", 100, count) for place, count in enumerate(answered, 1))

    try:
        no_packet_loss(ask, Expect(), LIMIT)
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        ((100, 100), True),
        ((99, 98), True),  # by chance
        ((98, 98), False),
        ((64, 70), False),
        ((64, 100), True),  # the neighbour loses them, as its own two pings show
        ((0, 100), True),  # the neighbour is down, which other checks report
        ((0, 64), False),  # one is down, and some packets to the other are lost
        ((64,), False),
    ],
)
def test_packet_loss_compares_all_responding_neighbours(answered: tuple[int, ...], expected: bool) -> None:
    assert judged(*answered) is expected


def test_truncated_pings_are_unknown() -> None:
    with pytest.raises(UndeterminedError, match="could not send all pings in time"):
        no_packet_loss(lambda _probe: (PingStatistics("192.0.2.1", 7, 6), PingStatistics("192.0.2.2", 90, 0)), Expect(), LIMIT)


def test_silence_of_all_neighbours_is_unknown() -> None:
    with pytest.raises(UndeterminedError, match=r"192\.0\.2\.1 or 192\.0\.2\.2"):
        judged(0, 0)
