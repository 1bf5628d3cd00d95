"""Collectors of ranks and jobs: what workers write is judged as `rackwright jobs --suspicious` judges the samples themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.rows import each_row

from rackwright.report.jobs.samples import GpuSample, JobTotals, NodeSample, RankSample, RunningJob, Wait, classify
from rackwright.report.jobs.suspicion import Diagnosis, Kind, diagnose
from rackwright.yaml_loader import load_yaml

from .conftest import FILES, Collect, module

RECORDED = json.loads((Path(__file__).parents[1] / "report/captured/jobs/gloo.json").read_text())
NOW = 1_795_000_000.0
FUTEX, SLEEP, STOPPED, FUSE = "S futex_do_wait", "S hrtimer_nanosleep", "T do_signal_stop", "D request_wait_answer"


def rank(number: int, waits: Mapping[str, int], **more: Any) -> RankSample:
    known: dict[str, Any] = {"cpu": 3.0, "run_delay": 0.1, "read": 0, "written": 10**8, "command": "process", **more}
    at = {"node": f"worker{number}", "pid": 100 + number, "job": "7", "step": "0", "source": "RANK", "rank": number, "size": 2}
    return RankSample(**at, samples=100, waits={**waits, "R": 100 - sum(waits.values())}, seconds=7.5, ended=False, **known)


def node_of(one: RankSample, **more: Any) -> NodeSample:
    total = JobTotals(processes=2, ended=0, cpu=one.cpu or 0.0, seconds=7.5, stopped=())
    return NodeSample(**{"node": one.node, "ranks": (one,), "jobs": {"7": total}, "fabric": 0, **more})


def gpu(busy: float, power: float) -> tuple[GpuSample, ...]:
    return (GpuSample(uuid="GPU-1", index="0", busy=busy, power=power, limit=700.0),)


CASES = {
    "undisturbed": [rank(0, {FUTEX: 13}), rank(1, {FUTEX: 17})],
    "stopped": [rank(0, {FUTEX: 100}, cpu=0.0), rank(1, {STOPPED: 100}, cpu=0.0)],
    "sleeps in each step": [rank(0, {FUTEX: 77}), rank(1, {SLEEP: 75, FUTEX: 1})],
    "hangs in storage": [rank(0, {FUTEX: 100}), rank(1, {FUSE: 100}, read=0, written=0)],
    "all hang in storage": [rank(0, {FUSE: 100}, written=0), rank(1, {FUSE: 100}, written=0)],
    "no CPU": [rank(0, {FUTEX: 40}), rank(1, {}, run_delay=3.0)],
    "hung": [rank(0, {FUTEX: 100}, cpu=0.0), rank(1, {FUTEX: 100}, cpu=0.0)],
    "busy without power": [rank(0, {}, gpus=gpu(100, 120)), rank(1, {}, gpus=gpu(100, 650))],
    "third rank has no process": [replace(rank(0, {FUTEX: 99}), size=3), replace(rank(1, {FUTEX: 99}), size=3)],
    "ended": [rank(0, {FUTEX: 50}), replace(rank(1, {FUTEX: 50}), ended=True)],
}
"""Ranks of one job on two nodes."""
JOB = RunningJob("7", "7", "alice", 2001, "RUNNING", NOW - 600, ("worker0", "worker1"), name="train")


def written(node: NodeSample, began: float = NOW, left_out: int = 0) -> str:
    """The file of the collector on one worker."""
    samples = module("ranks").Samples()
    module("ranks").add_node(node, began, left_out, samples)
    return str(samples.text())


def scraped(texts: Mapping[str, str]) -> list[tuple[dict[str, str], float]]:
    """The series of all workers, as Prometheus labels them. It drops labels without a value."""
    found = []
    for name, text in texts.items():
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                labels = {key: value for key, value in one.labels.items() if value}
                found.append(({**labels, "__name__": one.name, "instance": name, "job": "node"}, one.value))
    return found


def after_prometheus(nodes: Mapping[str, NodeSample]) -> dict[str, NodeSample]:
    taken = module("jobs").read_nodes(scraped({name: written(node) for name, node in nodes.items()}))
    return {name: one.node for name, one in taken.items()}


def told(found: Diagnosis) -> tuple[str, list[tuple[Kind, str, int | None, int | None]], int]:
    return found.verdict, [(one.kind, one.node, one.rank, one.pid) for one in found.findings], len(found.undetermined)


@each_row(("name", "ranks"), CASES.items(), ids=lambda name: str(name))
def test_judgement_is_that_of_the_samples(name: str, ranks: list[RankSample]) -> None:
    nodes = {one.node: node_of(one, gpus_read=bool(one.gpus)) for one in ranks}
    direct = diagnose(JOB, nodes, {}, NOW)
    assert told(diagnose(JOB, after_prometheus(nodes), {}, NOW)) == told(direct)
    assert direct.verdict == ("not suspicious" if name == "undisturbed" else "undetermined" if name == "ended" else "suspicious")


@pytest.mark.parametrize("name", RECORDED)
def test_samples_of_a_lab_are_judged_alike(name: str) -> None:
    """Recorded answers of two containers with PyTorch's gloo."""
    case = RECORDED[name]
    ranks = [RankSample(**{**one, "gpus": ()}) for one in case["ranks"]]
    job = replace(JOB, raw=ranks[0].job, job=ranks[0].job, started=case["started"], nodes=tuple(one.node for one in ranks))
    nodes = {
        one.node: replace(node_of(one), jobs={job.raw: JobTotals(processes=2, ended=0, cpu=one.cpu or 0.0, seconds=7.5, stopped=())})
        for one in ranks
    }
    direct = diagnose(job, nodes, {}, case["time"])
    assert told(diagnose(job, after_prometheus(nodes), {}, case["time"])) == told(direct)
    assert bool(direct.findings) == (not name.startswith("undisturbed") or name.endswith("cpu"))


