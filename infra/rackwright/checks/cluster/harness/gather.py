"""Gathering of results: parallel connections to all nodes, on which the probes run. It starts before pytest collects the checks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from rackwright.checks.cluster.harness.outside_probes import Looked, Outlook, look
from rackwright.checks.cluster.harness.probe import Place, Probe, Raw, Stage
from rackwright.checks.cluster.harness.tool_output import Unread
from rackwright.checks.cluster.harness.transport import BoundedSsh, Known, ask_node, ask_node_in_rounds
from rackwright.errors import UndeterminedError
from rackwright.inventory.concurrency import max_parallel
from rackwright.inventory.reader import Inventory

ROUND_LIMIT: Final = 10.0
"""Time limit of the passive probes of one round, in seconds. With the connect time-out, a dead node is known within 15 s."""
_ROUNDS: Final = 3
"""Maximum number of rounds of a stage on a slow node. A job that has started is not started again."""
_AT_ONCE: Final = 48
"""Number of connections that are handled in parallel."""
_FIRST: Final = 3.0
"""Seconds to wait for the connection to the entry node. All other connections use it; without it, each would open its own."""


@dataclass
class _Round:
    """One round: the probes of one stage on one node, sent over one connection."""

    done: threading.Event
    answers: dict[str, Raw]


@dataclass
class _OutlookRun:
    """The result of one outlook."""

    done: threading.Event
    looked: Looked = field(default_factory=lambda: Looked({}, 0.0, "it has not been looked at"))


class Suspensions(Protocol):
    """Suspended units that results report, and the probes on other nodes that wait for these units."""

    source: str
    """Name of the probe of units. It is the first in each round."""

    def tell(self, node: str, question: str, answer: Raw) -> None:
        """Record the suspended units of a result."""

    def holding(self, node: str, question: str) -> str:
        """Return the suspended unit, with its node, that a probe on a node waits for; empty where there is none."""


@dataclass(frozen=True)
class _NodePlace:
    """The place where a probe runs: a node, the plan and the results of earlier probes."""

    node: Mapping[str, Any]
    declared: Inventory
    gathering: Gathering

    def before(self, probe: Probe[Any], node: str) -> Any:
        return self.gathering.answer(probe, node)

    def speaks(self, node: str) -> bool:
        return self.gathering.speaks(node)


class Gathering:
    """All results of one run. Reading a result waits until the round of its node has ended."""

    def __init__(
        self,
        declared: Inventory,
        ssh_config: Path,
        probes: Iterable[Probe[Any]],
        outlooks: Iterable[Outlook] = (),
        suspensions: Suspensions | None = None,
    ) -> None:
        self._declared = declared
        self._suspensions = suspensions
        self._first = suspensions.source if suspensions else ""
        self._ssh_config = ssh_config
        self._rounds: dict[tuple[str, Stage], _Round] = {}
        wanted: dict[tuple[str, Stage], list[Probe[Any]]] = {}
        for probe in probes:
            for name in declared.members(probe.on):
                wanted.setdefault((name, probe.stage), []).append(probe)
        self._wanted = wanted
        for key in wanted:
            self._rounds[key] = _Round(threading.Event(), {})
        self._entry_open = threading.Event()
        self._connected = {name: threading.Event() for name, stage in wanted if stage is Stage.LOOK}
        self._unresponsive: set[str] = set()
        self._outlooks = {outlook.name: outlook for outlook in outlooks}
        self._views = {name: _OutlookRun(threading.Event()) for name in self._outlooks}
        self._slots = threading.Semaphore(max_parallel(declared.target, _AT_ONCE))

    def start(self) -> None:
        """Start all rounds and return at once."""
        threading.Thread(target=self._open_entry, daemon=True, name="entry").start()
        for outlook in self._outlooks.values():
            threading.Thread(target=self._run_outlook, args=(outlook,), daemon=True, name=outlook.name).start()
        for (name, stage), probes in sorted(self._wanted.items(), key=lambda item: item[0]):
            threading.Thread(target=self._run, args=(name, stage, probes), daemon=True, name=f"{name}/{stage.name}").start()

    def place(self, node: str) -> Place:
        """Return the place for the commands of probes on a node."""
        return _NodePlace(self._declared.nodes[node], self._declared, self)

    def raw(self, probe: Probe[Any], node: str) -> Raw:
        """Wait for the round and return the raw result."""
        sent = self._rounds.get((node, probe.stage))
        if sent is None:
            raise UndeterminedError(f"{node} was not queried for {probe.name}")
        sent.done.wait()
        return sent.answers[probe.name]

    def answer(self, probe: Probe[Any], node: str) -> Any:
        """Wait for the round and return the parsed result. Raise UndeterminedError where there is none."""
        return probe.read(self.raw(probe, node))

    def seen(self, outlook: Outlook, node: str) -> str:
        """Return what responded on the node; empty if it refused. Raise UndeterminedError where the outlook failed or timed out."""
        if outlook.name not in self._views:
            raise UndeterminedError(f"{outlook.name} was not probed")
        view = self._views[outlook.name]
        view.done.wait()
        if view.looked.trouble:
            raise UndeterminedError(view.looked.trouble)
        if node not in view.looked.answers:
            raise UndeterminedError(f"{outlook.name} has no result for {node}")
        answer = view.looked.answers[node]
        if isinstance(answer, Unread):
            raise UndeterminedError(answer.why)
        return str(answer)

    def tell(self, node: str, command: Callable[[Place], str]) -> None:
        """Run a command on a node and ignore its output."""
        backend = BoundedSsh(node, self._ssh_config, become=self._declared.needs_sudo(node))
        ask_node(backend, [("told", command(self.place(node)), ROUND_LIMIT)], ROUND_LIMIT)

    def speaks(self, node: str) -> bool:
        """Wait until the node has sent its first line or its connection has failed. Return whether it responds."""
        return node in self._connected and self._connected[node].wait() and node not in self._unresponsive

    def _failure_reason(self, node: str) -> str:
        """Return why a node does not respond, according to its first round."""
        first = self._rounds.get((node, Stage.LOOK))
        return (
            next((raw.trouble for raw in first.answers.values() if raw.trouble), f"{node} does not answer")
            if first
            else f"{node} was not asked"
        )

    def _open_entry(self) -> None:
        """Start the other connections once the connection to the entry node is open, or where there is no entry node."""
        entries = self._declared.members("@entry")
        if not entries or BoundedSsh(entries[0], self._ssh_config).connected:
            self._entry_open.set()

    def _run_outlook(self, outlook: Outlook) -> None:
        view = self._views[outlook.name]
        try:
            view.looked = look(outlook, self._declared)
        finally:
            view.done.set()

    def _run(self, name: str, stage: Stage, probes: Sequence[Probe[Any]]) -> None:
        current = self._rounds[name, stage]
        opens = stage is Stage.LOOK and name in self._declared.members("@entry")[:1]
        try:
            if stage is Stage.LOOK and not opens:
                self._entry_open.wait(_FIRST)
            if stage is not Stage.LOOK and not self.speaks(name):
                raise UndeterminedError(self._failure_reason(name))
            current.answers |= self._send(name, probes, 1 if stage is Stage.JOBS else _ROUNDS)
        except UndeterminedError as error:
            current.answers |= {probe.name: Raw(trouble=str(error)) for probe in probes}
        except Exception as error:  # any exception: a check that waits for this round must end
            current.answers |= {probe.name: Raw(trouble=f"{name} could not be asked: {error!r}") for probe in probes}
        finally:
            current.done.set()
            if stage is Stage.LOOK and not self._connected[name].is_set():
                self._unresponsive.add(name)
                self._mark_connected(name)

    def _mark_connected(self, name: str) -> None:
        """Mark a node as connected or as failed."""
        if name in self._connected:
            self._connected[name].set()
        if name in self._declared.members("@entry")[:1]:
            self._entry_open.set()

    def _known(self, name: str, probes: Sequence[Probe[Any]]) -> Known:
        """Return what is known of units during a round: units of the node from its own results, units of other nodes from theirs."""
        needs = {probe.name: probe.needs for probe in probes if probe.needs}
        if self._suspensions is None:
            return Known(needs)
        return Known(needs, partial(self._suspensions.tell, name), partial(self._suspensions.holding, name))

    def _send(self, name: str, probes: Sequence[Probe[Any]], rounds: int) -> dict[str, Raw]:
        answers: dict[str, Raw] = {}
        questions: list[tuple[str, str, float]] = []
        where = self.place(name)
        for probe in probes:
            try:
                questions.append((probe.name, probe.command_at(where), probe.timeout))
            except UndeterminedError as error:
                answers[probe.name] = Raw(trouble=str(error))
        if questions:
            questions.sort(key=lambda one: one[0] != self._first)
            longest = max(timeout for _, _, timeout in questions)
            backend = BoundedSsh(name, self._ssh_config, become=self._declared.needs_sudo(name))
            with self._slots:
                limit, known = max(ROUND_LIMIT, longest), self._known(name, probes)
                answers |= ask_node_in_rounds(backend, questions, limit, lambda: self._mark_connected(name), known, rounds=rounds)
        return answers
