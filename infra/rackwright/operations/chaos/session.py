"""`rackwright chaos`: failures by schedule into a running stack, one at a time; and the end of all that a killed command left."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rackwright.drivers import node_kill
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.chaos import lease as leases
from rackwright.operations.chaos import records
from rackwright.operations.chaos.alerts import AlertReader
from rackwright.operations.chaos.event import EventRun, Progress
from rackwright.operations.chaos.injection import Injector, fill_in_end
from rackwright.operations.chaos.modes import SPECS, Hold, Mode, candidates, refusal, require_supported
from rackwright.operations.chaos.observation import ChaosSite, Watch, find_site
from rackwright.operations.chaos.permission import Consent, require_allowed
from rackwright.operations.chaos.schedule import ScheduledEvent, schedule_events
from rackwright.operations.monitoring.publication import publish
from rackwright.report import chaos as report
from rackwright.report.chaos import EventRecord
from rackwright.report.metrics import chaos_metrics
from rackwright.time_limits import slowness

RANDOM = "random"
_MOST_SLOWNESS = 6
"""Factor beyond which the time limits of an event do not grow, as for a training run (operations/demo/training.py)."""


@dataclass(frozen=True)
class ChaosOptions:
    """What the user asked for."""

    mode: str
    interval_s: int = 60
    duration_s: int = 60
    seed: int | None = None
    bandwidth: str = "10mbit"
    node: str | None = None
    everybody: bool = False
    hold_s: int | None = None


@dataclass
class _Session:
    """A run in progress."""

    running: RunningStack
    site: ChaosSite
    options: ChaosOptions
    seed: int
    name: str
    injector: Injector
    alerts: AlertReader
    say: Callable[[str], None]
    on_progress: Progress
    events: list[EventRun] = field(default_factory=list)
    started: float = field(default_factory=time.time)
    ended: float | None = None
    problems: list[str] = field(default_factory=list)
    unpublished: list[str] = field(default_factory=list)
    """Reasons for which metrics were not written."""
    published: str = ""
    """Metrics that were written last."""

    def document(self) -> dict[str, Any]:
        """Return the document rackwright.chaos/1."""
        events = [one.record.data() for one in self.events]
        declared = self.running.inventory
        return {
            "schema": report.SCHEMA,
            "stack": self.running.name,
            "target": declared.target,
            "run": self.name,
            "seed": self.seed,
            "mode": self.options.mode,
            "interval_s": self.options.interval_s,
            "duration_s": self.options.duration_s,
            "hold_s": self.options.hold_s,
            "user": self.site.user,
            "started": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds"),
            "ended": self.ended,
            "evidence": [f"target {declared.target}", *(f"simulated: {name}" for name in sorted(declared.simulated))],
            "alerts": self.alerts.summary(),
            "events": events,
            "score": report.score(events),
            "verdict": report.verdict_of(events, self.problems),
        }

    def save(self) -> None:
        """Write the record."""
        records.save(self.running.name, self.document())

    async def publish(self) -> None:
        """Publish the run's failures as metrics, unless they are published; say why that failed, once for each reason."""
        text = chaos_metrics(self.running.name, [one.record for one in self.events])
        if text == self.published:
            return
        failures = await publish(self.running.inventory, {"chaos": text}, renew_silences=not self.published)
        self.published = self.published if failures else text
        for failure in failures:
            if failure not in self.unpublished:
                self.unpublished.append(failure)
                self.say(failure)


def inject_failures(stack: str, options: ChaosOptions, on_progress: Progress, say: Callable[[str], None]) -> dict[str, Any]:
    """Inject failures into a stack; return the document rackwright.chaos/1, which is recorded, too. At Ctrl-C everything is undone.

    Raises InputError if the stack does not allow it, is not up or cannot have the failure; UndeterminedError at Ctrl-C.
    """
    require_allowed(stack)
    running = RunningStack.of(stack)
    site = find_site(running.inventory)
    if running.inventory.target not in node_kill.TARGETS:
        raise InputError(f"injects failures on targets lab and vm only (found target {running.inventory.target})", path=f"stack {stack}")
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    scheduled = _schedule(running.inventory, options, seed)
    factor = min(slowness(), _MOST_SLOWNESS)
    injector = Injector(running, site.user, site.submit_host, options.bandwidth, factor, options.hold_s)
    name = f"chaos-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.urandom(2).hex()}"
    session = _Session(running, site, options, seed, name, injector, AlertReader(running, factor), say, on_progress)
    with leases.only_command(stack):
        records.close_killed_runs(stack)
        try:
            asyncio.run(_run(session, scheduled))
        except KeyboardInterrupt:
            raise UndeterminedError("interrupted; its failures are undone", path=f"run {name}") from None
    return session.document()


