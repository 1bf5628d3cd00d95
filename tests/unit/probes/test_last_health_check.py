"""How long ago Slurm may have run a node's health check, on nodes of different speed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.slurm import LAST_HEALTH_CHECK, LastHealthCheck, parse_last_health_check
from rackwright.checks.cluster.test_slurm import test_health_check_runs as health_check_runs  # another name: pytest must not collect it

CLUSTER = SimpleNamespace(scheduler=SimpleNamespace(health_interval_s=60))


def passes(last: LastHealthCheck) -> bool:
    """Return whether a node passes with this last health check, where three intervals are allowed."""
    try:
        health_check_runs(lambda _probe: last, CLUSTER, Expect(), 3)
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize(
    ("seconds", "slowness", "expected"),
    [
        (180, 1, True),
        (181, 1, False),
        (197, 2, True),  # an emulated machine, 2026-11-30
        (241, 2, False),
        (3600, 20, False),
        (-1, 1, False),  # written in the future
    ],
)
def test_limit_grows_with_slowness_of_node(seconds: int, slowness: int, expected: bool) -> None:
    assert passes(LastHealthCheck(seconds, slowness)) is expected


def test_output_has_both_times_and_slowness() -> None:
    assert parse_last_health_check("1796000000\n1796000090\n2\n") == LastHealthCheck(90, 2)
    assert "RACKWRIGHT_SLOWNESS:-1" in str(LAST_HEALTH_CHECK.command)


@pytest.mark.parametrize("text", ["", "1796000000\n", "1796000000\n1796000090\n", "a\nb\nc\n"])
def test_truncated_output_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_last_health_check(text)
