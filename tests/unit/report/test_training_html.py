"""The section "Training" of the report page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.training_runs import disturbed, judged

from rackwright.report import store
from rackwright.report.demo_records import last_records
from rackwright.report.training_html import curve, training_section

VERDICT = {"result": "passed", "rule": "identical", "reference": "train-1", "reference_loss": 1.2, "reason": "bit-identical <loss>"}
TRAINED: dict[str, Any] = {
    "schema": "rackwright.demo/1",
    "run": "train-2",
    "started": "2026-11-28T12:00:00+00:00",
    "evidence": ["CPU, gloo, PyTorch 2.6.0", "simulated: gpu", "figures do not apply to GPUs"],
    "settings": {"ranks": 2, "nodes": 2, "mode": "ddp"},
    "environment": {"backend": "gloo"},
    "loss": [{"step": step, "loss": 4.0 / step} for step in range(1, 1001)],
    "final_loss": 0.004,
    "tokens_s": 16100.0,
    "tokens_s_per_rank": 8050.0,
    "efficiency": [{"ranks": 1, "tokens_s": 10000, "value": 1.0}, {"ranks": 2, "tokens_s": 16100, "value": 0.805}],
    "attempts": [
        {"number": 0, "job": "41", "nodes": "worker[0-1]", "outcome": "failed", "resumed_from": [0]},
        {"number": 1, "job": "41", "nodes": "worker[0-1]", "outcome": "completed", "resumed_from": [72]},
    ],
    "failures": [{"at": 100.0, "step": 85, "resumed_from": 72, "steps_lost": 13, "seconds": 33.5, "restarted_by": "job"}],
    "injected": [{"kind": "kill-worker", "node": "worker1", "step": 85, "at": 100.5, "undone": 121.0}],
    "time": {"wall": 72.0},
    "goodput": 0.301,
    "verdict": VERDICT,
    "error": "",
}
TUNED: dict[str, Any] = {
    "schema": "rackwright.finetune/1",
    "run": "finetune-1",
    "started": "2026-11-28T13:00:00+00:00",
    "evidence": ["CPU, PyTorch 2.6.0", "simulated: gpu"],
    "base": {"run": "train-2", "step": 200},
    "adapter": {"parameters": 65536, "total": 940800, "bytes": 271000},
    "evaluation": {
        "new": {"before": 1.902, "after": 0.805},
        "old": {"before": 1.291, "after": 1.307},
        "merged_difference": 4.8e-6,
        "limit": 1e-5,
    },
    "tokens_s": None,
    "verdict": {"result": "passed", "reason": "the loss on new text fell"},
    "error": "",
}


def plain(**records: Any) -> str:
    """Return the section without tags."""
    return re.sub(r"<[^>]+>", " ", " ".join(training_section(records)))


def test_section_has_figures_of_last_run() -> None:
    text = plain(train=TRAINED)
    for figure in ("16,100", "8,050", "0.81", "30.1%", "33.5", "13", "worker1 killed by --kill-worker", "resumed from step 72"):
        assert figure in text, figure
    assert "SIMULATED: gpu" in text and "figures do not apply to GPUs" in text
    assert "bit-identical &lt;loss&gt;" in text, "texts are escaped"


def test_interruption_without_injected_fault_has_no_cause() -> None:
    """A fault that came later did not cause it."""
    later = [{**TRAINED["injected"][0], "at": 134.0}]
    assert "not injected" in plain(train={**TRAINED, "injected": later})


def test_killed_rank_is_cause() -> None:
    fault = {**TRAINED["injected"][0], "kind": "kill-rank"}
    assert "a rank on worker1 killed by --kill-rank" in plain(train={**TRAINED, "injected": [fault]})


def test_references_are_labelled_with_sources() -> None:
    text = plain(train=TRAINED)
    assert "figures that others published" in text and "not of this stack" in text
    rows = re.findall(r"(\d[\d,.]+ (?:TFLOPS|TB/s|GB/s|tokens/s))", text[text.index("Reference") :])
    assert len(rows) == 6 and text.count("github.com/drmysore") == 7


def test_section_is_absent_without_runs() -> None:
    assert training_section({}) == []


def test_fine_tuning_stands_beside_training() -> None:
    text = plain(train=TRAINED, finetune=TUNED)
    assert "1.902 -&gt; 0.805" in text and "65,536 of 940,800 weights" in text and "4.8e-06 (limit 1e-05)" in text
    assert text.count("SIMULATED: gpu") == 2


def test_run_without_step_has_no_drawing() -> None:
    record = {**TRAINED, "loss": [], "final_loss": None, "environment": None, "failures": [], "error": "no nodes"}
    assert "<svg" not in " ".join(training_section({"train": record})) and "no nodes" in plain(train=record)


@pytest.mark.parametrize("steps", [1, 2, 399, 400, 401, 100_000])
def test_drawing_stays_inside_and_ends_at_last_step(steps: int) -> None:
    drawn = curve([{"step": step, "loss": 5.0 - 4.0 * step / steps} for step in range(1, steps + 1)], [(steps, 0)])
    points = [tuple(map(float, pair.split(","))) for pair in re.search(r'points="([^"]+)"', drawn)[1].split()]  # type: ignore[index]
    assert len(points) <= 401 and all(34 <= x <= 392 and 8 <= y <= 180 for x, y in points)
    assert steps == 1 or points[-1][0] == 392.0
    assert "http" not in drawn and "<script" not in drawn


def test_page_shows_newest_records_of_stack(report: Any, green: Any, tmp_path: Path) -> None:
    """A run after the checks writes the page again; without a page there is nothing to write."""
    store.write_html(tmp_path)
    assert not (tmp_path / store.HTML).exists()
    store.write(report(green), tmp_path)
    assert "Training" not in (tmp_path / store.HTML).read_text()
    folder = tmp_path / "demos"
    folder.mkdir()
    trained = judged(disturbed(), None)
    (folder / "train-20261128T120000Z-aa.json").write_text(json.dumps({**trained, "run": "train-old"}))
    (folder / "train-20261128T130000Z-aa.json").write_text(json.dumps({**trained, "run": "train-new"}))
    (folder / "train-20261128T140000Z-aa.json").write_text("{")
    (folder / "train-20261128T150000Z-aa.json").write_text(json.dumps({**trained, "schema": "rackwright.demo/9"}))
    (folder / "train-20261128T160000Z-aa.json").write_text(json.dumps({"schema": "rackwright.demo/1", "run": "train-incomplete"}))
    store.write_html(tmp_path)
    page = (tmp_path / store.HTML).read_text()
    assert "train-new" in page and "train-old" not in page
    assert not re.search(r"<script|src=|href=|https?://|@import|url\(", page), "the page needs no other file"
    store.write(report(green), tmp_path)
    assert "train-new" in (tmp_path / store.HTML).read_text(), "a later run of checks keeps the section"
    assert list(last_records(tmp_path)) == ["train"]
