"""The stages of a serving run: the load is set, the replicas are observed and scaled, until they are as the stage wants them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.operations.demo.autoscaling import Autoscaler
from rackwright.operations.demo.following import Following, Progress, Say
from rackwright.time_limits import slowness
from rackwright.workloads.serving_pods import ServingJob

POLL: Final = 1.0
"""Seconds between two observations. kube-controller-manager computes replicas every 15 s; a demo should not wait so long."""
_LONGEST: Final = 240.0
"""Seconds of a stage, on an idle machine: a new pod is ready within 180 s (its startup probe), an old one ends within 90."""
_SILENT: Final = 60.0
"""Seconds without an observation after which the run is given up."""
_DELETED: Final = 120.0
"""Seconds in which the pods of a deleted run must have ended: their grace period is 90."""

Seen = Mapping[str, Any]


@dataclass(frozen=True)
class Stage:
    """A part of a run."""

    name: str
    clients: int
    goal: Callable[[Seen], bool]
    """Whether the replicas have done what the stage is for."""
    holds: float
    """Seconds that the stage lasts after its goal, on the clock of the node that observes it."""
    update: Mapping[str, str] | None = None
    """Environment of the new revision that the stage begins with."""


class ServingRun:
    """A run in progress, and what was seen of it."""

    def __init__(
        self, following: Following, objects: Sequence[Mapping[str, Any]], scaler: Autoscaler, on_progress: Progress, say: Say
    ) -> None:
        self.following, self.scaler = following, scaler
        assert isinstance(following.job, ServingJob)
        self.job: ServingJob = following.job
        self.lines: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.scalings: list[dict[str, Any]] = []
        self.goals: dict[str, bool] = {}
        self.stage = ""
        self.error = ""
        self.left = ""
        """After an interruption: what may still exist. Empty if nothing does."""
        self._objects = list(objects)
        self._on_progress, self._say = on_progress, say
        self._offsets: dict[str, int] = {}
        self._begun = self._now = self._silent = 0.0
        self._replicas: int | None = None
        """Replicas at the last observation; None before the first stage."""

    async def run(self, stages: Sequence[Stage], needed_mib: int) -> None:
        """Create the objects, go through the stages and delete the objects, in every case."""
        try:
            await self._begin(needed_mib)
            if await self._wait("start", lambda seen: seen["is_rolled_out"] and (seen["load"] or {}).get("phase") == "Running"):
                self._say(f"run {self.job.name}: {self.job.checkpoint} is served as {self.following.site.user}")
                for stage in stages:
                    if not await self._pass(stage):
                        break
                await self._end()
        finally:
            await self._delete()

    async def _begin(self, needed_mib: int) -> None:
        """Create folder and objects. An interruption waits for the answer: an object that is created after the deletion would stay."""
        files = {"load.json": '{"stage": "", "clients": 0}\n'}
        request = asyncio.ensure_future(self.following.ask("begin", files=files, needed_mib=needed_mib, objects=self._objects))
        try:
            answer = await asyncio.shield(request)
        except asyncio.CancelledError:
            await asyncio.wait((request,))
            raise
        stack = f"stack {self.following.running.name}"
        if answer["error"]:
            raise UndeterminedError(f"the model server could not be created: {answer['error']}", path=stack)
        if not answer["created"]:
            found = f"{answer['free_mib']} MiB are free on {self.following.site.mount} (expected {needed_mib} MiB for the run's files)"
            raise InputError(found, path=stack, hint=f"delete folders of earlier runs in {self.job.run.rpartition('/')[0]}")

    async def _pass(self, stage: Stage) -> bool:
        """Go through a stage; return whether it reached its goal."""
        self.stage, self.goals[stage.name] = stage.name, False
        await self._ask("load", load={"stage": stage.name, "clients": stage.clients})
        if stage.update is not None:
            await self._ask("update", container="server", environment=dict(stage.update))
        self._say(f"stage {stage.name}: {stage.clients} clients")
        begun = time.monotonic()
        if not await self._wait(stage.name, stage.goal):
            return False
        self._say(f"stage {stage.name}: reached after {time.monotonic() - begun:.0f} s")
        self.goals[stage.name] = True
        until = self._now + stage.holds
        while self._now < until:
            await self._observe(stage.name)
        return True

    async def _wait(self, name: str, goal: Callable[[Seen], bool]) -> bool:
        """Observe until the goal is reached; record an error if it is not within the time limit, or cannot be."""
        limit = _LONGEST * await asyncio.to_thread(slowness)
        deadline, reasons = time.monotonic() + limit, [""]
        is_over = False
        while not is_over:
            seen = await self._observe(name)
            is_over = time.monotonic() >= deadline
            if seen is None:
                continue
            if goal(seen):
                return True
            load = seen["load"] or {"phase": "Failed", "reason": "it was deleted", "is_hopeless": False}
            if load["phase"] in ("Failed", "Succeeded") or load["is_hopeless"]:
                self.error = f"stage {name}: the pod that sends requests does not run: {load['reason'] or 'it ended'}"
                return False
            reasons = [f"{one['name']}: {one['reason']}" for one in seen["pods"] if one["reason"]] or [""]
        self.error = f"stage {name}: its goal was not reached within {limit:.0f} s" + (f"; {reasons[0]}" if reasons[0] else "")
        return False

    async def _observe(self, name: str) -> dict[str, Any] | None:
        """Take a sample and scale by it; return it, or None if there is no answer for the moment."""
        await asyncio.sleep(POLL)
        try:
            seen = await self.following.ask("observe", offsets=self._offsets)
        except RackwrightError as error:
            seen = {"error": str(error)}
        if seen["error"]:
            self._silent = self._silent or time.monotonic()
            if time.monotonic() - self._silent > _SILENT:
                raise UndeterminedError(f"the model server cannot be observed: {seen['error']}", path=f"run {self.job.name}")
            return None
        self._silent = 0.0
        self.lines += seen["lines"]
        self._offsets = seen["offsets"]
        self._now = seen["now"]
        self._begun = self._begun or self._now
        self.samples.append(self._sample(name, seen))
        await self._on_progress(self._progress(name))
        if name != "start":
            await self._scale(seen)
        return seen

    def _sample(self, name: str, seen: Seen) -> dict[str, Any]:
        pods = seen["pods"]
        return {
            "at": round(seen["now"] - self._begun, 1),
            "stage": name,
            "replicas": seen["replicas"],
            "ready": sum(one["ready"] for one in pods),
            "ending": sum(one["ending"] for one in pods),
            "restarts": sum(one["restarts"] for one in pods),
            "waiting": sum(one["waiting"] or 0 for one in pods),
            "running": sum(one["running"] or 0 for one in pods),
            "facts": next((one["facts"] for one in pods if one["facts"]), {}),
        }

    async def _scale(self, seen: Seen) -> None:
        """Change the number of replicas if the queue asks for it, or record that an autoscaler of the cluster did."""
        waiting = [one["waiting"] for one in seen["pods"] if one["ready"]]
        before, wanted = seen["replicas"], self.scaler.replicas(seen["now"], seen["replicas"], waiting)
        if wanted is None:
            before, wanted = before if self._replicas is None else self._replicas, before
        elif wanted != before:
            await self._ask("scale", replicas=wanted)
        self._replicas = wanted
        if wanted != before:
            known = [one for one in waiting if one is not None]
            change = {"from": before, "to": wanted, "waiting": known}
            self.scalings.append({"at": round(seen["now"] - self._begun, 1), "stage": self.stage, **change})
            self._say(f"autoscaler: {before} -> {wanted} replicas ({', '.join(map(str, known)) or 'no'} requests wait)")

    async def _end(self) -> None:
        """End the load, and read the rest of what it wrote."""
        await self._ask("load", load={"stage": "", "clients": 0, "ends": True})
        deadline = time.monotonic() + _LONGEST * await asyncio.to_thread(slowness)
        while not any(line["event"] == "end" for line in self.lines) and time.monotonic() < deadline:
            await self._observe(self.stage)

    async def _ask(self, action: str, **more: Any) -> None:
        """Send a request that changes something. Raises UndeterminedError if it fails."""
        answer = await self.following.ask(action, **more)
        if answer["error"]:
            raise UndeterminedError(f"{action}: {answer['error']}", path=f"run {self.job.name}")

    async def _delete(self) -> None:
        """Delete all objects, and wait until no pod is left."""
        names = [{"kind": one["kind"], "metadata": {"name": one["metadata"]["name"]}} for one in self._objects]
        self.left = "their deletion was interrupted"
        deadline = time.monotonic() + _DELETED * await asyncio.to_thread(slowness)
        while True:
            try:
                answer = await self.following.ask("cancel", objects=names)
            except RackwrightError as error:
                answer = {"error": str(error)}
            self.left = answer["error"] or ", ".join(answer["left"])
            if not self.left or time.monotonic() > deadline:
                return
            await self._on_progress(f"deleting: {self.left}")
            await asyncio.sleep(POLL)

    def _progress(self, name: str) -> str:
        last = self.samples[-1]
        requests = [line for line in self.lines if line["event"] == "request"]
        lost = sum(bool(line["lost"]) for line in requests)
        replicas = f"{last['ready']} of {last['replicas']} replicas ready, {last['running']} running, {last['waiting']} waiting"
        return f"{name}: {replicas}; {len(requests)} requests, {lost} lost"
