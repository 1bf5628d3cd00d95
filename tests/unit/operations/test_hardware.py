"""The hardware query: its report, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import hardware
from rackwright.report.hardware.document import Section
from rackwright.report.verdict import Verdict


class Query:
    """The query of the nodes: its arguments, and its result."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bool]] = []
        self.status, self.said, self.text = 0, "", json.dumps({"verdict": "failed"})
        self.interrupted = False

    async def __call__(self, stack: str, section: str, *, in_jobs: bool) -> tuple[int, Path, str]:
        self.asked.append((stack, section, in_jobs))
        if self.interrupted:
            raise KeyboardInterrupt
        file = paths.results(stack).parent / "hardware.json"
        if self.text:
            file.write_text(self.text)
        return self.status, file, self.said


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch, lab: str) -> Query:
    found = Query()
    monkeypatch.setattr(hardware, "run_hardware", found)
    return found


def test_hardware_report_is_returned_with_its_text(query: Query) -> None:
    found = hardware.query_hardware("lab", Section.GPU, in_jobs=True)
    assert query.asked == [("lab", "gpu", True)]
    assert (found.verdict, found.text) == (Verdict.FAILED, query.text)


def _report(**gpu: str | int) -> dict[str, object]:
    """Return a report of one node with one GPU, as far as the comparison reads it."""
    node = {"name": "worker0", "reason": "", "unknown": {}, "facts": {"gpus": [gpu]}}
    return {
        "schema": hardware.SCHEMA,
        "stack": "lab",
        "started": "2026-11-27T04:00:00+00:00",
        "simulated": [],
        "nodes": [node],
        "compared": None,
        "verdict": "passed",
    }


def test_query_compares_with_an_earlier_report(query: Query, tmp_path: Path) -> None:
    """The text has the comparison, too, and a replaced GPU fails the query."""
    before = tmp_path / "before.json"
    before.write_text(json.dumps(_report(index=0, uuid="GPU-a", bus="00000000:1B:00.0")))
    query.text = json.dumps(_report(index=0, uuid="GPU-b", bus="00000000:1B:00.0"))
    found = hardware.query_hardware("lab", Section.GPU, in_jobs=False, since=before)
    assert found.verdict is Verdict.FAILED and json.loads(found.text) == found.report
    assert [one["change"] for one in found.report["compared"]["changes"]] == ["replaced"]
    before.write_text("{}")
    query.asked.clear()
    with pytest.raises(InputError, match="is not a hardware report with identities"):
        hardware.query_hardware("lab", Section.GPU, in_jobs=False, since=before)
    assert query.asked == []


def test_query_without_report_is_undetermined(query: Query) -> None:
    query.text, query.said = "", "killed\n"
    with pytest.raises(UndeterminedError, match=r"^stack lab: the hardware query wrote no report; output: killed\Z"):
        hardware.query_hardware("lab", Section.SUMMARY, in_jobs=False)


def test_query_refuses_input_that_nodes_refuse(query: Query) -> None:
    query.status, query.said = 2, "no worker is idle\n"
    with pytest.raises(InputError, match=r"^no worker is idle\Z"):
        hardware.query_hardware("lab", Section.SUMMARY, in_jobs=False)


def test_interrupted_query_is_undetermined(query: Query) -> None:
    query.interrupted = True
    with pytest.raises(UndeterminedError, match=r"^stack lab: interrupted\Z"):
        hardware.query_hardware("lab", Section.SUMMARY, in_jobs=False)
