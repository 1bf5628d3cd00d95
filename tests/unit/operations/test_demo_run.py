"""A training run followed to its end: the submitting node is replaced by answers in order, and nodes by a record of kills and starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.cli.render.demo import text
from rackwright.drivers import node_kill, remote_exec, ssh_connections
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import Host, inventory, paths
from rackwright.operations.demo import following, training
from rackwright.operations.demo.finetuning import FinetuneOptions, finetune
from rackwright.operations.demo.training import TrainingOptions, train
from rackwright.operations.stack import load_plan
from rackwright.report.schemas import schema_errors

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"
FACTS = {
    "ranks": 2,
    "restart": 0,
    "device": "CPU",
    "backend": "gloo",
    "blas": "openblas",
    "torch": "2.6.0",
    "cured": True,
    "parameters": 875264,
    "layers": 4,
    "width": 128,
    "context": 128,
    "text_sha256": "ab",
}


class Cluster:
    """Answers of the submitting node, and what was done to nodes."""

    def __init__(self) -> None:
        self.stack, self.program = "lab-train", "training_run"
        self.asked: list[dict[str, Any]] = []
        self.follows: Iterator[dict[str, Any]] = iter(())
        self.begin: dict[str, Any] = {"error": "", "job": "41", "free_mib": 9000, "submitted": 0.0}
        self.checkpoints = True
        self.rank: int | bool | None = 77
        self.done: list[tuple[str, str]] = []
        self.said: list[str] = []
        self.images: list[tuple[str, str]] = []
        self.image_of: dict[str, bool | str] = {}
        """Nodes that lack the image, or why their images could not be read."""

    async def run_as_user(self, _stack: str, program: str, request: dict[str, Any], node: str, user: str, **_: Any) -> dict[str, Any]:
        """Answer a request."""
        assert (program, node, user) == (self.program, "login0", "alice")
        self.asked.append(request)
        if request["action"] == "follow":
            found = next(self.follows, answer(jobs=0))
            if found.get("interrupt"):
                raise KeyboardInterrupt
            return found
        if request["action"] == "newest":
            return {"error": "", "found": next(iter(request["folders"]), "") if self.checkpoints else ""}
        return self.begin if request["action"] == "begin" else {"error": "", "text": "srun: error: worker1: task 1: Exited\n"}

    async def connect_all(self, _stack: str, _nodes: Any, **_: Any) -> dict[str, str]:
        """Return the nodes that could not be reached: none."""
        return {}

    async def kill(self, _stack: str, target: str, node: str) -> None:
        """Record a killed node."""
        self.done.append(("kill", node))

    async def run_on_nodes(self, _stack: str, program: str, requests: dict[str, Any], sudo: dict[str, bool], **_: Any) -> Any:
        """Answer whether nodes have an image; record a killed rank."""
        if program == "node_images":
            self.images += [(name, one["image"]) for name, one in requests.items()]
            read = {name: self.image_of.get(name, True) for name in requests}
            answers = {name: {"present": has, "images": 9, "error": ""} for name, has in read.items() if isinstance(has, bool)}
            return answers, {name: why for name, why in read.items() if isinstance(why, str)}
        (node,) = requests
        assert program == "kill_rank" and set(sudo) == {node}
        self.done.append(("kill-rank", node))
        return ({}, {node: "no answer"}) if self.rank is False else ({node: {"pid": self.rank}}, {})

    async def start(self, _stack: str, target: str, node: str) -> None:
        """Record a started node."""
        self.done.append(("start", node))


def put_up(stack: str) -> None:
    """Write the inventory of a committed stack, as `up` does."""
    plan = load_plan(stack, lambda _finding: None)
    handed = inventory(plan, {node.name: Host(node.name, node.address, KEY, "1") for node in plan.nodes})
    paths.prepare(stack)
    paths.inventory(stack).write_text(yaml.safe_dump(handed))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack like lab-train that is up."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    found = Cluster()
    put_up(found.stack)
    monkeypatch.setattr(remote_exec, "run_as_user", found.run_as_user)
    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run_on_nodes)
    monkeypatch.setattr(ssh_connections, "connect_all", found.connect_all)
    monkeypatch.setattr(node_kill, "kill", found.kill)
    monkeypatch.setattr(node_kill, "start", found.start)
    monkeypatch.setattr(following, "POLL", 0.01)
    monkeypatch.setattr(training, "POLL", 0.01)
    monkeypatch.setattr(training, "_DARK", 0.02)
    return found


@pytest.fixture
def pods(cluster: Cluster) -> Cluster:
    """Return a stack like lab-k8s-train that is up."""
    cluster.stack, cluster.program = "lab-k8s-train", "training_pods"
    cluster.begin |= {"job": "rackwright-train-1"}
    put_up(cluster.stack)
    return cluster


def answer(*lines: dict[str, Any], jobs: int = 1, released: tuple[str, ...] = (), now: float = 0.0) -> dict[str, Any]:
    """Return an answer to `follow`."""
    rows = [{"id": str(41 + number), "state": "RUNNING", "reason": "None", "nodes": "worker[0-1]"} for number in range(jobs)]
    return {"error": "", "jobs": rows, "released": list(released), "lines": list(lines), "offsets": {"events-0.jsonl": 1}, "now": now}


def job(event: str, attempt: int, time: float) -> dict[str, Any]:
    """Return a line of the batch script."""
    return {"event": event, "attempt": str(attempt), "time": time, "job": str(41 + attempt), "nodes": "worker[0-1]"}


def steps(attempt: int, first: int, last: int, *, factor: float = 1.0) -> list[dict[str, Any]]:
    """Return the lines of rank 0 in a session."""
    common, time = {"attempt": str(attempt)}, 100.0 * attempt + first
    lines = [{**common, "event": "start", "time": time, **FACTS}]
    lines += [{**common, "event": "resume", "time": time, "step": first - 1, "damaged": [], "seconds": 0.1}]
    return lines + [
        {**common, "event": "step", "time": time + step, "step": step, "loss": factor / step, "bits": f"{step:08x}", "seconds": 0.5}
        for step in range(first, last + 1)
    ]


def undisturbed() -> list[dict[str, Any]]:
    """Return the answers of an undisturbed run of ten steps."""
    return [answer(job("begin", 0, 1)), answer(*steps(0, 1, 10)), answer(job("end", 0, 30), now=30)]


def run(cluster: Cluster, answers: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Run the demo on the answers; return its document."""
    cluster.follows = iter(answers)

    async def ignore(_text: str) -> None:
        """Show nothing."""

    document = train(cluster.stack, TrainingOptions(steps=10, **options), ignore, cluster.said.append)
    assert schema_errors("demo", document) == []
    return document


