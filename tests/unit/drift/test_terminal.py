"""The terminal output for operators."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console

from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport
from rackwright.drift.terminal import render


def shown(*scans: LayerScan) -> str:
    """Return a document of these scans, 80 columns wide."""
    console = Console(width=80, record=True, file=None, quiet=True)
    console.quiet = False
    with console.capture() as caught:
        console.print(render(DriftReport("lab", "0" * 12, datetime(2026, 11, 23, tzinfo=UTC), 5.04, scans)))
    return caught.get()


def differs(node: str, category: Category = Category.BREAKING) -> DriftItem:
    return DriftItem(Layer.BEHAVIOUR, node, "munge.is_active", "active", "dead", category, "start it")


def test_output_names_subject_node_values_and_remedy() -> None:
    text = shown(LayerScan(Layer.BEHAVIOUR, 4.0, (differs("worker0"),)))
    for word in ("munge.is_active", "worker0", "active", "dead", "start it", "breaking"):
        assert word in text


def test_common_difference_is_printed_once() -> None:
    silent = tuple((f"worker{n}", "no answer") for n in range(5, 9))
    text = shown(
        LayerScan(
            Layer.BEHAVIOUR,
            4.0,
            tuple(one for n in (0, 1, 2, 4) for one in (differs(f"worker{n}"), differs(f"worker{n}", Category.BENIGN))),
            silent,
        )
    )
    assert text.count("munge.is_active  worker[0-2,4]") == 2, "once for each category"
    assert text.count("no answer") == 1 and "worker[5-8]" in text


def test_clean_scan_is_short() -> None:
    text = shown(*(LayerScan(layer, 1.0) for layer in Layer))
    assert "✓ lab: clean" in text and "0 differences in 5.0 s" in text


def test_unresponsive_nodes_come_first() -> None:
    text = shown(LayerScan(Layer.BEHAVIOUR, 4.0, (differs("worker0"),), (("worker1", "unreachable"),)))
    assert text.index("worker1") < text.index("worker0") and "? lab: unknown" in text
