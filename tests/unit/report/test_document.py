"""The verdict: passed only if every owed result exists and is good."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rackwright.catalog.checks import Kind, Level, checks
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import from_inventory
from rackwright.report import humanize
from rackwright.report.check_plan import Kinds, plan_checks
from rackwright.report.document import build_report, invalidate, read, report_from_dict
from rackwright.report.result import read_lines, result
from rackwright.report.schemas import schema_errors
from rackwright.report.store import write, write_json
from rackwright.report.verdict import SkipReason, Verdict, worst

from .conftest import STARTED


def test_complete_passed_results_pass(report, green):
    assert report(green).verdict is Verdict.PASSED
    assert report(green).totals == {"passed": len(green), "failed": 0, "skipped": 0, "unknown": 0}


def test_empty_results_are_unknown(report, green):
    found = report({})
    assert found.verdict is Verdict.UNKNOWN
    assert found.totals["unknown"] == len(green)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_missing_result_prevents_pass(report, green, data):
    """Without any single result the verdict is unknown, and so is that check, with a reason."""
    gone = data.draw(st.sampled_from(sorted(green)))
    found = report({id_: one for id_, one in green.items() if id_ != gone})
    missing = next(check for check in found.checks if check.id == gone)
    assert found.verdict is Verdict.UNKNOWN
    assert (missing.verdict, bool(missing.reason), bool(missing.remedy)) == (Verdict.UNKNOWN, True, True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_worst_result_decides(report, green, data):
    """`unknown` ranks above `failed`; skipped results change nothing."""
    verdicts = st.sampled_from([Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED])
    changed = data.draw(st.dictionaries(st.sampled_from(sorted(green)), verdicts, max_size=6))
    found = report({**green, **{id_: replace(green[id_], verdict=verdict) for id_, verdict in changed.items()}})
    assert found.verdict is worst([*changed.values(), Verdict.PASSED])


def test_unowed_results_are_ignored(report, green, check_plan):
    unowed = replace(next(iter(green.values())), id="gpu.count_matches_plan[worker9]", verdict=Verdict.FAILED)
    assert report({**green, unowed.id: unowed}).verdict is Verdict.PASSED


def test_all_skipped_is_not_passed(report, green):
    skipped = {id_: replace(one, verdict=Verdict.SKIPPED, reason=SkipReason.SIMULATED_HARDWARE) for id_, one in green.items()}
    assert report(skipped).verdict is Verdict.UNKNOWN


def test_empty_group_is_not_passed(inventory, report):
    inventory["all"]["children"]["gpu"]["hosts"] = {}
    declared = from_inventory(inventory)
    check_plan = plan_checks(declared, checks(), Level.SMOKE)
    good = {id_: result(item, Verdict.PASSED) for id_, item in check_plan.expected.items()}
    found = build_report(declared, check_plan, good, started=STARTED, seconds=1)
    assert found.verdict is Verdict.UNKNOWN
    assert ("gpu.count_matches_plan", "empty-group") in {(item["id"], item["reason"]) for item in found.not_run}


def test_empty_plan_is_not_passed(inventory):
    for group in inventory["all"]["children"].values():
        group["hosts"] = {}
    declared = from_inventory(inventory)
    found = build_report(declared, plan_checks(declared, checks(), Level.SMOKE), {}, started=STARTED, seconds=0)
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("reason", ["", "no time", "skipped by hand"])
def test_skip_needs_a_known_reason(check_plan, reason):
    one = next(iter(check_plan.expected.values()))
    assert result(one, Verdict.SKIPPED, reason=reason).verdict is Verdict.UNKNOWN
    assert result(one, Verdict.SKIPPED, reason="simulated-hardware").verdict is Verdict.SKIPPED


class TestStoppedDaemon:
    """A check that is skipped because of a stopped daemon, and the check that reports the daemon."""

    @pytest.fixture
    def skipped(self, green):
        one = green["slurm.controller_answers_here[worker1]"]
        return replace(
            one,
            verdict=Verdict.SKIPPED,
            reason=SkipReason.DAEMON_DOWN,
            found="slurmd.service is inactive on worker1: slurm.node_daemon_runs[worker1]",
        )

    def test_skip_is_valid_beside_named_failure(self, report, green, skipped):
        failed = replace(green["slurm.node_daemon_runs[worker1]"], verdict=Verdict.FAILED, reason="expected active, found inactive")
        found = report({**green, skipped.id: skipped, failed.id: failed})
        assert (found.verdict, found.totals["skipped"], found.totals["unknown"]) == (Verdict.FAILED, 1, 0)

    @pytest.mark.parametrize("elsewhere", [None, "slurm.node_daemon_runs[worker0]", "munge.service_runs[worker1]"])
    def test_skip_without_named_failure_is_unknown(self, report, green, skipped, elsewhere):
        other = {elsewhere: replace(green[elsewhere], verdict=Verdict.FAILED, reason="stopped")} if elsewhere else {}
        found = report({**green, skipped.id: skipped, **other})
        (unknown,) = [check for check in found.checks if check.verdict is Verdict.UNKNOWN]
        assert unknown.id == skipped.id and "slurmd.service is inactive on worker1" in unknown.reason


class TestSlowNode:
    """A check that had no time left on a slow node, and the check that reports the node."""

    @pytest.fixture
    def skipped(self, green):
        one = green["slurm.controller_answers_here[worker1]"]
        return replace(one, verdict=Verdict.SKIPPED, reason=SkipReason.NODE_SLOW, found="worker1 is slow: node.responds_in_time[worker1]")

    def test_slow_node_is_one_finding(self, report, green, skipped):
        failed = replace(green["node.responds_in_time[worker1]"], verdict=Verdict.FAILED, reason="expected at most 0.45 s, found 2 s")
        found = report({**green, skipped.id: skipped, failed.id: failed})
        assert (found.verdict, found.totals["failed"], found.totals["skipped"], found.totals["unknown"]) == (Verdict.FAILED, 1, 1, 0)

    def test_skip_on_a_node_that_is_not_slow_is_unknown(self, report, green, skipped):
        (unknown,) = [check for check in report({**green, skipped.id: skipped}).checks if check.verdict is Verdict.UNKNOWN]
        assert unknown.reason.startswith("skipped because the node is slow, but the result that reports it did not fail: worker1 is slow")


def test_started_run_invalidates_previous_report(declared, check_plan):
    begun = invalidate(declared, check_plan, STARTED)
    assert begun.verdict is Verdict.UNKNOWN
    assert {check.reason for check in begun.checks} == {"did not run: its run has not finished"}


class TestNodesOut:
    @pytest.fixture
    def found(self, inventory):
        for group in inventory["all"]["children"].values():
            group["hosts"].pop("worker1", None)
        inventory["all"]["children"]["out"]["hosts"]["worker1"] = {}
        inventory["all"]["hosts"]["worker1"]["node"].update(state="out", reason="bad DIMM", until="2026-12-01")
        declared = from_inventory(inventory)
        check_plan = plan_checks(declared, checks(), Level.SMOKE)
        good = {id_: result(item, Verdict.PASSED) for id_, item in check_plan.expected.items()}
        return lambda today: build_report(declared, check_plan, good, started=STARTED, seconds=1, today=today)

    def test_nodes_out_are_listed_but_not_owed(self, found):
        report = found(date(2026, 11, 21))
        assert humanize.headline(report) == "passed, 3 of 4 nodes"
        assert report.nodes[-1] == {
            "name": "worker1",
            "state": "out",
            "checks": 0,
            "verdict": "skipped",
            "reason": "bad DIMM",
            "until": "2026-12-01",
        }
        assert {"id": "worker1", "reason": "node-out", "detail": "bad DIMM"} in report.not_run

    def test_overdue_nodes_are_named(self, found):
        assert found(date(2026, 12, 2)).nodes[-1]["reason"] == "bad DIMM (overdue: expected back on 2026-12-01)"


class TestOnDisk:
    def test_written_report_matches_contract_and_round_trips(self, report, green, tmp_path):
        for results in (green, {}, dict(list(green.items())[:5])):
            one = report(results)
            assert schema_errors("report", one.as_dict()) == []
            assert read(write(one, tmp_path)).as_dict() == one.as_dict()

    def test_invalid_reports_violate_the_contract(self, report, green):
        data = report(green).as_dict()
        for key in data:
            assert schema_errors("report", {name: value for name, value in data.items() if name != key}), key
        assert schema_errors("report", {**data, "verdict": "green"})
        assert schema_errors("report", {**data, "extra": 1})
        unknown = {**data["checks"][0], "verdict": "unknown", "reason": ""}
        assert schema_errors("report", {**data, "checks": [unknown]})

    def test_partial_run_keeps_the_record(self, report, declared, green, tmp_path):
        write(report(green), tmp_path)
        part = plan_checks(declared, checks(), Level.SMOKE, Kinds.ALL, ["worker0"])
        path = write(build_report(declared, part, {}, started=STARTED, seconds=1), tmp_path)
        assert path.name == "partial.json"
        assert read(tmp_path / "report.json").verdict is Verdict.PASSED

    def test_started_run_removes_all_previous_reports(self, report, declared, check_plan, green, tmp_path):
        write(report(green), tmp_path)
        write_json(invalidate(declared, check_plan, STARTED), tmp_path)
        assert read(tmp_path / "report.json").verdict is Verdict.UNKNOWN
        assert sorted(file.name for file in tmp_path.iterdir()) == ["report.jobs.json", "report.json"]

    def test_job_results_survive_runs_without_jobs(self, report, declared, green, tmp_path):
        write(report(green), tmp_path)
        looked = {id_: one for id_, one in green.items() if one.kind != Kind.JOB}
        passive = plan_checks(declared, checks(), Level.CHECKS, Kinds.ALL)
        write(build_report(declared, passive, looked, started=STARTED + timedelta(days=1), seconds=1), tmp_path)
        assert read(tmp_path / "report.json").job_verdict is None
        kept = read(tmp_path / "report.jobs.json")
        assert (kept.started, kept.job_verdict) == (STARTED, Verdict.PASSED)

    def test_unsent_jobs_prove_nothing(self, report, green, tmp_path):
        write(report(green), tmp_path)
        busy = {
            id_: replace(one, verdict=Verdict.SKIPPED, reason="node-busy") if one.kind == Kind.JOB else one for id_, one in green.items()
        }
        write(report(busy), tmp_path)
        assert read(tmp_path / "report.jobs.json").job_verdict is Verdict.PASSED

    @pytest.mark.parametrize("text", [None, "", "{", "[]", '{"schema": "rackwright.report/2"}', '{"schema": "rackwright.report/1"}'])
    def test_unreadable_record_is_unknown(self, text, tmp_path):
        if text is not None:
            (tmp_path / "report.json").write_text(text)
        with pytest.raises(UndeterminedError):
            read(tmp_path / "report.json")

    def test_truncated_line_is_no_result(self, green):
        import json

        lines = [json.dumps(one.as_dict()) for one in list(green.values())[:3]]
        assert len(read_lines([*lines[:2], lines[2][:40]])) == 2
        assert len(read_lines([*lines, "null", "[1]", "{}"])) == 3

    def test_report_of_other_version_is_refused(self, report, green):
        with pytest.raises(ValueError, match=r"unsupported schema: expected rackwright\.report/1, found rackwright\.report/2"):
            report_from_dict({**report(green).as_dict(), "schema": "rackwright.report/2"})


class TestAge:
    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "60 min"), (3 * 3600, "3 h"), (49 * 3600, "2 days")],
    )
    def test_age_is_printed_in_words(self, seconds, words):
        assert humanize.humanize_duration(seconds) == words

    def test_age_counts_from_end_of_run(self, report, green):
        now = STARTED + timedelta(seconds=2.5 + 180)
        assert humanize.verdict_line(report(green), now) == "passed, 4 nodes; verified 3 min ago at level smoke"
        assert humanize.verdict_line(report({}), now) == "unknown, 4 nodes; checked 3 min ago at level smoke"
