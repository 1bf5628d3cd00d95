"""Words with a fixed form."""

from __future__ import annotations

import doctest
import importlib
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from rackwright.model import units

calm = settings(derandomize=True)
"""No clock and no chance: a slow or lucky machine must not decide a test."""


@pytest.mark.parametrize(
    "module",
    ["model.units", "model.addresses", "model.finding", "model.groups", "derive.layout", "plan.addresses", "catalog", "cli.render.table"],
)
def test_examples_in_docstrings_are_true(module: str) -> None:
    """An example that is wrong is worse than none."""
    outcome = doctest.testmod(importlib.import_module(f"rackwright.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("1KiB", 1024), ("512MiB", 512 * 2**20), ("2GiB", 2**31), ("1.5GiB", 3 * 2**29), ("1TiB", 2**40), ("0GiB", 0), ("1.0005KiB", 1024)],
)
def test_sizes(text: str, size: int) -> None:
    """Binary units only: GB and GiB differ by 7 %, and a node is short of that."""
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("2GB", "write 2GiB"),
        ("2 g", "write 2GiB"),
        ("1.5m", "write 1.5MiB"),
        (2048, "2048MiB"),
        ("much", "like 2GiB"),
        ("-1GiB", "like 2GiB"),
        (True, "like 2GiB"),
    ],
)
def test_wrong_sizes_are_refused_with_what_to_write(value: object, hint: str) -> None:
    """Most people write what other tools take."""
    with pytest.raises(PydanticCustomError) as refused:
        units.parse_bytes(value)
    assert hint in (refused.value.context or {})["hint"]


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("0s", 0)])
def test_durations(text: str, seconds: int) -> None:
    """Seconds inside."""
    assert units.parse_seconds(text) == seconds


@pytest.mark.parametrize("value", [300, "300", "5 m", "m", "5min", "", None, "-5m"])
def test_wrong_durations_are_refused(value: object) -> None:
    """Readers would assume different units for a number without one."""
    with pytest.raises(PydanticCustomError):
        units.parse_seconds(value)


@calm
@given(st.integers(min_value=0, max_value=2**50))
def test_sizes_survive_being_written_and_read(kibibytes: int) -> None:
    """The plan carries the target as text."""
    assert units.parse_bytes(units.format_bytes(kibibytes * 1024)) == kibibytes * 1024


@calm
@given(st.integers(min_value=0, max_value=10**9))
def test_durations_survive_being_written_and_read(seconds: int) -> None:
    """The same for durations."""
    assert units.parse_seconds(units.format_seconds(seconds)) == seconds


@pytest.mark.parametrize("value", [date(2026, 12, 1), "2026-12-01", "2026-12-01 00:00:00 +0000 UTC", "2026-12-01T00:00:00Z"])
def test_days_are_read_as_written_and_as_the_engine_passes_them_on(value: object) -> None:
    """The engine turns an unquoted date into a time stamp [tried, 3.259]."""
    assert units.parse_day(value) == date(2026, 12, 1)


@pytest.mark.parametrize("value", ["2026-13-01", "tomorrow", "1.12.2026", 20261201.5, "2026-12-01 12:00:00 +0000 UTC"])
def test_what_is_no_day_is_refused(value: object) -> None:
    """A time of day would be dropped without a word."""
    with pytest.raises(PydanticCustomError):
        units.parse_day(value)
