"""Differing tests run again alone, the cluster is cleaned in any case, and an unfit stack is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from slurm_suite import suite_run
from slurm_suite.expectations import Expectation, Table
from slurm_suite.login_node import LoginNode
from slurm_suite.report import Run
from slurm_suite.suite_log import Outcome, Result
from slurm_suite.suite_run import Options, patterns, run_suite

from rackwright.errors import InputError, RackwrightError

TABLE = Table("1.2.3", {"TaskPlugin": "task/none"}, {"1.1": Expectation(Result.PASSED), "1.10": Expectation(Result.PASSED)}, {}, [], {})


class Node(LoginNode):
    """A login node without a connection."""

    version = "1.2.3"
    found_jobs: Sequence[str] = ()
    cleaned = 0

    def slurm_version(self) -> str:
        return self.version

    def jobs(self) -> list[str]:
        return list(self.found_jobs)

    def objects(self) -> dict[str, set[str]]:
        return {}

    def job_seconds(self, samples: int = 3) -> float:
        return 5.0

    def settings(self) -> dict[str, str]:
        return {"TaskPlugin": "task/cgroup"}

    def clean(self, before: object, patience: float) -> tuple[list[str], list[str]]:
        Node.cleaned += 1
        return ["job 7"], []


class Source:
    def tests(self) -> list[str]:
        return ["1.1", "1.10"]


class Place:
    """An installed suite whose test 1.10 passes only if it runs alone."""

    def __init__(self) -> None:
        self.runs: list[tuple[list[str], int, float]] = []
        self.error: RackwrightError | None = None

    def run(self, tests: Sequence[str], table: Table, workers: int, slowness: float, progress: object) -> dict[str, Outcome]:
        self.runs.append((list(tests), workers, slowness))
        if self.error:
            raise self.error
        bad = {"1.10"} if workers > 1 else set()
        return {test: Outcome(test, Result.FAILED if test in bad else Result.PASSED, "late" if test in bad else "", 1.0) for test in tests}

    def save_logs(self, folder: Path | None) -> None:
        pass


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place()

    @contextmanager
    def installed(*arguments: object) -> Iterator[Place]:
        yield found

    monkeypatch.setattr(suite_run, "_installed", installed)
    monkeypatch.setattr(suite_run, "cached_source", lambda *arguments: Source())
    monkeypatch.setattr(Node, "cleaned", 0)
    return found


def run(node: Node | None = None, **options: object) -> Run:
    return run_suite(node or Node(Path("ssh"), "login0", "erin"), TABLE, Options("/shared", **{"workers": 2, **options}), print)  # type: ignore[arg-type]


def test_differing_test_runs_again_alone(place: Place) -> None:
    found = run()
    assert [(tests, workers) for tests, workers, _ in place.runs] == [(["1.1", "1.10"], 2), (["1.10"], 1)]
    assert found.is_as_expected
    assert found.repeated["1.10"].result is Result.FAILED and found.outcomes["1.10"].result is Result.PASSED


def test_limits_follow_the_time_of_a_job(place: Place) -> None:
    run()
    assert {slowness for _, _, slowness in place.runs} == {5.0 / suite_run.JOB_SECONDS}


def test_single_worker_has_no_second_run(place: Place) -> None:
    assert run(workers=1).repeated == {}
    assert len(place.runs) == 1


def test_leftovers_and_changed_settings_are_reported(place: Place) -> None:
    found = run()
    assert found.leftovers == ["job 7"]
    assert found.setup_changes == ["TaskPlugin: task/cgroup (recorded with task/none)"]


def test_cluster_is_cleaned_after_an_error(place: Place) -> None:
    place.error = RackwrightError("the connection broke")
    with pytest.raises(RackwrightError, match="connection broke"):
        run()
    assert Node.cleaned == 1


@pytest.mark.parametrize(("attribute", "value", "cause"), [("version", "1.2.4", "runs Slurm 1.2.4"), ("found_jobs", ["8"], "has jobs")])
def test_unfit_stack_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch, attribute: str, value: object, cause: str) -> None:
    """A run would cancel the jobs of the user."""
    monkeypatch.setattr(Node, attribute, value)
    with pytest.raises(InputError, match=cause):
        run()
    assert Node.cleaned == 0 and place.runs == []


def test_tests_are_chosen_by_number_or_series() -> None:
    table = {"1.1": 0, "1.10": 0, "11.1": 0}
    assert patterns([], table) == []
    assert patterns(["1.1"], table) == ["1.1"]
    assert patterns(["1.*", "11.1"], table) == ["1.1", "1.10", "11.1"]
    for wrong in ("1.2", "2.*", "1"):
        with pytest.raises(InputError, match="no selected test"):
            patterns([wrong], table)
