"""Daemons that answers of nodes depend on: an answer that is missing because a daemon is down follows from the finding on that daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cluster.harness.probe import DaemonDown, Probe, Raw
from cluster.probes.slurm import CONFIGURATION, PING
from cluster.probes.units import NODE_DAEMON, UNITS
from rackwright.errors import UndeterminedError


class Answers(Protocol):
    """The answers of a run: as they came, and as data."""

    def raw(self, probe: Probe[Any], node: str) -> Raw:
        """The answer as it came."""

    def answer(self, probe: Probe[Any], node: str) -> Any:
        """The answer as data; raises UndeterminedError where there is none."""


@dataclass(frozen=True)
class Dependency:
    """A unit of the same node without which a probe has no answer."""

    unit: str
    check: str
    """Key of the check that reports the unit."""
    follows: Callable[[Answers, str], bool]
    """Whether the node's answer is the one that the unit's absence causes. Any other answer has another cause."""


def _lacks_configuration(answers: Answers, node: str) -> bool:
    """Return whether a node has no slurm.conf: the command ran and found no file. A single missing or unreadable file is another cause."""
    raw = answers.raw(CONFIGURATION, node)
    return not raw.trouble and raw.rc == 0 and not raw.out.strip()


def _finds_no_controller(answers: Answers, node: str) -> bool:
    """Return whether scontrol has no configuration that names the controller. It then asks DNS, which may exceed the time limit.

    The message is the one of slurm_conf_init (Slurm 20.02 to 25.05, src/common/read_config.c).
    """
    raw = answers.raw(PING, node)
    refused = raw.rc == 1 and "Could not establish a configuration source" in raw.err + raw.out
    return _lacks_configuration(answers, node) and (refused or raw.lacked is not None)


DEPENDENCIES: Final[Mapping[Probe[Any], Dependency]] = {
    # A configless slurmd fetches the files into /run/slurm, which systemd removes with the unit (slurmd.service, RuntimeDirectory=slurm).
    CONFIGURATION: Dependency(NODE_DAEMON, "slurm.node_daemon_runs", _lacks_configuration),
    PING: Dependency(NODE_DAEMON, "slurm.node_daemon_runs", _finds_no_controller),
}


def cause_of(probe: Probe[Any], node: str, answers: Answers, reports: Callable[[str, str], bool]) -> DaemonDown | None:
    """Return the daemon that is known to be down and explains why a node has no answer; None for every other cause.

    `reports`: whether the run includes the result of a check on a node. Without the check that names the daemon the answer stays unknown.
    """
    one = DEPENDENCIES.get(probe)
    if one is None or not reports(one.check, node):
        return None
    try:
        state = answers.answer(UNITS, node)[one.unit].state
    except UndeterminedError:
        return None
    if not isinstance(state, str) or state == "active" or not one.follows(answers, node):
        return None
    return DaemonDown(f"{one.unit} is {state} on {node}, which {one.check} reports")
