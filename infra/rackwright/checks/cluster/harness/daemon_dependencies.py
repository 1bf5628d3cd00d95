"""Daemons that probes depend on. The missing output of a probe is attributed to the finding on the daemon that is down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rackwright.checks.cluster.harness.compare import Mismatch
from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput, DaemonDownError, Probe
from rackwright.checks.cluster.harness.tool_output import is_without_answer
from rackwright.checks.cluster.probes.accounting import CLUSTERS
from rackwright.checks.cluster.probes.accounts import ACCOUNTS
from rackwright.checks.cluster.probes.slurm import CONFIGURATION, PING
from rackwright.checks.cluster.probes.storage import ANSWERING, ROOTS
from rackwright.checks.cluster.probes.storage_usage import USAGE
from rackwright.checks.cluster.probes.units import (
    ACCOUNTING,
    ALERTMANAGER,
    API_SERVER,
    CONTAINERD,
    CONTROLLER,
    DATABASE,
    ETCD,
    KUBELET,
    METADATA_SERVER,
    MUNGE,
    NODE_DAEMON,
    NODE_EXPORTER,
    PROMETHEUS,
    SSH_SERVERS,
    SUSPENDED,
    UNITS,
    name_of,
)
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory

CHECKS: Final[Mapping[str, str]] = {
    MUNGE: "munge.service_runs",
    CONTROLLER: "slurm.controller_runs",
    NODE_DAEMON: "slurm.node_daemon_runs",
    ACCOUNTING: "accounting.daemon_runs",
    DATABASE: "accounting.database_runs",
    **dict.fromkeys(SSH_SERVERS, "sshd.daemon_responds"),
    METADATA_SERVER: "storage.servers_run",
    KUBELET: "kubelet.runs",
    CONTAINERD: "containerd.runs",
    ETCD: "control_plane.static_pods_run",
    API_SERVER: "control_plane.static_pods_run",
    PROMETHEUS: "monitoring.daemons_run",
    ALERTMANAGER: "monitoring.daemons_run",
    NODE_EXPORTER: "monitoring.exporter_runs",
}
"""Key of the check that reports a daemon on its node."""
ELSEWHERE: Final[Mapping[Probe[Any], Mapping[str, str]]] = {
    PING: {CONTROLLER: "role_controller", MUNGE: "role_controller"},
    CLUSTERS: {ACCOUNTING: "role_accounting", DATABASE: "role_accounting", MUNGE: "role_accounting"},
}
"""Units of other nodes that a command waits for, with the group of those nodes."""
ON_STORAGE: Final[frozenset[Probe[Any]]] = frozenset({ROOTS, USAGE, ANSWERING, ACCOUNTS})
"""Probes whose commands read files of a shared file system; that of accounts reads the owners of homes."""
_OF_API: Final[Mapping[str, str]] = {API_SERVER: "kube_control_plane", ETCD: "kube_control_plane"}
_OF_KUBELET: Final[Mapping[str, str]] = {KUBELET: "", CONTAINERD: ""}
REQUESTS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(("kubernetes.api_reachable", "kubernetes.services_reachable", "control_plane.anonymous_requests_refused"), _OF_API),
    **dict.fromkeys(("kubelet.healthy", "kubelet.anonymous_requests_refused", "kubelet.runs_its_configuration"), _OF_KUBELET),
    "storage.answers": {METADATA_SERVER: "role_storage"},
    **dict.fromkeys(("kubelet.authentication_enabled", "containerd.cgroup_driver_is_the_kubelets"), _OF_KUBELET),
    "kubernetes.no_node_pressure": {KUBELET: ""},
}
"""Checks that one of several requests of a probe decides: the daemons that serve it, with their group; empty: the same node."""
_SERVER_FAILED: Final = re.compile(
    r"^status 5\d\d\b|reset by peer|closed connection without response|UNEXPECTED_EOF|EOF occurred", re.IGNORECASE
)
"""Results of a request whose server failed: `/readyz` of an API server without etcd has status 500, and the kubelet kills and replaces a
static pod whose liveness probe fails, which ends its connections (RFC 9110, 15.6; errno(3), ECONNRESET; Python's http.client and ssl)."""
_STATUS_EXPIRED: Final = re.compile(r"\bNodeStatusUnknown\b")
"""Reason of conditions that the kubelet did not renew for 50 s (kube-controller-manager(1), --node-monitor-grace-period)."""
_REFUSED: Final = re.compile(r"^refused$|connection refused", re.IGNORECASE)
"""A request to a port without a listener, in the words of remote/programs/kubelet.py and of Go (connect(2), ECONNREFUSED)."""
DOWN: Final = frozenset({"inactive", "failed", "not-found"})
"""States of a unit without a process, in which its clients fail at once. One of the two names of sshd's unit is always `not-found`."""
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
    raw = answers.raw(probe, node)
    for unit, where in needed(probe, node, declared):
        state = _state(answers, where, unit) if _waits(raw, probe) else ""
        is_down = state in DOWN and unit not in SSH_SERVERS and _gave_up(raw, probe)
        if (state in SUSPENDED or is_down) and reports(CHECKS[unit], where):
            return _down(unit, state, where)
    one = DEPENDENCIES.get(probe)
    if one is None or not reports(CHECKS[one.unit], node):
        return None
    state = _state(answers, node, one.unit)
    return _down(one.unit, state, node) if state not in ("", "active") and one.follows(answers, node) else None


def cause_of_failed_request(
    key: str, node: str, error: Exception, answers: Answers, declared: Inventory, reports: Callable[[str, str], bool]
) -> DaemonDownError | None:
    """Return the daemon that is down and explains why a check's own request has no result; None for every other error.

    A suspended daemon lets requests time out, or lets the server that needs it fail; then each differing value is such a failure. A
    kubelet that is stopped refuses connections, and no kubelet renews the status of its node meanwhile.
    """
    found = error.differing if isinstance(error, Mismatch) else (str(error),)
    for unit, group in REQUESTS.get(key, {}).items():
        for where in declared.members(group) if group else (node,):
            state = _state(answers, where, unit)
            if _explains(unit, state, found, isinstance(error, Mismatch)) and reports(CHECKS[unit], where):
                return _down(unit, state, where)
    return None


def _explains(unit: str, state: str, found: tuple[Any, ...], differs: bool) -> bool:
    """Return whether a unit in this state causes all results that were found, which are values that differ from the plan or errors."""
    texts = [one for one in found if isinstance(one, str)]
    if not texts or len(texts) < len(found):
        return False
    if unit == KUBELET and state in DOWN:
        return all(_STATUS_EXPIRED.search(one) or _REFUSED.search(one) for one in texts)
    if state not in SUSPENDED:
        return False
    if differs:
        return all(_SERVER_FAILED.search(one) for one in texts)
    return all(_STATUS_EXPIRED.search(one) or is_without_answer(one) for one in texts)


def _waits(raw: CommandOutput, probe: Probe[Any]) -> bool:
    """Return whether a command was not run, exceeded its time limit, or gave up. A suspended daemon causes all three."""
    return bool(raw.waits_for) or raw.starved_seconds is not None or _gave_up(raw, probe)


def _gave_up(raw: CommandOutput, probe: Probe[Any]) -> bool:
    """Return whether a command ran and ended with an error, as it does at once where the daemon does not exist."""
    return not raw.error and raw.rc not in (*probe.statuses, *_CANNOT_RUN)


def needed(probe: Probe[Any], node: str, declared: Inventory) -> Iterator[tuple[str, str]]:
    """Yield the units that a probe needs, with their nodes."""
    yield from ((unit, node) for unit in probe.needs)
    yield from ((unit, where) for unit, group in ELSEWHERE.get(probe, {}).items() for where in declared.members(group))
    if probe in ON_STORAGE:
        for one in declared.cluster.get("storage") or ():
            if one["kind"] == "moosefs" and node in one["clients"]:
                yield METADATA_SERVER, one["servers"][0]


def _state(answers: Answers, node: str, unit: str) -> str:
    """Return the state of a unit; empty where it is not known."""
    try:
        state = answers.answer(UNITS, node)[unit].state
    except UndeterminedError:
        return ""
    return state if isinstance(state, str) else ""


def _down(unit: str, state: str, node: str) -> DaemonDownError:
    """Return the cause; its text names the result that reports it, so that the report can require that result."""
    return DaemonDownError(f"{name_of(unit)} is {state} on {node}: {CHECKS[unit]}[{node}]")


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
        units = needed(PROBES[question], node, self._declared)
        return next((f"{name_of(unit)} on {where}" for unit, where in units if (unit, where) in self._found), "")
