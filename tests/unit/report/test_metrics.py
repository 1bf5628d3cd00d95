"""Results as metrics: counts, times and speeds in base units, and no text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.results import BEGAN, CANARY, FIGURES, acceptance, published, report, result

from rackwright.report.acceptance import PhaseState
from rackwright.report.chaos import EventRecord
from rackwright.report.metrics import acceptance_metrics, chaos_metrics, verification_metrics
from rackwright.report.verdict import Evidence, Verdict


def values(text: str) -> dict[tuple[str, ...], float]:
    """Return (name, labels…) -> value, as Prometheus' own parser reads it; every series has the stack as label."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("stack") == "lab" and family.documentation
            found[(sample.name.removeprefix("rackwright_"), *sorted(labels.values()))] = sample.value
    return found


def test_results_are_counted_by_outcome_and_evidence() -> None:
    found = values(
        verification_metrics(
            report(result("a", Verdict.PASSED), result("b", Verdict.FAILED), result("c", Verdict.FAILED, Evidence.SIMULATED))
        )
    )
    counts = {name[1:]: value for name, value in found.items() if name[0] == "verify_results"}
    assert {key: value for key, value in counts.items() if value} == {
        ("passed", "real"): 1,
        ("failed", "real"): 1,
        ("failed", "simulated"): 1,
    }
    assert len(counts) == 8, "an outcome without a result is 0, not absent"


def test_time_of_run_and_verdict_are_told() -> None:
    found = values(verification_metrics(report(verdict=Verdict.UNKNOWN)))
    assert found["verify_last_completion_timestamp_seconds",] == BEGAN.timestamp() + 12
    assert found["verify_duration_seconds",] == 12
    assert {name[1]: value for name, value in found.items() if name[0] == "verify_verdict"} == {"passed": 0, "failed": 0, "unknown": 1}
    assert found["verify_info", "0" * 12, "smoke"] == 1


def test_injected_failures_are_counted_and_open_ones_named() -> None:
    def event(number: int, **more: Any) -> EventRecord:
        return EventRecord(f"e-{number}", number, 1, "node_kill", "worker1", 0.0, **{"injected": 100.0 * number, **more})

    done = {"undone": 150.0, "verdict": Verdict.PASSED}
    found = values(chaos_metrics("lab", [event(1, **done), event(2, **done), event(3), event(4, injected=None)]))
    assert found == {
        ("chaos_failure", "e-3", "node_kill", "worker1"): 1,
        ("chaos_failures", "node_kill", "passed"): 2,
        ("chaos_failures", "node_kill", "unknown"): 1,
        ("chaos_last_injection_timestamp_seconds",): 300.0,
    }
    assert values(chaos_metrics("lab", [])) == {("chaos_last_injection_timestamp_seconds",): 0.0}


def test_measurements_are_in_base_units() -> None:
    files = acceptance_metrics(acceptance(report()))
    assert set(files) == {"acceptance", "nccl", "rdma"}
    assert values(files["nccl"])["nccl_busbw_bytes_per_second", "16", "all_reduce", "worker0"] == pytest.approx(190.5e9)
    rdma = values(files["rdma"])
    assert rdma["rdma_median_bandwidth_bytes_per_second", "mlx5_0", "worker0"] == pytest.approx(47.5e9)
    assert rdma["rdma_worst_bandwidth_bytes_per_second", "mlx5_0", "worker0", "worker1"] == pytest.approx(45e9)
    assert rdma["rdma_median_latency_seconds", "mlx5_0", "worker0"] == pytest.approx(1.5e-6)
    assert rdma["rdma_worst_latency_seconds", "mlx5_0", "worker0", "worker1"] == pytest.approx(2e-6)
    assert rdma["rdma_last_completion_timestamp_seconds",] == BEGAN.timestamp() + 12


PARTIAL = ({"id": "gpu", "reason": "phase", "detail": ""},)


@pytest.mark.parametrize(
    ("not_run", "state", "figures", "files"),
    [
        pytest.param(PARTIAL, PhaseState.RAN, FIGURES, {"nccl", "rdma"}, id="selected-phases"),
        pytest.param((), PhaseState.SKIPPED, FIGURES, {"acceptance"}, id="phases-skipped"),
        pytest.param((), PhaseState.RAN, (), {"acceptance"}, id="nothing-measured"),
    ],
)
def test_file_of_what_did_not_run_is_left_alone(
    not_run: tuple[dict[str, str], ...], state: PhaseState, figures: tuple[tuple[str, Mapping[str, object]], ...], files: set[str]
) -> None:
    assert set(acceptance_metrics(acceptance(report(not_run=not_run), figures, state))) == files  # type: ignore[arg-type]


def test_texts_of_results_are_not_published() -> None:
    """A reason may quote a line of output, and a line may hold a secret."""
    found = report(result("worker0", Verdict.FAILED), verdict=Verdict.FAILED)
    texts = [verification_metrics(found), *acceptance_metrics(acceptance(found)).values()]
    assert [text for text in texts if CANARY in text] == []
    assert set(published()) == {"verify", "drift", "acceptance", "nccl", "rdma"}
