"""A running stack for `rackwright demo`: answers of the submitting node in order, and a record of what was done to nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.drivers import node_kill, remote_exec, ssh_connections
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


def slurm_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
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


def pod_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack like lab-k8s-train that is up."""
    cluster = slurm_cluster(tmp_path, monkeypatch)
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


def pod_event(event: str, attempt: int, time: float, nodes: str = "") -> dict[str, Any]:
    """Return a line of the first pod's script; the submitting node adds the nodes to `begin`."""
    return {"event": event, "attempt": str(attempt), "time": time, "job": "rackwright-train-1", "nodes": nodes}
