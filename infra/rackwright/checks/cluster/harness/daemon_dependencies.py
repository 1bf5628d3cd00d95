"""Daemons that probes depend on. The missing output of a probe is attributed to the finding on the daemon that is down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput, DaemonDownError, Probe
from rackwright.checks.cluster.probes.accounting import CLUSTERS
from rackwright.checks.cluster.probes.slurm import CONFIGURATION, PING
from rackwright.checks.cluster.probes.units import ACCOUNTING, CONTROLLER, DATABASE, MUNGE, NODE_DAEMON, SUSPENDED, UNITS
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory

CHECKS: Final[Mapping[str, str]] = {
    MUNGE: "munge.service_runs",
    CONTROLLER: "slurm.controller_runs",
    NODE_DAEMON: "slurm.node_daemon_runs",
    ACCOUNTING: "accounting.daemon_runs",
    DATABASE: "accounting.database_runs",
}
"""Key of the check that reports a unit on its node."""
ELSEWHERE: Final[Mapping[Probe[Any], Mapping[str, str]]] = {
    PING: {CONTROLLER: "role_controller"},
    CLUSTERS: {ACCOUNTING: "role_accounting", DATABASE: "role_accounting"},
}
"""Units of other nodes that a command waits for, with the group of those nodes."""
_CANNOT_RUN: Final = (126, 127)
"""Exit statuses of a shell whose command cannot be executed or is not installed. Both have another cause than a daemon."""


class Answers(Protocol):
    """Results of the probes of a run: raw and parsed."""

    def raw(self, probe: Probe[Any], node: str) -> CommandOutput:
        """Return the raw result."""

    def answer(self, probe: Probe[Any], node: str) -> Any:
        """Return the parsed result. Raise UndeterminedError where there is none."""


@dataclass(frozen=True)
class Dependency:
    """A unit of the same node that a probe needs."""

    unit: str
    follows: Callable[[Answers, str], bool]
    """Return whether the result on the node is the one that a stopped unit causes. Any other result has another cause."""


def _lacks_configuration(answers: Answers, node: str) -> bool:
    """Return whether a node has no slurm.conf: the command ran and found no file. A single missing or unreadable file has another cause."""
    raw = answers.raw(CONFIGURATION, node)
    return not raw.error and raw.rc == 0 and not raw.out.strip()


def _finds_no_controller(answers: Answers, node: str) -> bool:
    """Return whether scontrol has no configuration that names the controller. scontrol then queries DNS, which may exceed the time limit.

    The message is the one of slurm_conf_init (Slurm 20.02 to 25.05, src/common/read_config.c).
    """
    raw = answers.raw(PING, node)
    refused = raw.rc == 1 and "Could not establish a configuration source" in raw.err + raw.out
    return _lacks_configuration(answers, node) and (refused or raw.starved_seconds is not None)


DEPENDENCIES: Final[Mapping[Probe[Any], Dependency]] = {
    # A configless slurmd fetches the files into /run/slurm, which systemd removes with the unit (slurmd.service, RuntimeDirectory=slurm).
    CONFIGURATION: Dependency(NODE_DAEMON, _lacks_configuration),
    PING: Dependency(NODE_DAEMON, _finds_no_controller),
}


def cause_of(
    probe: Probe[Any], node: str, answers: Answers, declared: Inventory, reports: Callable[[str, str], bool]
) -> DaemonDownError | None:
    """Return the daemon that is known to be down and explains why a probe has no result on a node; None for every other cause.

    `reports` returns whether the run includes the result of a check on a node. Without the check on the daemon, the result stays unknown.
    """
    if _waits(answers.raw(probe, node), probe):
        for unit, where in needed(probe, node, declared):
            state = _state(answers, where, unit)
            if state in SUSPENDED and reports(CHECKS[unit], where):
                return _down(unit, state, where)
    one = DEPENDENCIES.get(probe)
    if one is None or not reports(CHECKS[one.unit], node):
        return None
    state = _state(answers, node, one.unit)
    return _down(one.unit, state, node) if state not in ("", "active") and one.follows(answers, node) else None


def _waits(raw: CommandOutput, probe: Probe[Any]) -> bool:
    """Return whether a command was not run, exceeded its time limit, or gave up. A suspended daemon causes all three."""
    gave_up = not raw.error and raw.rc not in (*probe.statuses, *_CANNOT_RUN)
    return bool(raw.waits_for) or raw.starved_seconds is not None or gave_up


def needed(probe: Probe[Any], node: str, declared: Inventory) -> Iterator[tuple[str, str]]:
    """Yield the units that a probe needs, with their nodes."""
    yield from ((unit, node) for unit in probe.needs)
    yield from ((unit, where) for unit, group in ELSEWHERE.get(probe, {}).items() for where in declared.members(group))


def _state(answers: Answers, node: str, unit: str) -> str:
    """Return the state of a unit; empty where it is not known."""
    try:
        state = answers.answer(UNITS, node)[unit].state
    except UndeterminedError:
        return ""
    return state if isinstance(state, str) else ""


def _down(unit: str, state: str, node: str) -> DaemonDownError:
    """Return the cause; its text names the result that reports it, so that the report can require that result."""
    return DaemonDownError(f"{unit} is {state} on {node}: {CHECKS[unit]}[{node}]")


class SuspendedUnits:
    """Suspended units of all nodes, updated with each result. A run does not wait for a probe that needs a suspended unit."""

    source = UNITS.name

    def __init__(self, declared: Inventory) -> None:
        self._declared = declared
        self._found: set[tuple[str, str]] = set()

    def record(self, node: str, question: str, answer: CommandOutput) -> None:
        """Record the suspended units in a result of the probe of units."""
        if question != self.source:
            return
        try:
            units = UNITS.read(answer)
        except UndeterminedError:
            return
        self._found |= {(name, node) for name, unit in units.items() if isinstance(unit.state, str) and unit.state in SUSPENDED}

    def blocking_unit(self, node: str, question: str) -> str:
        """Return the suspended unit, with its node, that a probe on a node waits for; empty where there is none."""
        if question not in PROBES:
            return ""
        return next(
            (f"{unit} on {where}" for unit, where in needed(PROBES[question], node, self._declared) if (unit, where) in self._found), ""
        )
