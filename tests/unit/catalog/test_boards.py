"""The table of panels: every query is PromQL over metrics that exist, with unit, legend and no placeholder left."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
from support.kept_series import is_kept
from support.rows import each_row

from rackwright.catalog import boards as catalog
from rackwright.catalog.alerts import Part
from rackwright.catalog.boards import RUNS, Board, Panel, PanelForm, boards, boards_of

SCRAPED = [Path(__file__).with_name(f"scraped_metrics{name}.txt") for name in ("", "_kubernetes")]
"""Every metric of the stacks lab-monitoring and lab-k8s-monitoring (2026-11-27), the latter without those of the former:
`rackwright monitor STACK --query 'group by(__name__) ({__name__!=""})'`."""
AFTER_AN_EVENT = {"ALERTS", "DCGM_EXP_XID_ERRORS_COUNT", "rackwright_nvswitch_errors"}
"""Metrics that a healthy cluster may lack: alerts of Prometheus, and the collector's counts of XIDs and SXids."""
NOT_YET_SCRAPED = {
    *("rackwright_job_suspicious", "rackwright_jobs_suspicious", "rackwright_jobs_judged"),
    *("rackwright_rank_cpu_seconds", "rackwright_rank_seconds", "rackwright_rank_samples", "rackwright_ranks_errors"),
}
"""Metrics of the collectors `ranks` and `jobs`, later than those files; tests/unit/metrics/test_jobs.py reads what the collectors write."""
LAB_ONLY_WITH_RUNS = (
    "rackwright_acceptance_",
    "rackwright_chaos_",
    "rackwright_drift_",
    "rackwright_nccl_",
    "rackwright_rdma_",
    "rackwright_verify_",
)
"""Metrics of results: they exist after the first run, and are written by rackwright.report.metrics and rackwright.drift.metrics."""
SCRAPE_S = 15
PANELS = [pytest.param(board, panel, id=f"{board.name}: {panel.title}") for board in boards() for panel in board.panels]


def selectors(text: str) -> Iterator[promql_parser.VectorSelector]:
    """Yield every selector of an expression. Raises ValueError if it is no PromQL."""
    yield from _selectors(promql_parser.parse(text))


def _selectors(node: object) -> Iterator[promql_parser.VectorSelector]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        part = getattr(node, name, None)
        if part is not None:
            yield from _selectors(part)
    for part in getattr(node, "args", None) or ():
        yield from _selectors(part)


def metrics(panel: Panel) -> set[str]:
    """Return the names of a panel's metrics; a regular expression of names is a list of names."""
    found: set[str] = set()
    for selector in selectors(panel.query(SCRAPE_S)):
        named = re.search(r'__name__=~"([^"]+)"', str(selector))
        if selector.name:
            found.add(selector.name)
        elif named:
            start, _, rest = named[1].partition("(")
            found |= {start + one for one in rest.rstrip(")").split("|")} if rest else set(start.split("|"))
    return found


@functools.cache
def scraped() -> frozenset[str]:
    """Return the names of the metrics that exist, or that exist after an event."""
    return frozenset(name for file in SCRAPED for name in file.read_text(encoding="utf-8").split()) | AFTER_AN_EVENT | NOT_YET_SCRAPED


@each_row(("board", "panel"), PANELS)
class TestPanel:
    def test_query_is_promql_without_placeholder(self, board: Board, panel: Panel) -> None:
        query = panel.query(SCRAPE_S, "worker0|worker1")
        assert "$" not in query
        promql_parser.parse(query)
        assert metrics(panel), "no metric is read"

    def test_metrics_exist(self, board: Board, panel: Panel) -> None:
        assert {name for name in metrics(panel) - scraped() if not name.startswith(LAB_ONLY_WITH_RUNS)} == set()
        assert [name for name in metrics(panel) if name.startswith(("apiserver_", "kubelet_", "container_")) and not is_kept(name)] == []

    def test_unit_and_legend_are_set(self, board: Board, panel: Panel) -> None:
        assert panel.unit and panel.legend.strip()
        assert "{" not in panel.legend and not re.search(r"<(?!\w+>)|(?<!\w)>", panel.legend)

    def test_lines_and_rows_name_their_series(self, board: Board, panel: Panel) -> None:
        """More than one series with the same name could not be distinguished."""
        single = not re.search(r"\bby\s*\(|=~|\btopk\b", panel.expression) and panel.expression.count("{") == 0
        assert panel.form is PanelForm.VALUE or "<" in panel.legend or single

    def test_parts_of_its_metrics_are_needed(self, board: Board, panel: Panel) -> None:
        starts = {
            Part.PROMETHEUS: ("prometheus_", "alertmanager_", "apiserver_", "kubelet_", "container_", "rackwright_job"),
            Part.GPUS: ("DCGM_", "rackwright_gpus", "slurm_node_gpus", "kube_node_status_allocatable", "rackwright_nccl"),
            Part.INFINIBAND: ("infiniband_", "rackwright_fabric"),
            Part.STORAGE: ("rackwright_mount",),
            Part.SLURM: ("slurm_", "rackwright_slurm_", "rackwright_job", "rackwright_rank"),
            Part.ACCOUNTING: ("slurm_account",),
            Part.KUBERNETES: ("kube_", "rackwright_kubernetes_", "apiserver_", "kubelet_", "container_", "etcd_"),
            Part.FABRIC: ("rackwright_rdma",),
        }
        assert {part for part, names in starts.items() for name in metrics(panel) if name.startswith(names)} == panel.needs


def test_titles_are_unique() -> None:
    assert len(PANELS) == len({(board.name, panel.title) for board in boards() for panel in board.panels})
    assert len({board.title for board in boards()}) == len(boards()) == 8


def test_plan_without_parts_has_no_empty_board() -> None:
    bare = boards_of(frozenset())
    assert {"gpu", "fabric", "slurm", "kubernetes"}.isdisjoint(board.name for board in bare)
    assert all(board.panels and not any(panel.needs for panel in board.panels) for board in bare)
    assert boards_of(frozenset(Part)) == boards()


@pytest.mark.parametrize("metric", RUNS.values())
def test_runs_are_metrics_of_results(metric: str) -> None:
    assert metric.startswith(LAB_ONLY_WITH_RUNS) and metric.endswith(
        ("_last_completion_timestamp_seconds", "_last_injection_timestamp_seconds")
    )


ROW = {"form": "lines", "unit": "count", "expr": "up", "legend": "<job>"}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"colour": "red"}, "unknown key colour"),
        ({"unit": "bananas"}, "bananas"),
        ({"form": "pie"}, "pie"),
        ({"alarm": "over 9"}, "above N"),
    ],
)
def test_wrong_row_is_refused(changed: dict[str, str], error: str) -> None:
    assert catalog._panel("fleet", "Up", ROW).alarm is None
    with pytest.raises(ValueError, match=error):
        catalog._panel("fleet", "Up", {**ROW, **changed})
