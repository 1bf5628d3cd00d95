"""A model of a cluster with a training run, for tests of injected failures: it answers in place of nodes, Slurm and Podman."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rackwright.operations.chaos.modes import SPECS, Hold, Mode

TRAIN = "rackwright-train-20261128T170000Z-ab12"


class Cluster:
    """A model of lab-train: its nodes and a training run, whose time goes on with each observation."""

    def __init__(self) -> None:
        self.now = time.time()
        self.down: set[str] = set()
        self.done: list[tuple[str, str]] = []
        self.units: dict[str, set[str]] = {}
        self.logs: list[tuple[str, str]] = []
        self.lines: list[dict[str, Any]] = []
        self.step = 0
        self.user = "alice"
        self.restart = False
        self.trains = True
        self.registered = 0.0
        self.on_watch: Callable[[], None] = lambda: None

    async def run_on_nodes(self, _stack: str, program: str, requests: dict[str, Any], _sudo: Any, **_: Any) -> tuple[Any, Any]:
        """Answer for a node."""
        ((node, request),) = requests.items()
        if program == "chaos_watch":
            self.on_watch()
            return {node: self.watch(request)}, {}
        if node in self.down:
            return {}, {node: "no response"}
        return {node: {"error": "", **self.answer(node, request)}}, {}

    def answer(self, node: str, request: dict[str, Any]) -> dict[str, Any]:
        """Answer for chaos_node."""
        if request["action"] == "log":
            self.logs.append((node, request["text"]))
        if request["action"] == "undo":
            return {"units": sorted(self.units.pop(node, set()))}
        if request["action"] == "units":
            return {"units": sorted(self.units.pop(node, set()))} if request.get("keep") else {"units": []}
        if request["action"] == "health":
            return {"healthy": not self.units.get(node)}
        if request["action"] == "inject":
            self.done.append((request["mode"], node))
            self.restart = request["mode"] in ("rank_kill", "gpu_oom")
            if SPECS[Mode(request["mode"])].hold is Hold.UNIT:
                self.units.setdefault(node, set()).add(request["id"])
            return {"begun": time.time(), "injected": time.time(), "target": {"rank": 1, "pid": 9, "job": "41"} if self.restart else {}}
        return {}

    def watch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer for chaos_watch: two more steps of training, after a restart if there was a failure."""
        states = {
            name: {"states": ["DOWN"] if name in self.down else ["MIXED"], "reason": "", "registered": self.registered}
            for name in ("worker0", "worker1")
        }
        job = {"id": "41", "user": self.user, "state": "RUNNING", "nodes": "worker[0-1]", "name": TRAIN}
        lines = self.train() if self.trains else []
        return {
            "error": "",
            "nodes": states,
            "jobs": [job] if self.trains else [],
            "run": TRAIN if self.trains else request["run"],
            "lines": lines,
            "offsets": {"x": 1},
            "now": time.time(),
        }

    def train(self) -> list[dict[str, Any]]:
        """Return new lines of the run."""
        lines: list[dict[str, Any]] = []
        if not self.step:
            lines.append({"event": "begin", "attempt": "0", "time": time.time(), "job": "41", "nodes": "worker[0-1]"})
        if self.down:
            return lines
        if self.restart or not self.step:
            resumed = self.step // 5 * 5
            common = {"attempt": "0", "time": time.time()}
            lines += [{**common, "event": "start"}, {**common, "event": "resume", "step": resumed}]
            self.step, self.restart = resumed, False
        for _ in range(2):
            self.step += 1
            time.sleep(0.002)
            lines.append({"event": "step", "attempt": "0", "time": time.time(), "step": self.step, "seconds": 0.001})
        return lines

    async def kill(self, _stack: str, _target: str, node: str) -> None:
        """Stop a node."""
        self.done.append(("kill", node))
        self.down.add(node)

    async def start(self, _stack: str, _target: str, node: str) -> None:
        """Start a node; its ranks start again."""
        self.done.append(("start", node))
        self.down.discard(node)
        self.restart = True
        self.registered = time.time()
