"""Two real processes as ranks of a job, through both collectors: samples, series, and the judgement of the job."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.step_ranks import start_ranks

COLLECTORS = Path(__file__).parents[2] / "roles" / "metrics_collectors" / "files"
Findings = set[tuple[str, str]]
"""Kind and rank."""


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """The programs of both collectors, as they run on nodes."""
    monkeypatch.syspath_prepend(str(COLLECTORS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return importlib.import_module("metrics_ranks"), importlib.import_module("metrics_jobs")


@pytest.fixture
def judge(modules: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Findings]:
    """Run both collectors; slurmctld and Prometheus are stand-ins that answer with the job, and with what the first one wrote."""
    ranks, jobs = modules
    job = {"raw": "7", "id": "7", "user": "alice", "uid": os.getuid(), "state": "RUNNING", "tres": "N/A", "partition": "gpu", "name": "x"}

    def squeue(request: Any) -> dict[str, Any]:
        return {"error": "", "unknown": False, "now": time.time(), "jobs": [{**job, "started": time.time() - 600, "nodes": ["worker0"]}]}

    def query(path: str) -> dict[str, Any]:
        families = text_string_to_metric_families((tmp_path / "ranks.prom").read_text())
        samples = [one for family in families for one in family.samples]
        labels = [{**one.labels, "__name__": one.name, "instance": "worker0", "job": "node"} for one in samples]
        return {"data": {"result": [{"metric": each, "value": [0, str(one.value)]} for each, one in zip(labels, samples, strict=True)]}}

    def run() -> Findings:
        for subject, module in (("ranks", ranks), ("jobs", jobs)):
            assert module.run(subject, module.collect, str(tmp_path), str(tmp_path / "metrics.json")) == 0
        text = (tmp_path / "jobs.prom").read_text()
        assert 'rackwright_collector_success{collector="jobs"} 1' in text, text
        found = [one for family in text_string_to_metric_families(text) for one in family.samples]
        return {(one.labels["kind"], one.labels["rank"]) for one in found if one.name == "rackwright_job_suspicious"}

    (tmp_path / "metrics.json").write_text(
        json.dumps({"gpu": {"count": 0, "simulated": False}, "prometheus": {"host": "login0", "port": 9090, "period_s": 60}})
    )
    monkeypatch.setattr(ranks, "jobs_here", lambda: {"7": os.getuid()})
    monkeypatch.setattr(jobs.slurm_running, "main", squeue)
    monkeypatch.setattr(jobs, "Api", lambda host, port: SimpleNamespace(get=query))
    return run


@pytest.fixture
def begin() -> Iterator[Callable[[float], list[subprocess.Popen[bytes]]]]:
    """Start both ranks, and end them after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(slow: float) -> list[subprocess.Popen[bytes]]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        started.extend(start_ranks(port, slow=slow))
        time.sleep(1.5)
        return started

    yield start
    for one in started:
        one.kill()
        one.wait()


def without_load(findings: Findings) -> Findings:
    """Leave out what other work on the machine causes."""
    return {(kind, rank) for kind, rank in findings if kind != "no CPU"}


def test_rank_that_sleeps_in_each_step_is_named(judge: Any, begin: Any) -> None:
    begin(0.2)
    assert without_load(judge()) == {("straggling", "1")}


def test_stopped_rank_is_named_until_it_continues(judge: Any, begin: Any) -> None:
    ranks = begin(0.0)
    ranks[1].send_signal(signal.SIGSTOP)
    assert without_load(judge()) == {("stopped", "1")}
    ranks[1].send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert without_load(judge()) == set()
