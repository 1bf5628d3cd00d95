"""When packets count as lost, and which node is at fault."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.neighbours import PingStatistics, parse_ping_statistics, ping_command
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


@pytest.mark.parametrize(
    ("last", "answered", "expected"),
    [
        (94, 94, True),  # the last six replies came later than twice the longest round trip before: seen on a busy emulated machine
        (94, 92, False),
        (100, 94, False),
        (None, 94, False),  # a ping that does not say
    ],
)
def test_late_replies_are_not_lost_packets(last: int | None, answered: int, expected: bool) -> None:
    expect = Expect()
    way = PingStatistics("192.0.2.1", 100, answered, last)
    if expected:
        no_packet_loss(lambda _probe: (way,), expect, LIMIT)
    else:
        with pytest.raises(Mismatch):
            no_packet_loss(lambda _probe: (way,), expect, LIMIT)


def test_few_known_outcomes_are_unknown() -> None:
    with pytest.raises(UndeterminedError, match="missing replies may still be in flight"):
        no_packet_loss(lambda _probe: (PingStatistics("192.0.2.1", 100, 20, 20),), Expect(), LIMIT)


@pytest.mark.parametrize(
    ("received", "reply", "last"),
    [
        ("94 received", "64 bytes from 192.0.2.1: icmp_seq=94 ttl=64 time=0.666 ms", 94),  # iputils
        ("94 packets received", "64 bytes from 192.0.2.1: icmp_seq=93 ttl=64 time=0.666 ms", 94),  # inetutils
        ("94 packets received", "64 bytes from 192.0.2.1: seq=93 ttl=64 time=0.666 ms", 94),  # busybox
        ("94 received", "", None),
    ],
)
def test_last_reply_is_read(received: str, reply: str, last: int | None) -> None:
    count = f"100 packets transmitted, {received}, 6% packet loss, time 453ms"
    text = f"PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n\n--- 192.0.2.1 ping statistics ---\n{count}\n\n{reply}\n"
    assert parse_ping_statistics(text) == (PingStatistics("192.0.2.1", 100, 94, last),)


def test_silence_of_all_neighbours_is_unknown() -> None:
    with pytest.raises(UndeterminedError, match=r"192\.0\.2\.1 or 192\.0\.2\.2"):
        judged(0, 0)


PING = """#!/bin/sh
for a; do :; done
while [ "$1" != -c ]; do shift; done
n=$2
[ "$a" = 192.0.2.1 ] && [ $n = 100 ] && n=94
[ "$a" = 192.0.2.2 ] && n=$((n * 9 / 10))
[ "$a" = 192.0.2.3 ] && n=0
[ $n = 0 ] || reply="64 bytes from $a: icmp_seq=$2 ttl=64 time=1 ms"
printf 'PING %s 56(84) bytes of data.\n%s\n\n' "$a" "$reply"
printf -- '--- %s ping statistics ---\n%s packets transmitted, %s received, ' "$a" "$2" "$n"
printf '%s%% packet loss, time 198ms\n' $((100 - 100 * n / $2))
[ $n != 0 ]
"""
"""A ping that loses packets to an address once, to another one always, and has no reply from the third."""


def test_loss_is_confirmed_by_a_second_series(tmp_path: Path) -> None:
    stub = tmp_path / "ping"
    stub.write_text(PING, encoding="utf-8")
    stub.chmod(0o755)
    command = ping_command(f"192.0.2.{host}" for host in range(1, 5))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", command], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    once, always, absent, none = parse_ping_statistics(done.stdout)
    assert once == PingStatistics("192.0.2.1", 200, 200, 200)
    assert always == PingStatistics("192.0.2.2", 200, 180, 200)
    assert absent == PingStatistics("192.0.2.3", 100, 0, None)
    assert none == PingStatistics("192.0.2.4", 100, 100, 100)
