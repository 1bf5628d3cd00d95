"""One event: wait until there is no objection, inject it, watch it until it is undone and the cluster is as before, judge it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.probes.slurm import expand
from rackwright.drivers import ssh_connections
from rackwright.errors import RackwrightError
from rackwright.operations.chaos import alerts
from rackwright.operations.chaos import lease as leases
from rackwright.operations.chaos.alerts import AlertReader
from rackwright.operations.chaos.injection import BY_UNIT, Injector
from rackwright.operations.chaos.lease import Lease
from rackwright.operations.chaos.modes import SPECS, Hold, Mode, Place, affected
from rackwright.operations.chaos.observation import Watch
from rackwright.operations.chaos.permission import Consent, Observation, objections
from rackwright.operations.chaos.schedule import ScheduledEvent
from rackwright.report.chaos import EventRecord, effect_on_training, judge
from rackwright.report.verdict import Verdict

Progress = Callable[[str], Awaitable[None]]
_POLL: Final = 2.0
"""Seconds between two observations, so that a time to detection is late by at most that and the time of the answer."""
_PATIENCE: Final = 120.0
"""Seconds for which an event waits until there is no objection. Chosen: a training run starts within a minute.
Longer on a slow machine."""
_LONGEST: Final = 600.0
"""Seconds after which an event is judged as it is: a lost node cost a training run 34 s, and a requeued job waits 121 s
(docs/adr/0043-lost-node-without-requeue.md). Longer on a slow machine."""
_REACH: Final = 10.0
"""Seconds for a connection to each node before an event, as for the checks of a running stack."""
_SIGNS: Final = {"NOT_RESPONDING", "DOWN", "DRAIN", "FAIL", "FAILING"}
"""States that Slurm gives a node it has noticed."""


@dataclass
class EventRun:
    """An event in progress."""

    event: ScheduledEvent
    record: EventRecord
    injector: Injector
    watch: Watch
    alerts: AlertReader
    consent: Consent
    save: Callable[[], None]
    publish: Callable[[], Coroutine[None, None, None]]
    """Publishes the metrics of the run's failures."""
    say: Callable[[str], None]
    on_progress: Progress
    lease: Lease | None = None

    async def perform(self) -> None:
        """Carry the event out; its record holds the result. Raises RackwrightError only if the failure cannot be undone."""
        against = await self._wait_for_go()
        if against:
            self.record.verdict, self.record.reason = Verdict.SKIPPED, "no go: " + "; ".join(against)
            self.say(f"{self.record.id} {self.event.mode.value} on {self.event.target}: skipped; {'; '.join(against)}")
            return
        self.record.run = self.watch.run if self.watch.has_run else None
        try:
            self.lease = await self.injector.inject(self.event, self.record)
        except RackwrightError as error:
            self._refuse(error)
            return
        self.save()
        self.say(f"{self.record.id} {self.event.mode.value}: injected on {self.event.target}")
        beside = [asyncio.create_task(self._read_alerts()), asyncio.create_task(self.publish())]
        ends = asyncio.create_task(self._undo())
        try:
            await self._check_health()
            await self._follow(ends)
        finally:
            for task in (ends, *beside):
                task.cancel()
            await asyncio.gather(ends, *beside, return_exceptions=True)
        await self.alerts.read_into(self.record)
        self.record.verdict, self.record.reason = judge(self.record)
        await self._report()
        await self.publish()

    async def _wait_for_go(self) -> list[str]:
        """Return the objections that are left after the time for waiting; empty means go."""
        until = time.monotonic() + _PATIENCE * self.injector.slowness
        while against := await self._objections():
            if time.monotonic() > until:
                return against
            await self.on_progress(f"{self.record.id} waits: {against[0]}")
            await asyncio.sleep(_POLL)
        return []

    async def _objections(self) -> list[str]:
        running, spec = self.injector.running, SPECS[self.event.mode]
        seen = await self.watch.observe_current_run()
        opened = [lease.id for lease in leases.open_leases(running.name)]
        found = objections(seen, self.consent, affected(self.event.mode, self.event.target, running.inventory), opened)
        if self.watch.run and not self.watch.has_run:
            found.append(f"{self.watch.run} has not trained a step")
        if spec.ends_step and spec.hold is Hold.MOMENT and not self.watch.has_run:
            found.append("no training run is in progress")
        if not found:
            lost = await ssh_connections.connect_all(running.name, list(running.inventory.nodes), within=_REACH)
            found = [f"{name} does not respond: {why}" for name, why in lost.items()]
        return found

    def _refuse(self, error: RackwrightError) -> None:
        """Record that the failure could not be injected. What a lease stands for may have happened, so that `close` ends it."""
        self.record.verdict, self.record.reason = Verdict.UNKNOWN, f"could not be injected: {error.cause}"
        self.say(f"{self.record.id} {self.event.mode.value} on {self.event.target}: {self.record.reason}")

    async def _undo(self) -> None:
        """Undo the failure when its time has passed, or wait until its unit has."""
        if self.lease is not None:
            await self.injector.end(self.lease, self.record)
        while SPECS[self.event.mode].hold is Hold.UNIT and self.record.undone is None:
            await asyncio.sleep(_POLL)
            try:
                is_held = await self.injector.is_held(self.event.target, self.record.id)
            except RackwrightError:  # Its network is cut.
                continue
            if not is_held:
                self.record.undone, self.record.undone_by = time.time(), BY_UNIT

    async def _read_alerts(self) -> None:
        """Read the stack's alerts until the event is over."""
        while self.alerts.server is not None:
            await self.alerts.read_into(self.record)
            await asyncio.sleep(alerts.POLL)

    async def _check_health(self) -> None:
        """Run the node health check at once, which Slurm runs in intervals; it drains a node, and resumes it later."""
        if not SPECS[self.event.mode].is_checked:
            return
        try:
            answer = await self.injector.ask(self.event.target, "health")
        except RackwrightError:
            return
        if not answer["healthy"] and self.record.undone is None:
            self.record.detect("node health check", time.time(), "run at once after the failure, not in Slurm's interval")

    async def _follow(self, ends: asyncio.Task[None]) -> None:
        """Observe until the failure is undone, nodes are in service and training continues, or the time limit has passed."""
        until, resumed = time.monotonic() + self.record.params.get("seconds", 0) + _LONGEST * self.injector.slowness, False
        while time.monotonic() < until:
            seen = await self.watch.observe()
            self._detect(seen)
            if ends.done() and (error := ends.exception()) is not None:
                self.say(f"{self.record.id} {self.event.mode.value}: {error}")
                return
            if self.record.undone is not None and SPECS[self.event.mode].is_checked and not resumed:
                await self._resume()
                resumed = True
            await self._compare(seen)
            if self.record.undone is not None and self.record.clean and self.record.recovered is not False:
                return
            if self.record.effect.gave_up:
                return
            await self.on_progress(f"{self.record.id} {self.event.mode.value} on {self.event.target}: {self._state(seen)}")
            await asyncio.sleep(_POLL)

    async def _resume(self) -> None:
        try:
            await self.injector.ask(self.event.target, "health")
        except RackwrightError as error:
            self.say(f"{self.record.id}: the node health check did not run: {error}")

    def _state(self, seen: Observation) -> str:
        if self.record.undone is None:
            return "not undone yet"
        waits = "the training run has not continued yet" if self.record.clean else "the node is not back in service"
        return seen.error or "; ".join(seen.out_of_service()) or waits

    def _detect(self, seen: Observation) -> None:
        """Add what Slurm and the job noticed while the failure lasted, or before the cluster was clean again."""
        mode, record = self.event.mode, self.record
        if seen.error:
            if SPECS[mode].place is Place.CONTROLLER:
                record.detect("slurm commands", seen.now, seen.error)
            return
        signs = _SIGNS & set(seen.nodes.get(self.event.target, {}).get("states", ()))
        if signs and SPECS[mode].place is Place.WORKER:
            reason = seen.nodes[self.event.target]["reason"]
            record.detect("slurm node state", seen.now, "+".join(sorted(signs)) + (f" ({reason})" if reason else ""))

    async def _compare(self, seen: Observation) -> None:
        """Fill in what the training run shows, and whether the nodes are in service."""
        record, spec = self.record, SPECS[self.event.mode]
        assert record.injected is not None
        record.clean = None if seen.error or record.undone is None else await self._is_clean(seen)
        if record.run is None:
            return
        ends_step = spec.ends_step and (self.event.mode is not Mode.NODE_KILL or self._trains_on_target())
        record.effect = effect_on_training(self.watch.lines, record.injected, record.undone, ends_step=ends_step)
        if record.effect.noticed_at is not None:
            record.detect("training job", record.effect.noticed_at, record.effect.noticed_as)

    async def _is_clean(self, seen: Observation) -> bool:
        """Return whether all nodes are in service, a killed one has registered again, and the target answers and holds no failure."""
        if seen.out_of_service():
            return False
        if self.event.mode is Mode.NODE_KILL and not seen.is_registered_since(self.event.target, self.record.injected or 0.0):
            return False
        try:
            return not await self.injector.is_held(self.event.target, self.record.id)
        except RackwrightError:
            return False

    def _trains_on_target(self) -> bool:
        """Return whether the attempt before the failure had the target among its nodes."""
        begun = [line for line in self.watch.lines if line["event"] == "begin" and float(line["time"]) <= (self.record.injected or 0.0)]
        return bool(begun) and self.event.target in expand(str(begun[-1]["nodes"]))

    async def _report(self) -> None:
        record = self.record
        by = f"undone by {record.undone_by}" if record.undone is not None else "not undone"
        text = f"{record.id} {record.mode}: {by}; {record.verdict.value}: {record.reason}"
        await self.injector.log([self.watch.site.submit_host, self.event.target], text)
        self.say(text)
