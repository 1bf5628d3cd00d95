"""Runs of dcgmi diag that are incomplete, or whose errors stand beside the word Pass: they never pass."""

from __future__ import annotations

import json

import pytest

from rackwright.checks.acceptance.evaluators.health import whole_diagnosis
from rackwright.checks.acceptance.parsers import dcgm
from rackwright.checks.acceptance.phase import guarded
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
TESTS = {
    "Deployment": ("software",),
    "Integration": ("pcie",),
    "Hardware": ("memory", "diagnostic"),
    "Stress": ("memory_bandwidth", "targeted_stress", "targeted_power"),
}


def document(**changes):
    """Return the JSON of DCGM 4 for four good GPUs. `changes`: by test, its results and summary, or None for no such test."""
    categories = []
    for category, names in TESTS.items():
        tests = []
        for name in names:
            results = [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"} for gpu in range(4)]
            test = {"name": name, "results": results, "test_summary": {"status": "Pass"}, **(changes.get(name, {}) or {})}
            tests += [] if name in changes and changes[name] is None else [test]
        categories.append({"category": category, "tests": [*tests, changes[category]] if category in changes else tests})
    return {"DCGM Diagnostic": {"test_categories": categories}, "metadata": {"DCGM Version": "4.6.0"}}


def judged(found, status=0, planned=4):
    text = found if isinstance(found, str) else json.dumps(found)
    return guarded("dcgm_passes", "w", lambda: whole_diagnosis("dcgm_passes", "w", dcgm.parse(text), planned, status))


def skipped(name, **more):
    return {"name": name, "results": [{"entity_group": "GPU", "entity_id": gpu, "status": "Skip", **more} for gpu in range(4)]}


def test_whole_run_passes():
    assert judged(document()).verdict is PASSED


@pytest.mark.parametrize("name", ["memtest", "eud", "EUD Test", "Pulse Test", "pulse_test", "nvbandwidth", "Memtest", "nccl_tests"])
def test_skipped_test_of_another_level_is_ignored(name):
    assert judged(document(Stress=skipped(name))).verdict is PASSED


def test_skipped_test_with_a_message_is_unknown():
    finding = judged(document(Stress=skipped("memtest", warnings=[{"warning": "the plugin did not start"}])))
    assert (finding.verdict, "memtest (the plugin did not start)" in finding.reason) == (UNKNOWN, True)


@pytest.mark.parametrize("name", ["pcie", "memory", "diagnostic", "targeted_stress"])
def test_skipped_test_of_this_level_is_unknown(name):
    finding = judged(document(**{name: skipped(name)}))
    assert (finding.verdict, name in finding.reason) == (UNKNOWN, True)


@pytest.mark.parametrize(("names", "category"), [(("pcie",), "Integration"), (("memory", "diagnostic"), "Hardware")])
def test_missing_category_is_unknown(names, category):
    finding = judged(document(**dict.fromkeys(names)))
    assert (finding.verdict, category in finding.reason) == (UNKNOWN, True)


def test_gpu_that_was_not_tested_is_unknown():
    three = [{"entity_group": "GPU", "entity_id": gpu, "status": "Pass"} for gpu in range(3)]
    finding = judged(document(diagnostic={"results": three}))
    assert (finding.verdict, finding.reason) == (UNKNOWN, "dcgmi diag ran diagnostic on 3 of 4 GPUs")
    assert judged(document(), planned=8).verdict is UNKNOWN


@pytest.mark.parametrize("status", [-30, 205, 226])
def test_error_status_without_a_reason_is_unknown(status):
    assert judged(document(), status=status).verdict is UNKNOWN
    assert judged(document(memory={"test_summary": {"status": "Fail"}}), status=status).verdict is FAILED


@pytest.mark.parametrize(
    "change",
    [
        {"results": [{"entity_group": "GPU", "entity_id": 1, "status": "Pass", "warnings": [{"warning": "row remapping failed"}]}]},
        {"results": [{"entity_group": "GPU", "entity_id": 1, "status": "Pass", "errors": [{"error": "row remapping failed"}]}]},
        {"results": [{"gpu_id": "1", "status": "PASS", "warnings": "row remapping failed"}]},
        {"results": [{"gpu_id": "1", "status": "PASS", "error_message": "row remapping failed"}]},
        {"warnings": [{"error_category": 7, "error_id": 43, "error_severity": 2, "warning": "row remapping failed"}]},
        {"test_summary": {"status": "Pass", "errors": ["row remapping failed"]}},
        {"test_summary": {"status": "Fail", "warnings": [{"error_id": 3, "warning": "row remapping failed"}]}},
    ],
)
def test_error_beside_pass_fails(change):
    finding = judged(document(memory=change))
    assert (finding.verdict, "row remapping failed" in finding.reason) == (FAILED, True)


def test_error_of_the_whole_run_fails():
    found = document()
    found["DCGM Diagnostic"]["warnings"] = [{"warning": "the host engine lost a GPU"}]
    beside = document() | {"Overall Result": "Fail", "Warning": "the host engine lost a GPU"}
    assert judged(beside).reason == judged(found).reason
    assert judged(found).verdict is FAILED
    found = document()
    found["DCGM Diagnostic"]["test_categories"][0]["error"] = "a test plugin ended"
    assert judged(found).verdict is FAILED
    assert judged({"DCGM Diagnostic": {"runtime_error": "another diagnostic runs"}}).verdict is UNKNOWN


LINE = "| {:<25} | {:<46} |\n"
RULE = "+-----  {}  ----------+------------------------------------------------+\n"


@pytest.mark.parametrize(
    ("left_out", "extra", "verdict"),
    [("", "", PASSED), ("Integration", "", UNKNOWN), ("", "Memtest", PASSED), ("", "Targeted Power", UNKNOWN)],
)
def test_table_is_judged_like_json(left_out, extra, verdict):
    text = LINE.format("Diagnostic", "Result")
    for category, name in {"Deployment": "Denylist", "Integration": "PCIe", "Hardware": "GPU Memory", "Stress": "Targeted Stress"}.items():
        text += "" if category == left_out else RULE.format(category) + LINE.format(name, "Pass - All")
    text += LINE.format(extra, "Skip - All") if extra else ""
    assert judged(f"{text}+---------------------------+------------------------------------------------+\n").verdict is verdict
