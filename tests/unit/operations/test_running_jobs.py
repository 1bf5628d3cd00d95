"""Running jobs of a stack: which nodes are sampled, nodes and controllers without an answer, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import load_inventory
from rackwright.operations import running_jobs
from rackwright.operations.running_jobs import query_jobs

NOW = 1_795_000_000.0


def job(raw: str, *nodes: str) -> dict[str, Any]:
    row = {"raw": raw, "id": raw, "user": "alice", "uid": 2001, "state": "RUNNING", "started": NOW - 600, "nodes": list(nodes)}
    return {**row, "tres": "N/A", "partition": "gpu", "name": "train"}


def samples(jobs: Mapping[str, int], node: str, waits: Mapping[str, int]) -> dict[str, Any]:
    number = int(node[-1])
    one = {"pid": 9, "step": "0", "source": "RANK", "rank": number, "size": 2, "command": "python3", "samples": 150, "waits": waits}
    one |= {"seconds": 7.5, "ended": False, "cpu": 3.0, "run_delay": 0.0, "read": 0, "written": 0, "gpus": []}
    totals = {"processes": 1, "ended": 0, "cpu": 3.0, "seconds": 7.5, "stopped": []}
    more = {"gpus": [], "apps": False, "gpu_error": "", "network": 0, "fabric": None, "errors": []}
    return {"ranks": [{**one, "job": raw} for raw in jobs], "jobs": dict.fromkeys(jobs, totals), **more}


class Nodes:
    """The nodes of a stack, and what each was asked."""

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self.listed: Any = {"error": "", "unknown": False, "now": NOW, "jobs": [job("7", "worker0", "worker1")]}
        self.waits = {"worker0": {"S futex_do_wait": 150}, "worker1": {"T do_signal_stop": 150}}
        self.answers: dict[str, Any] = {}

    async def connect(self, stack: str, names: Any, *, within: float, cause: Any = None) -> dict[str, str]:
        return {name: self.lost[name] for name in names if name in self.lost}

    async def run(
        self, stack: str, program: str, requests: Mapping[str, Mapping[str, Any]], sudo: Mapping[str, bool], **_: Any
    ) -> tuple[dict[str, Any], dict[str, str]]:
        self.asked.setdefault(program, {}).update(requests)
        if program == "slurm_running":
            found = dict.fromkeys(requests, self.listed)
        else:
            found = {name: self.answers.get(name) or samples(one["jobs"], name, self.waits[name]) for name, one in requests.items()}
        good = {name: one for name, one in found.items() if not isinstance(one, str)}
        return good, {name: one for name, one in found.items() if isinstance(one, str)}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, lab: str) -> Nodes:
    found = Nodes()
    monkeypatch.setattr(ssh_connections, "connect_all", found.connect)
    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run)
    monkeypatch.setattr(running_jobs, "slowness", lambda: 1)
    return found


def test_list_reads_no_process(nodes: Nodes) -> None:
    report = query_jobs("lab")
    assert ([one.job for one in report.jobs], report.diagnoses, report.exit_code) == (["7"], (), 0)
    assert set(nodes.asked) == {"slurm_running"}


def test_nodes_of_jobs_are_sampled_once_for_all_jobs(nodes: Nodes) -> None:
    nodes.listed["jobs"] += [job("8", "worker1")]
    report = query_jobs("lab", seconds=10)
    asked = nodes.asked["job_samples"]
    assert (asked["worker0"]["jobs"], asked["worker1"]["jobs"]) == ({"7": 2001}, {"7": 2001, "8": 2001})
    assert (asked["worker0"]["samples"], asked["worker0"]["seconds"]) == (200, 10)
    assert not asked["worker0"]["gpus"], "those of the lab are simulated"
    first, second = report.diagnoses
    assert [(one.kind, one.node) for one in first.findings] == [("stopped", "worker1")] and second.job.raw == "8"
    assert report.exit_code == 1


def test_nodes_without_answer_are_named(nodes: Nodes) -> None:
    nodes.listed["jobs"] = [job("7", "worker0", "worker1", "cloud9")]
    nodes.lost = {"worker1": "no response over SSH"}
    nodes.answers["worker0"] = {"ranks": []}
    (found,) = query_jobs("lab", seconds=7.5).diagnoses
    assert found.findings == () and found.verdict == "undetermined"
    assert found.undetermined[0].startswith("worker0: its answer cannot be read: KeyError")
    assert found.undetermined[1:] == ("worker1: no response over SSH", "cloud9: is no node of the stack")


def test_program_that_fails_is_named(nodes: Nodes) -> None:
    nodes.answers["worker0"] = "the program did not end within 60 s"
    report = query_jobs("lab", seconds=7.5)
    assert "worker0: the program did not end within 60 s" in report.diagnoses[0].undetermined
    assert report.exit_code == 1, "the stopped rank on the other node is known"


def test_stack_without_jobs_is_not_sampled(nodes: Nodes) -> None:
    nodes.listed["jobs"] = []
    report = query_jobs("lab", seconds=7.5)
    assert (report.jobs, report.exit_code) == ((), 0) and "job_samples" not in nodes.asked


@pytest.mark.parametrize("unknown", [True, False])
def test_job_without_nodes_is_refused(nodes: Nodes, unknown: bool) -> None:
    """Slurm does not know it, or it waits."""
    nodes.listed = {"error": "Invalid job id" if unknown else "", "unknown": unknown, "now": NOW, "jobs": []}
    with pytest.raises(InputError, match="job 9: has no nodes now") as refused:
        query_jobs("lab", job="9")
    assert "rackwright logs lab --job 9" in refused.value.hint and nodes.asked["slurm_running"]["login0"]["job"] == "9"


def test_silent_controllers_are_no_empty_list(nodes: Nodes) -> None:
    nodes.listed = {"error": "Unable to contact slurm controller", "unknown": False, "now": NOW, "jobs": []}
    with pytest.raises(UndeterminedError, match="login0: Unable to contact slurm controller"):
        query_jobs("lab")
    nodes.listed = "python3 is not installed"
    with pytest.raises(UndeterminedError, match="login0: python3 is not installed"):
        query_jobs("lab")
    nodes.lost = {"login0": "no response over SSH"}
    with pytest.raises(UndeterminedError, match="login0: no response over SSH"):
        query_jobs("lab")


def test_kubernetes_is_refused(nodes: Nodes) -> None:
    found = load_inventory("lab")
    found["all"]["vars"]["cluster"]["scheduler"]["kind"] = "kubernetes"
    paths.inventory("lab").write_text(yaml.safe_dump(found), encoding="utf-8")
    with pytest.raises(InputError, match="reads jobs of Slurm only"):
        query_jobs("lab")


def test_interruption_is_undetermined(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(coroutine: Any) -> None:
        coroutine.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", interrupt)
    with pytest.raises(UndeterminedError, match="interrupted"):
        query_jobs("lab")
