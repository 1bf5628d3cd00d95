"""Thresholds: none without a source, none that no machine can reach, none that lets broken machines pass."""

from __future__ import annotations

import csv
import datetime
import doctest
from pathlib import Path

import pytest
from goldens import Goldens
from support.rows import each_row

from rackwright.catalog import rows, thresholds_page
from rackwright.catalog.reference_values import Dimension, Kind, NodeRange, Quantity, Unit, parse_figure, reference_values
from rackwright.catalog.thresholds import COLLECTIVES, Limit, contradictions, threshold, thresholds, tolerance, validate_threshold
from rackwright.catalog.thresholds_page import page

THRESHOLDS = thresholds()
PAGE = Path(__file__).parents[3] / "docs" / "acceptance-thresholds.md"
with Path(__file__).with_name("published_thresholds.csv").open(encoding="utf-8", newline="") as _file:
    PUBLISHED = list(csv.DictReader(_file))


def _limit(row: dict[str, str]) -> Limit:
    return Limit(
        id=row["name"],
        quantity=Quantity(row["quantity"]),
        hardware=row["hardware"],
        nodes=NodeRange.parse(row["nodes"]),
        message_bytes=int(row["message_bytes"]) if row["message_bytes"] else None,
        unit=Unit(row["unit"]),
        value=float(row["value"]),
        source=row["source"],
        date=datetime.date(2026, 11, 20),
    )


@each_row("name", THRESHOLDS)
def test_nothing_speaks_against_a_threshold(name: str) -> None:
    """It can be reached, and it means something."""
    assert validate_threshold(THRESHOLDS[name].limit) == ()


def test_the_catalogue_does_not_contradict_itself() -> None:
    """One threshold for one thing."""
    assert contradictions(each.limit for each in THRESHOLDS.values()) == ()


@each_row("row", PUBLISHED, ids=lambda row: row["name"])
def test_published_thresholds_are_judged(row: dict[str, str]) -> None:
    """Wrong ones that others published are refused for the reason for which they are wrong; right ones are not."""
    found = validate_threshold(_limit(row))
    if not row["objection"]:
        assert found == ()
    assert not row["objection"] or any(row["objection"] in each for each in found), found


@pytest.mark.parametrize(
    ("hardware", "nodes", "message", "values"),
    [
        ("b300", "1", 2**34, {"active_healthcheck.py": 800, "multi_node_active_healthcheck.py": 700, "ncclscout.py": 750}),
        ("h200", "1", 2**34, {"azurehpc-health-checks README": 480, "conf/nd96isr_h200_v5.conf": 431}),
    ],
)
def test_published_thresholds_that_contradict_each_other_are_told(
    hardware: str, nodes: str, message: int, values: dict[str, float]
) -> None:
    """OCI's B300 by script; AzNHC's README and configuration."""
    limits = [
        Limit(source, Quantity.ALL_REDUCE, hardware, NodeRange.parse(nodes), message, Unit.GB_S, value, source, datetime.date(2026, 11, 20))
        for source, value in values.items()
    ]
    (told,) = contradictions(limits)
    assert all(f"{value:g} GB/s" in told for value in values.values())
    assert not contradictions(limits[:1])


@pytest.mark.parametrize("missing", ["source", "date", "value", "unit"])
def test_a_figure_without_source_date_value_or_unit_cannot_be_read(missing: str) -> None:
    """Every number has a source."""
    row = rows("figures")[0]
    assert parse_figure(row).source
    with pytest.raises(ValueError):
        parse_figure({**row, missing: ""})


def test_every_base_is_on_record_and_every_measured_figure_is_below_its_ceiling() -> None:
    """A KeyError for a base that does not exist; a figure above the specification is a wrong unit."""
    with pytest.raises(KeyError):
        reference_values()["nobody.has.measured.this"]
    ceilings = {(each.quantity, each.hardware): each.reported for each in reference_values().values() if each.kind is Kind.SPEC}
    for each in reference_values().values():
        assert each.unit.dimension is each.quantity.unit.dimension, each.id
        assert each.reported <= ceilings.get((each.quantity, each.hardware), each.reported), each.id


def test_collectives_are_judged_at_large_messages_only() -> None:
    """The same node shows 436 at 256 MiB and 482 GB/s at 16 GiB."""
    for each in THRESHOLDS.values():
        assert each.base.quantity not in COLLECTIVES or (each.base.message_bytes or 0) >= 2**32


def test_what_nobody_has_measured_has_no_threshold() -> None:
    """All-gather on an H100: only its own baseline can tell."""
    assert threshold(Quantity.ALL_GATHER, "h100") is None
    assert threshold(Quantity.STORAGE_WRITE, "lab") is None
    assert tolerance(Quantity.ALL_GATHER) == 0.05


def test_the_number_of_nodes_decides() -> None:
    """Two p5en reach more than their wire carries: no threshold; four have one."""
    assert threshold(Quantity.ALL_REDUCE, "p5en.48xlarge", 2) is None
    four = threshold(Quantity.ALL_REDUCE, "p5en.48xlarge", 4)
    assert four is not None and four.holds(364.9) and not four.holds(300)


def test_a_latency_is_good_when_it_is_low() -> None:
    """And no unit is lost on the way."""
    latency = threshold(Quantity.RDMA_LATENCY, "ndr", 2)
    assert latency is not None and latency.holds(2.1) and not latency.holds(7.4)
    assert Unit.TB_S.to(Unit.GB_S, 3.35) == pytest.approx(3350)
    with pytest.raises(ValueError):
        Unit.TB_S.to(Unit.TFLOPS, 1)
    assert {unit.dimension for unit in Unit} == set(Dimension)


def test_the_page_is_what_the_catalogue_says(goldens: Goldens) -> None:
    """docs/acceptance-thresholds.md; --update-golden writes it again."""
    if goldens.update:
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
    assert not doctest.testmod(thresholds_page).failed
    assert all(f"`{each}`" in page() for each in (*THRESHOLDS, *reference_values()))