def undo_all(stack: str, say: Callable[[str], None]) -> list[str]:
    """Undo everything that chaos commands left on a stack; return the ids of its events.

    Raises InputError if the stack is not up, UndeterminedError if a node does not answer.
    """
    running = RunningStack.of(stack)
    site = find_site(running.inventory)
    injector = Injector(running, site.user, site.submit_host, "", min(slowness(), _MOST_SLOWNESS))
    with leases.only_command(stack):
        found = asyncio.run(_undo_all(injector, say))
        records.close_killed_runs(stack)
    return found


async def _undo_all(injector: Injector, say: Callable[[str], None]) -> list[str]:
    stack, found, lost = injector.running.name, list[str](), list[str]()
    for lease in leases.open_leases(stack):
        if await leases.end(lease, "--undo"):
            found.append(lease.id)
            say(f"{lease.id}: {lease.node} runs again")
    for node in injector.running.inventory.nodes:
        try:
            ids = (await injector.ask(node, "undo"))["units"]
        except RackwrightError as error:
            lost.append(str(error))
            continue
        found += ids
        for one in ids:
            say(f"{one}: undone on {node}")
    for failure in await publish(injector.running.inventory, {"chaos": chaos_metrics(stack, [])}):
        say(failure)
    if lost:
        hint = "a unit undoes its failure by itself; run the command again in a minute"
        raise UndeterminedError("\n".join(["nodes did not answer:", *lost]), path=f"stack {stack}", hint=hint)
    return found


def _schedule(declared: Inventory, options: ChaosOptions, seed: int) -> list[ScheduledEvent]:
    """Return the events of a run. Raises InputError for a mode that the stack cannot have, and for a node that cannot receive it."""
    if options.mode == RANDOM:
        modes = [mode for mode in Mode if not refusal(mode, declared)]
    else:
        modes = [Mode(options.mode)]
        require_supported(modes[0], declared)
    places: dict[Mode, Sequence[str]] = {mode: candidates(mode, declared) for mode in modes}
    if options.node is not None:
        places = {mode: [options.node] for mode, nodes in places.items() if options.node in nodes}
    if not places:
        known = sorted({name for mode in modes for name in candidates(mode, declared)})
        raise InputError(f"{options.node} cannot receive {options.mode}", path="--target", hint=f"choose one of {', '.join(known)}")
    return schedule_events(places, seed=seed, interval_s=options.interval_s, duration_s=options.duration_s)


async def _run(session: _Session, scheduled: Sequence[ScheduledEvent]) -> None:
    """Carry out the events one after another; an event that is late delays those behind it. Undo what is left in every case."""
    await leases.end_due(session.running.name, "next command", session.say)
    watch = Watch(session.running, session.site, session.injector.slowness)
    consent = Consent(session.site.user, session.options.everybody)
    session.say(f"run {session.name}: {len(scheduled)} events, seed {session.seed}")
    began = time.monotonic()
    try:
        for event in scheduled:
            await asyncio.sleep(max(0.0, began + event.at_s - time.monotonic()))
            await _perform(session, event, watch, consent)
    finally:
        await asyncio.shield(_close(session))


async def _perform(session: _Session, event: ScheduledEvent, watch: Watch, consent: Consent) -> None:
    spec = SPECS[event.mode]
    id_ = f"{session.name.removeprefix('chaos-').lower()}-{event.number}"
    params = session.injector.params(event)
    record = EventRecord(id_, event.number, session.seed, event.mode.value, event.target, event.at_s, params, spec.simulated)
    run = EventRun(
        event, record, session.injector, watch, session.alerts, consent, session.save, session.publish, session.say, session.on_progress
    )
    session.events.append(run)
    await run.perform()
    session.save()


async def _close(session: _Session) -> None:
    """Undo what is left of the last event, and write the record."""
    for run in session.events:
        if run.record.begun is None or run.record.undone is not None:
            continue
        try:
            await _undo_rest(session, run)
        except RackwrightError as error:
            session.problems.append(f"{run.record.id} is not undone: {error}")
    session.ended = time.time()
    session.save()
    await session.publish()


async def _undo_rest(session: _Session, run: EventRun) -> None:
    for lease in leases.open_leases(session.running.name):
        if lease.id == run.record.id:
            await leases.end(lease, "command")
            fill_in_end(lease, run.record)
    if SPECS[run.event.mode].hold is Hold.UNIT:
        await session.injector.ask(run.event.target, "undo")
        if run.record.injected is not None:
            run.record.undone, run.record.undone_by = time.time(), "command"