def tune(cluster: Cluster, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Fine-tune on the answers; return the document."""
    cluster.follows = iter(answers)

    async def ignore(_text: str) -> None:
        """Show nothing."""

    document = finetune(cluster.stack, FinetuneOptions(10), ignore, cluster.said.append)
    assert schema_errors("finetune", document) == []
    return document


def test_newest_checkpoint_is_fine_tuned_as_one_job(cluster: Cluster) -> None:
    run(cluster, undisturbed(), seed=5)
    newest = run(cluster, undisturbed(), seed=6)
    document = tune(cluster, [answer(job("begin", 0, 1)), answer(job("failed", 0, 9), job("gave-up", 0, 9), jobs=0)])
    begin = next(one for one in reversed(cluster.asked) if one["action"] == "begin")
    script = begin["files"]["job.sh"]
    assert f"--checkpoints {newest['folder']}/checkpoints" in script and "--seed=6" in script and "#SBATCH --nodes=1" in script
    assert begin["needed_mib"] == 64 * (5 + len([text for text in begin["files"].values() if text])) and begin["folder"].startswith(
        "/mnt/sharedfs/validation/results/finetune-"
    )
    assert document["verdict"]["result"] == "failed" and document["error"] == "srun: error: worker1: task 1: Exited"
    recorded = json.loads((paths.demos("lab-train") / f"{document['run']}.json").read_text())
    assert recorded == document, "a failed run is recorded, too"


def test_fine_tuning_needs_recorded_run(cluster: Cluster) -> None:
    with pytest.raises(InputError, match=r"no training run is on record.*\n.*run train first: `rackwright demo lab-train train`"):
        tune(cluster, [])


def test_fine_tuning_needs_checkpoint_on_cluster(cluster: Cluster) -> None:
    """The stack may have been created again since, without its files."""
    run(cluster, undisturbed())
    cluster.checkpoints = False
    with pytest.raises(InputError, match=r"none of 1 recorded training runs has a checkpoint on /mnt/sharedfs\n.*run train first"):
        tune(cluster, [])
    assert cluster.asked[-1]["action"] == "newest", "no job is submitted"


def test_interrupted_fine_tuning_cancels_its_job(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    with pytest.raises(UndeterminedError, match="interrupted after step 0 of 10; its jobs are cancelled"):
        tune(cluster, [answer(job("begin", 0, 1)), {"interrupt": True}, answer(jobs=0)])
    assert [one["action"] for one in cluster.asked[-2:]] == ["cancel", "follow"]


def test_options_of_training_are_refused_for_fine_tuning() -> None:
    given: dict[str, Any] = {"mode": None, "nodes": None, "seed": None, "kill_worker": None}
    assert (FinetuneOptions.of(steps=None, **given).steps, FinetuneOptions.of(steps=20, **given).steps) == (150, 20)
    with pytest.raises(InputError, match="--kill-worker: is an option of train"):
        FinetuneOptions.of(steps=None, **{**given, "kill_worker": True})
    assert TrainingOptions.of(steps=None, **given) == TrainingOptions()


def test_undisturbed_run_is_recorded_and_compared_with_next(cluster: Cluster) -> None:
    first = run(cluster, undisturbed())
    recorded = json.loads((paths.demos("lab-train") / f"{first['run']}.json").read_text())
    assert recorded == first and first["verdict"]["rule"] == "baseline"
    second = run(cluster, undisturbed())
    assert (second["verdict"]["result"], second["verdict"]["reference"]) == ("passed", first["run"])
    assert set(second["evidence"]) >= {"CPU, gloo, PyTorch 2.6.0", "simulated: gpu", "figures do not apply to GPUs"}


def test_job_has_values_of_plan(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    begin = cluster.asked[0]
    script = begin["files"]["job.sh"]
    assert begin["needed_mib"] == 1024 and begin["folder"].startswith("/mnt/sharedfs/validation/results/train-")
    assert "#SBATCH --nodes=2" in script and "10.87.0.0/24" in script and "/usr/bin/python3 -m" in script


def test_killed_worker_is_started_again(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    answers = [answer(job("begin", 0, 1)), answer(*steps(0, 1, 7)), *[answer() for _ in range(40)], answer(job("failed", 0, 20), jobs=2)]
    answers += [answer(job("begin", 1, 22), *steps(1, 7, 10)), answer(job("end", 1, 130), now=130)]
    document = run(cluster, answers, kill_worker=True)
    assert cluster.done == [("kill", "worker1"), ("start", "worker1")]
    assert document["injected"][0]["node"] == "worker1" and document["injected"][0]["undone"] is not None
    assert document["verdict"]["result"] == "passed" and [one["resumed_from"] for one in document["failures"]] == [6]
    shown = text(document)
    assert "passed: the last loss is bit-identical" in shown and "failure after step 7" in shown and "simulated: gpu" in shown


def rank_killed_run() -> list[dict[str, Any]]:
    """Return the answers of a run in which torchrun starts the ranks again."""
    sessions = [answer(*steps(0, 1, 7)), *[answer() for _ in range(40)], answer(*steps(0, 7, 10))]
    return [answer(job("begin", 0, 1)), *sessions, answer(job("end", 0, 30), now=30)]


def test_rank_is_killed_on_last_worker(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    document = run(cluster, rank_killed_run(), kill_rank=True)
    assert cluster.done == [("kill-rank", "worker1")], "no node is killed, and none started"
    assert [(one["kind"], one["node"]) for one in document["injected"]] == [("kill-rank", "worker1")]
    assert (document["verdict"]["rule"], document["failures"][0]["restarted_by"]) == ("identical", "torchrun")


@pytest.mark.parametrize(("rank", "cause"), [(None, "no rank of the run is there"), (False, "no answer")])
def test_rank_that_is_not_killed_is_no_fault(cluster: Cluster, rank: int | bool | None, cause: str) -> None:
    cluster.rank = rank
    document = run(cluster, rank_killed_run(), kill_rank=True)
    assert document["injected"] == [] and f"worker1: no rank was killed: {cause}" in cluster.said


def interrupted_run() -> list[dict[str, Any]]:
    """Return the answers of a run that is interrupted at step 9; its job needs two queries to end."""
    return [
        answer(job("begin", 0, 1)),
        answer(*steps(0, 1, 9)),
        *[answer() for _ in range(40)],
        {"interrupt": True},
        answer(),
        answer(jobs=0),
    ]


def test_worker_is_started_after_interrupt(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_DARK", 60.0)
    with pytest.raises(
        UndeterminedError, match="interrupted after step 9 of 10; its jobs are cancelled; worker1, which was killed,"
    ) as found:
        run(cluster, interrupted_run(), kill_worker=True)
    assert found.value.exit_code == 3 and "files stay in /mnt/sharedfs/validation/results/train-" in str(found.value)
    assert [one["action"] for one in cluster.asked[-4:]] == ["cancel", "follow", "cancel", "follow"], "until no job is left"
    assert cluster.done == [("kill", "worker1"), ("start", "worker1")], "no node stays off"
    assert not paths.demos("lab-train").exists(), "an interrupted run is no result"


def test_interrupt_names_worker_that_stays_off(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_stack: str, _target: str, _node: str) -> None:
        raise RackwrightError("podman start: no such container")

    monkeypatch.setattr(training, "_DARK", 60.0)
    monkeypatch.setattr(node_kill, "start", fail)
    with pytest.raises(
        UndeterminedError, match="its jobs are cancelled; worker1 was killed and not started again: run `rackwright up lab-train`"
    ):
        run(cluster, interrupted_run(), kill_worker=True)
    assert "podman start: no such container" in cluster.said


def test_interrupt_names_jobs_that_may_still_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CANCELLED", 0.0)
    answers = [answer(job("begin", 0, 1)), {"interrupt": True}, answer()]
    with pytest.raises(UndeterminedError, match=r"its jobs may still run \(job 41 is RUNNING\)") as found:
        run(cluster, answers)
    assert "run `scancel --name rackwright-train-" in str(found.value) and "as alice on login0" in str(found.value)


def test_run_without_end_has_reason(cluster: Cluster) -> None:
    answers = [answer(job("begin", 0, 1)), answer(job("failed", 0, 9), job("gave-up", 0, 9), jobs=0)]
    document = run(cluster, answers)
    assert (document["verdict"]["result"], document["error"]) == ("failed", "srun: error: worker1: task 1: Exited")


def test_vanished_jobs_end_run(cluster: Cluster) -> None:
    """Somebody cancelled them."""
    document = run(cluster, [answer(job("begin", 0, 1)), *[answer(jobs=0) for _ in range(5)]])
    assert document["verdict"]["result"] == "failed" and document["error"]


def test_events_after_end_are_read(cluster: Cluster) -> None:
    """The files of ranks and of the batch script are read one after the other."""
    document = run(cluster, [answer(job("begin", 0, 1)), answer(job("end", 0, 30), now=30), answer(*steps(0, 1, 10))])
    assert document["final_bits"] == "0000000a"


def test_restarted_controller_does_not_end_run(cluster: Cluster) -> None:
    first, *rest = undisturbed()
    assert run(cluster, [first, {"error": "Unable to contact slurm controller"}, *rest])["completed"]


def test_released_job_is_reported(cluster: Cluster) -> None:
    first, *rest = undisturbed()
    run(cluster, [first, answer(released=("41",)), *rest])
    assert any("job 41: was to wait for the lifetime of a credential" in line for line in cluster.said)


def test_full_file_system_is_refused(cluster: Cluster) -> None:
    cluster.begin = {"error": "", "job": None, "free_mib": 12}
    with pytest.raises(
        InputError, match=r"12 MiB are free on /mnt/sharedfs \(expected 1024 MiB.*\n.*earlier runs in /mnt/sharedfs/validation/results"
    ):
        run(cluster, [])


def test_refused_submission_is_undetermined(cluster: Cluster) -> None:
    cluster.begin = {"error": "sbatch: error: Invalid account", "job": None, "free_mib": 9000}
    with pytest.raises(UndeterminedError, match="Invalid account"):
        run(cluster, [])


def pod_event(event: str, attempt: int, time: float, nodes: str = "") -> dict[str, Any]:
    """Return a line of the first pod's script; the submitting node adds the nodes to `begin`."""
    return {"event": event, "attempt": str(attempt), "time": time, "job": "rackwright-train-1", "nodes": nodes}


def test_train_job_is_created_and_deleted_at_end(pods: Cluster) -> None:
    document = run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    begin = pods.asked[0]
    assert [one["kind"] for one in begin["objects"]] == ["TrainingRuntime", "TrainJob"] and begin["namespace"] == "research"
    name = begin["objects"][1]["metadata"]["name"]
    assert name == begin["name"] == begin["name"].lower() and "pod.sh" in begin["files"] and "job.sh" not in begin["files"]
    assert begin["folder"].startswith("/mnt/sharedfs/kubernetes/research/training/train-")
    assert pods.asked[-1]["action"] == "cancel" and pods.asked[-1]["name"] == name, "nothing of it stays in the cluster"
    assert document["verdict"]["rule"] == "baseline" and document["attempts"][0]["nodes"] == "worker0,worker1"


def test_worker_without_image_is_named_before_the_job_starts(pods: Cluster) -> None:
    """The image of the bundle is in no registry."""
    pods.image_of["worker1"] = False
    with pytest.raises(InputError, match=r"worker1 has 9 images, and not rackwright\.local/training:\S+") as found:
        run(pods, [])
    assert "rackwright up" in found.value.hint and "worker0" not in str(found.value)
    assert pods.asked == [], "nothing was submitted"


def test_image_of_each_worker_is_asked_for(pods: Cluster) -> None:
    run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    begin = next(one for one in pods.asked if one["action"] == "begin")
    assert [name for name, _ in pods.images] == ["worker0", "worker1"]
    assert all(image in json.dumps(begin["objects"]) for _, image in pods.images), "the image is that of the pods"


def test_unread_images_are_said_and_the_job_starts(pods: Cluster) -> None:
    pods.image_of["worker0"] = "the program did not end within 30 s"
    document = run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    assert document["run"] and [line for line in pods.said if "worker0: whether it has" in line and "did not end within 30 s" in line]


def test_image_of_a_registry_is_pulled(pods: Cluster) -> None:
    file = paths.inventory(pods.stack)
    described = yaml.safe_load(file.read_text())
    scheduler = described["all"]["vars"]["cluster"]["scheduler"]
    scheduler.pop("bundles_training_image")
    scheduler["training_image"] = "registry.example.org/torch:2.6"
    file.write_text(yaml.safe_dump(described))
    pods.image_of["worker1"] = False
    run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    assert [line for line in pods.said if line.startswith("worker1: does not have registry.example.org/torch:2.6")]


def test_jobs_of_slurm_need_no_image(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    assert cluster.images == []


def test_worker_of_last_pod_is_killed(pods: Cluster) -> None:
    """The order of the pods is not that of the workers."""
    whole = [answer(pod_event("begin", 0, 1, "worker1,worker0")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))]
    run(pods, whole)
    killed = [answer(pod_event("begin", 0, 1, "worker1,worker0")), answer(*steps(0, 1, 7)), *[answer() for _ in range(40)]]
    killed += [answer(pod_event("failed", 0, 20), pod_event("begin", 1, 42, "worker1,worker0")), answer(*steps(1, 7, 10))]
    document = run(pods, [*killed, answer(pod_event("end", 1, 130), now=130)], kill_worker=True)
    assert pods.done == [("kill", "worker0"), ("start", "worker0")]
    assert document["verdict"]["result"] == "passed" and document["verdict"]["rule"] == "identical"
    assert [one["outcome"] for one in document["attempts"]] == ["failed", "completed"]


def test_interrupted_pods_are_deleted_and_named_if_left(pods: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CANCELLED", 0.0)
    with pytest.raises(UndeterminedError, match=r"its pods may still run \(pod 41 is RUNNING\)") as found:
        run(pods, [answer(pod_event("begin", 0, 1)), {"interrupt": True}, answer()])
    assert "run `kubectl -n research delete trainjob rackwright-train-" in str(found.value)


def test_newest_checkpoint_is_fine_tuned_as_one_pod(pods: Cluster) -> None:
    trained = run(pods, [answer(pod_event("begin", 0, 1, "worker0,worker1")), answer(*steps(0, 1, 10)), answer(pod_event("end", 0, 30))])
    document = tune(pods, [answer(pod_event("begin", 0, 1, "worker1")), answer(pod_event("failed", 0, 9), pod_event("gave-up", 0, 9))])
    newest, begin, *_, last = [one for one in pods.asked if one["action"] != "follow"][-4:]
    assert newest["action"] == "newest" and newest["folders"] == [f"{trained['folder']}/checkpoints"]
    runtime, train_job = begin["objects"]
    assert (runtime["kind"], train_job["kind"]) == ("TrainingRuntime", "TrainJob") and train_job["spec"]["trainer"]["numNodes"] == 1
    assert runtime["metadata"]["name"] == begin["name"] == begin["name"].lower()
    assert f"--checkpoints {trained['folder']}/checkpoints" in begin["files"]["pod.sh"] and "job.sh" not in begin["files"]
    assert begin["folder"].startswith(trained["folder"].rpartition("/")[0] + "/finetune-")
    assert last["action"] == "cancel" and last["name"] == begin["name"], "nothing of it stays in the cluster"
    assert document["verdict"]["result"] == "failed" and document["node"] == "worker1"


def test_fine_tuning_needs_a_checkpoint_on_kubernetes(pods: Cluster) -> None:
    with pytest.raises(InputError, match="no training run is on record") as found:
        tune(pods, [])
    assert "rackwright demo lab-k8s-train train" in found.value.hint and pods.asked == []