def test_each_wait_keeps_its_class() -> None:
    seen: dict[Wait, str] = module("jobs").read_nodes.__globals__["SEEN"]
    assert {wait: classify(text) for wait, text in seen.items()} == {wait: wait for wait in Wait}


def test_job_with_many_ranks_is_left_out_as_a_whole() -> None:
    """Some of its ranks would look like missing ones."""
    many = tuple(replace(rank(0, {}), pid=number, rank=number, size=65) for number in range(65))
    text = written(replace(node_of(rank(0, {})), ranks=many), left_out=2)
    assert "rackwright_rank_samples" not in text and "rackwright_job_processes" not in text
    assert "rackwright_ranks_jobs_left_out 3\n" in text
    few = written(replace(node_of(rank(0, {})), ranks=many[:64]))
    assert few.count("\nrackwright_rank_samples{") == 64 and "rackwright_ranks_jobs_left_out 0\n" in few


def test_names_of_kernel_functions_are_no_labels() -> None:
    waits = {f"S futex_{number}": 1 for number in range(40)}
    text = written(node_of(rank(0, waits)))
    assert text.count("\nrackwright_rank_samples{") == 2 and "futex_3" not in text


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A /proc with processes: number, user, parent, command line."""
    folder, users = tmp_path / "proc", {}

    def add(pid: int, uid: int, parent: int, cmdline: str) -> None:
        (folder / str(pid)).mkdir(parents=True)
        (folder / str(pid) / "cmdline").write_bytes(cmdline.encode() + b"\0")
        (folder / str(pid) / "stat").write_text(f"{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0")
        users[pid] = uid

    monkeypatch.setattr(module("ranks"), "owners", lambda proc: users)
    return SimpleNamespace(add=add, folder=str(folder))


def test_jobs_are_those_of_slurmstepd(proc: Any) -> None:
    proc.add(10, 0, 1, "/usr/sbin/slurmd -D")
    proc.add(20, 0, 1, "slurmstepd: [12.batch]")
    proc.add(21, 2001, 20, "/bin/bash /var/spool/slurmd/job00012/slurm_script")
    proc.add(22, 2001, 21, "python3 train.py")
    proc.add(30, 0, 1, "slurmstepd: [13.extern]")
    proc.add(31, 0, 30, "sleep 100000000")
    proc.add(40, 2002, 1, "slurmstepd: [14.0]")
    proc.add(41, 2002, 40, "python3 forged.py")
    assert module("ranks").jobs_here(proc.folder) == {"12": 2001}


def test_process_of_a_job_is_sampled(collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process, which is stopped."""
    ranks = module("ranks")
    monkeypatch.setattr(ranks, "jobs_here", lambda: {"7": os.getuid()})
    monkeypatch.setattr(ranks, "SECONDS", 0.5)
    monkeypatch.setattr(ranks, "NUMBER", 10)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "print(1, flush=True); input()"],
        env={"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "RANK": "1", "WORLD_SIZE": "2"},
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None and child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        found = collect("ranks", {})
    finally:
        child.kill()
        child.communicate()
    place = f'jobid="7",pid="{child.pid}",rank="1",size="2",source="RANK",step="0"'
    assert found[f'rackwright_rank_samples{{does="is stopped",{place}}}'] >= 5
    assert found['rackwright_job_processes{jobid="7"}'] == 1
    assert found['rackwright_collector_success{collector="ranks"}'] == 1


def test_node_without_jobs_writes_when_it_was_read(collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module("ranks"), "jobs_here", dict)
    found = collect("ranks", {})
    assert abs(found["rackwright_ranks_sampled_timestamp_seconds"] - time.time()) < 60
    assert not [name for name in found if name.startswith(("rackwright_rank_", "rackwright_job_"))]


def test_most_jobs_of_a_node_are_sampled_newest_first(collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, asked = module("ranks"), []
    monkeypatch.setattr(ranks, "jobs_here", lambda: {str(number): 2001 for number in range(90, 125)})
    monkeypatch.setattr(ranks.job_samples, "main", lambda request: asked.append(request) or ranks.NOTHING)
    found = collect("ranks", {})
    assert set(asked[0]["jobs"]) == {str(number) for number in range(93, 125)}
    assert not asked[0]["gpus"], "simulated GPUs are always idle"
    assert found["rackwright_ranks_jobs_left_out"] == 3


def test_samples_that_cannot_be_taken_are_no_success(collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = module("ranks")
    monkeypatch.setattr(ranks, "jobs_here", lambda: {"7": 2001})
    monkeypatch.setattr(ranks.job_samples, "main", lambda request: {**ranks.NOTHING, "errors": ["the process that samples was ended"]})
    found = collect("ranks", {})
    assert set(found) == {name + '{collector="ranks"}' for name in ("rackwright_collector_success", "rackwright_collector_seconds")}
    assert found['rackwright_collector_success{collector="ranks"}'] == 0


class Cluster:
    """What slurmctld and Prometheus answer to the collector of jobs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: ModuleType = module("jobs")
        self.now = time.time()
        self.error = ""
        self.listed: list[dict[str, Any]] = []
        self.texts: dict[str, str] = {}
        self.asked: list[tuple[str, int]] = []
        monkeypatch.setattr(self.jobs.slurm_running, "main", self.squeue)
        monkeypatch.setattr(self.jobs, "Api", self.api)

    def squeue(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"error": self.error, "unknown": False, "now": self.now, "jobs": [] if self.error else self.listed}

    def api(self, host: str, port: int) -> Any:
        self.asked.append((host, port))
        result = [{"metric": labels, "value": [self.now, str(value)]} for labels, value in scraped(self.texts)]
        return SimpleNamespace(get=lambda path: {"data": {"result": result}})

    def job(
        self, number: str = "7", *, age: float = 600.0, state: str = "RUNNING", nodes: tuple[str, ...] = ("worker0", "worker1")
    ) -> None:
        texts = {"raw": number, "id": number, "user": "alice", "state": state, "tres": "N/A", "partition": "gpu", "name": "train"}
        self.listed.append({**texts, "uid": 2001, "started": self.now - age, "nodes": list(nodes)})

    def samples(self, ranks: list[RankSample], *, age: float = 20.0) -> None:
        self.texts |= {one.node: written(node_of(one), self.now - age) for one in ranks}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


VERDICT = 'rackwright_jobs_judged{{verdict="{}"}}'
STOPPED_RANK = 'rackwright_job_suspicious{jobid="7",kind="stopped",node="worker1",rank="1"}'


def test_stopped_rank_is_named(cluster: Cluster, collect: Collect) -> None:
    cluster.job()
    cluster.samples(CASES["stopped"])
    found = collect("jobs", {})
    assert found[STOPPED_RANK] == 1
    assert found['rackwright_jobs_suspicious{kind="stopped"}'] == 1 and found['rackwright_jobs_suspicious{kind="hung"}'] == 0
    assert (found[VERDICT.format("suspicious")], found[VERDICT.format("not suspicious")]) == (1, 0)
    assert found['rackwright_job_node_unread{node="worker1"}'] == 0
    assert cluster.asked == [("login0", 9090)]


def test_slow_rank_is_named(cluster: Cluster, collect: Collect) -> None:
    cluster.job()
    cluster.samples(CASES["sleeps in each step"])
    assert collect("jobs", {})['rackwright_job_suspicious{jobid="7",kind="straggling",node="worker1",rank="1"}'] == 1


def test_job_in_order_has_no_finding(cluster: Cluster, collect: Collect) -> None:
    cluster.job()
    cluster.samples(CASES["undisturbed"])
    found = collect("jobs", {})
    assert found[VERDICT.format("not suspicious")] == 1
    assert not [name for name in found if name.startswith("rackwright_job_suspicious")]


@pytest.mark.parametrize(
    ("change", "unread"),
    [
        pytest.param(lambda cluster: cluster.texts.pop("worker0"), 1, id="node-without-samples"),
        pytest.param(lambda cluster: cluster.samples(CASES["undisturbed"], age=150.0), 1, id="old-samples"),
        pytest.param(lambda cluster: cluster.samples(CASES["undisturbed"][:1], age=80.0), 1, id="samples-of-another-minute"),
        pytest.param(lambda cluster: cluster.samples(CASES["undisturbed"][:1], age=23.0), 0, id="samples-three-seconds-apart"),
    ],
)
def test_node_that_was_not_sampled_is_no_finding(cluster: Cluster, collect: Collect, change: Any, unread: int) -> None:
    cluster.job()
    cluster.samples(CASES["undisturbed"])
    change(cluster)
    found = collect("jobs", {})
    assert found['rackwright_job_node_unread{node="worker0"}'] == unread
    assert found[VERDICT.format("undetermined")] == unread and found[VERDICT.format("suspicious")] == 0


@pytest.mark.parametrize("changed", [{"state": "SUSPENDED"}, {"state": "CONFIGURING"}, {"age": 30.0}])
def test_job_that_does_not_run_is_not_suspicious(cluster: Cluster, collect: Collect, changed: Any) -> None:
    """Slurm stops the processes of a job that it suspends; a prolog or a download of images uses no CPU time of the job."""
    cluster.job(**changed)
    cluster.samples(CASES["stopped"])
    found = collect("jobs", {})
    assert not [name for name in found if name.startswith("rackwright_job_suspicious")]
    assert found['rackwright_collector_success{collector="jobs"}'] == 1
    assert changed == {"age": 30.0} or 'rackwright_job_node_unread{node="worker0"}' not in found


def test_slurmctld_without_answer_is_no_success(cluster: Cluster, collect: Collect) -> None:
    cluster.error = "squeue: no answer in 5 s"
    cluster.samples(CASES["stopped"])
    assert {name.split("{")[0] for name in collect("jobs", {})} == {"rackwright_collector_success", "rackwright_collector_seconds"}


def test_prometheus_without_answer_is_no_success(cluster: Cluster, collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(host: str, port: int) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    cluster.job()
    monkeypatch.setattr(cluster.jobs, "Api", refused)
    found = collect("jobs", {})
    assert found['rackwright_collector_success{collector="jobs"}'] == 0 and len(found) == 2


def test_query_selects_what_workers_write(cluster: Cluster) -> None:
    selector = re.search(r'__name__=~"([^"]+)"', cluster.jobs.QUERY)
    names = {one["__name__"] for one, _ in scraped({"worker0": written(node_of(CASES["busy without power"][0]))})}
    assert selector and len(names) > 12
    assert [name for name in names if not re.fullmatch(selector[1], name)] == []
    promql_parser.parse(cluster.jobs.QUERY)


def test_findings_that_are_written_are_bounded(cluster: Cluster, collect: Collect) -> None:
    """The count has them all."""
    for number in range(250):
        cluster.job(str(1000 + number), nodes=("worker0",))
    totals = {str(1000 + number): JobTotals(processes=1, ended=0, cpu=0.0, seconds=7.5, stopped=()) for number in range(250)}
    cluster.texts["worker0"] = written(NodeSample(node="worker0", ranks=(), jobs=totals), cluster.now - 20)
    found = collect("jobs", {})
    assert len([name for name in found if name.startswith("rackwright_job_suspicious")]) == 200
    assert found['rackwright_jobs_suspicious{kind="idle allocation"}'] == 250


@pytest.mark.parametrize("subject", ["ranks", "jobs"])
def test_installed_modules_suffice(subject: str, tmp_path: Path) -> None:
    """What the role copies is imported without the package of this project, as on a node."""
    shared = load_yaml((FILES.parent / "vars" / "main.yml").read_text())["_metrics_collectors_shared"][subject]
    names = ["rackwright_metrics.py", f"metrics_{subject}.py"]
    names += [f"{name}.py" if name == "rank_series" else f"rackwright/{name}.py" for name in shared]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((FILES / name).read_text())
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import metrics_{subject} as m; print(m.collect.__name__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "collect\n", done.stderr
