"""Execution of the probes over parallel connections to all nodes. It starts before pytest collects the checks."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from rackwright.checks.cluster.harness.external_probes import ExternalProbe, ExternalProbeResult, run_external_probe
from rackwright.checks.cluster.harness.node_speed import NodeSpeed, fastest, read_speed
from rackwright.checks.cluster.harness.probe import CommandOutput, EarlierTimeoutError, Probe, ProbeContext, ProbeStage
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.harness.transport import ROUND_LIMIT, BoundedSsh, UnitWatch, ask_node, ask_node_in_rounds
from rackwright.errors import UndeterminedError
from rackwright.inventory.concurrency import max_parallel
from rackwright.inventory.reader import Inventory

_ROUNDS: Final = 3
"""Maximum number of rounds of a stage on a slow node. A job that has started is not started again."""
_AT_ONCE: Final = 48
"""Number of connections that are handled in parallel."""
_PAUSE: Final = 5.0
"""Seconds before the speed of a slow node is measured again. Chosen: three of them are enough for daemons that have just started."""
_FIRST: Final = 3.0
"""Seconds to wait for the connection to the entry node. All other connections use it; without it, each would open its own."""


@dataclass
class _Round:
    """One round: the probes of one stage on one node, sent over one connection."""

    done: threading.Event
    answers: dict[str, CommandOutput]


@dataclass
class _ExternalRun:
    """The result of one external probe."""

    done: threading.Event
    result: ExternalProbeResult = field(default_factory=lambda: ExternalProbeResult({}, 0.0, "it was not probed"))


class Suspensions(Protocol):
    """Suspended units that results report, and the probes on other nodes that wait for these units."""

    source: str
    """Name of the probe of units. It is the first in each round."""

    def record(self, node: str, question: str, answer: CommandOutput) -> None:
        """Record the suspended units of a result."""

    def blocking_unit(self, node: str, question: str) -> str:
        """Return the suspended unit, with its node, that a probe on a node waits for; empty where there is none."""


@dataclass(frozen=True)
class _NodeContext:
    """The context of a probe: a node, the plan and the results of earlier probes."""

    node: Mapping[str, Any]
    declared: Inventory
    runner: ProbeRunner

    def earlier_result(self, probe: Probe[Any], node: str) -> Any:
        try:
            return self.runner.answer(probe, node)
        except UndeterminedError as error:
            own = node == self.node["name"] and self.runner.raw(probe, node).timed_out
            raise EarlierTimeoutError(str(error)) if own else error from None

    def is_reachable(self, node: str) -> bool:
        return self.runner.is_reachable(node)


class ProbeRunner:
    """Runs the probes of one run and holds their results. Reading a result waits until the round of its node has ended."""

    def __init__(
        self,
        declared: Inventory,
        ssh_config: Path,
        probes: Iterable[Probe[Any]],
        external_probes: Iterable[ExternalProbe] = (),
        suspensions: Suspensions | None = None,
    ) -> None:
        self._declared = declared
        self._suspensions = suspensions
        self._first = suspensions.source if suspensions else ""
        self._ssh_config = ssh_config
        self._rounds: dict[tuple[str, ProbeStage], _Round] = {}
        wanted: dict[tuple[str, ProbeStage], list[Probe[Any]]] = {}
        for probe in probes:
            for name in declared.members(probe.on):
                wanted.setdefault((name, probe.stage), []).append(probe)
        self._wanted = wanted
        for key in wanted:
            self._rounds[key] = _Round(threading.Event(), {})
        self._entry_open = threading.Event()
        self._connected = {name: threading.Event() for name, stage in wanted if stage is ProbeStage.FIRST}
        self._unresponsive: set[str] = set()
        self._speeds: defaultdict[str, list[NodeSpeed]] = defaultdict(list)
        self._external_probes = {external_probe.name: external_probe for external_probe in external_probes}
        self._views = {name: _ExternalRun(threading.Event()) for name in self._external_probes}
        self._slots = threading.Semaphore(max_parallel(declared.target, _AT_ONCE))

    def start(self) -> None:
        """Start all rounds and return at once."""
        threading.Thread(target=self._open_entry, daemon=True, name="entry").start()
        for external_probe in self._external_probes.values():
            threading.Thread(target=self._run_external_probe, args=(external_probe,), daemon=True, name=external_probe.name).start()
        for (name, stage), probes in sorted(self._wanted.items(), key=lambda item: item[0]):
            threading.Thread(target=self._run, args=(name, stage, probes), daemon=True, name=f"{name}/{stage.name}").start()

    def context(self, node: str) -> ProbeContext:
        """Return the context for the commands of probes on a node."""
        return _NodeContext(self._declared.nodes[node], self._declared, self)

    def raw(self, probe: Probe[Any], node: str) -> CommandOutput:
        """Wait for the round and return the raw result."""
        sent = self._rounds.get((node, probe.stage))
        if sent is None:
            raise UndeterminedError(f"{node} was not queried for {probe.name}")
        sent.done.wait()
        return sent.answers[probe.name]

    def answer(self, probe: Probe[Any], node: str) -> Any:
        """Wait for the round and return the parsed result. Raise UndeterminedError where there is none."""
        return probe.read(self.raw(probe, node))

    def external_answer(self, external_probe: ExternalProbe, node: str) -> str:
        """Return what responded on the node; empty if it refused. Raise UndeterminedError where the probe failed or timed out."""
        if external_probe.name not in self._views:
            raise UndeterminedError(f"{external_probe.name} was not probed")
        view = self._views[external_probe.name]
        view.done.wait()
        if view.result.error:
            raise UndeterminedError(view.result.error)
        if node not in view.result.answers:
            raise UndeterminedError(f"{external_probe.name} has no result for {node}")
        answer = view.result.answers[node]
        if isinstance(answer, UnreadableValue):
            raise UndeterminedError(answer.why)
        return str(answer)

    def speed(self, node: str) -> NodeSpeed | None:
        """Wait for the first round and return the speed of a node; None if it did not respond or measured nothing."""
        first = self._rounds.get((node, ProbeStage.FIRST))
        if first is not None:
            first.done.wait()
        measured = list(self._speeds[node])
        return fastest(measured) if measured else None

    def lost(self, node: str) -> int:
        """Wait for the passive rounds of a node and return the number of probes that exceeded their time limit."""
        rounds = [self._rounds[node, stage] for stage in (ProbeStage.FIRST, ProbeStage.SECOND) if (node, stage) in self._rounds]
        for one in rounds:
            one.done.wait()
        return sum(raw.timed_out for one in rounds for raw in one.answers.values())

    def measure_speed(self, node: str) -> None:
        """Measure the speed of a node once more, a few seconds later; a node that no longer responds keeps its earlier speed."""
        time.sleep(_PAUSE)
        backend = BoundedSsh(node, self._ssh_config, become=self._declared.needs_sudo(node))
        ask_node(backend, [("speed", "true", ROUND_LIMIT)], ROUND_LIMIT, partial(self._read_line, node))

    def run_command(self, node: str, command: Callable[[ProbeContext], str]) -> None:
        """Run a command on a node and ignore its output."""
        backend = BoundedSsh(node, self._ssh_config, become=self._declared.needs_sudo(node))
        ask_node(backend, [("unread", command(self.context(node)), ROUND_LIMIT)], ROUND_LIMIT)

    def is_reachable(self, node: str) -> bool:
        """Wait until the node has sent its first line or its connection has failed. Return whether it responds."""
        return node in self._connected and self._connected[node].wait() and node not in self._unresponsive

    def _failure_reason(self, node: str) -> str:
        """Return why a node does not respond, according to its first round."""
        first = self._rounds.get((node, ProbeStage.FIRST))
        return (
            next((raw.error for raw in first.answers.values() if raw.error), f"{node} does not respond")
            if first
            else f"{node} was not queried"
        )

    def _open_entry(self) -> None:
        """Start the other connections once the connection to the entry node is open, or where there is no entry node."""
        entries = self._declared.members("@entry")
        if not entries or BoundedSsh(entries[0], self._ssh_config).connected:
            self._entry_open.set()

    def _run_external_probe(self, external_probe: ExternalProbe) -> None:
        view = self._views[external_probe.name]
        try:
            view.result = run_external_probe(external_probe, self._declared)
        finally:
            view.done.set()

    def _run(self, name: str, stage: ProbeStage, probes: Sequence[Probe[Any]]) -> None:
        current = self._rounds[name, stage]
        opens = stage is ProbeStage.FIRST and name in self._declared.members("@entry")[:1]
        try:
            if stage is ProbeStage.FIRST and not opens:
                self._entry_open.wait(_FIRST)
            if stage is not ProbeStage.FIRST and not self.is_reachable(name):
                raise UndeterminedError(self._failure_reason(name))
            current.answers |= self._send(name, probes, 1 if stage is ProbeStage.JOBS else _ROUNDS)
        except UndeterminedError as error:
            current.answers |= {probe.name: CommandOutput(error=str(error)) for probe in probes}
        except Exception as error:  # any exception: a check that waits for this round must end
            current.answers |= {probe.name: CommandOutput(error=f"{name} could not be queried: {error!r}") for probe in probes}
        finally:
            current.done.set()
            if stage is ProbeStage.FIRST and not self._connected[name].is_set():
                self._unresponsive.add(name)
                self._mark_connected(name)

    def _mark_connected(self, name: str) -> None:
        """Mark a node as connected or as failed."""
        if name in self._connected:
            self._connected[name].set()
        if name in self._declared.members("@entry")[:1]:
            self._entry_open.set()

    def _read_line(self, name: str, line: str) -> None:
        """Mark a node as connected, and record its speed from the first line of a round."""
        self._mark_connected(name)
        if speed := read_speed(line):
            self._speeds[name].append(speed)

    def _known(self, name: str, probes: Sequence[Probe[Any]]) -> UnitWatch:
        """Return what is known of units during a round: units of the node from its own results, units of other nodes from theirs."""
        needs = {probe.name: probe.needs for probe in probes if probe.needs}
        if self._suspensions is None:
            return UnitWatch(needs)
        return UnitWatch(needs, partial(self._suspensions.record, name), partial(self._suspensions.blocking_unit, name))

    def _send(self, name: str, probes: Sequence[Probe[Any]], rounds: int) -> dict[str, CommandOutput]:
        answers: dict[str, CommandOutput] = {}
        questions: list[tuple[str, str, float]] = []
        where = self.context(name)
        for probe in probes:
            try:
                questions.append((probe.name, probe.command_at(where), probe.timeout_at(where)))
            except UndeterminedError as error:
                late = 0.0 if isinstance(error, EarlierTimeoutError) else None
                answers[probe.name] = CommandOutput(error=str(error), starved_seconds=late)
        if questions:
            questions.sort(key=lambda one: one[0] != self._first)
            longest = max(timeout for _, _, timeout in questions)
            backend = BoundedSsh(name, self._ssh_config, become=self._declared.needs_sudo(name))
            with self._slots:
                limit, known = max(ROUND_LIMIT, longest), self._known(name, probes)
                answers |= ask_node_in_rounds(backend, questions, limit, partial(self._read_line, name), known, rounds=rounds)
        return answers
