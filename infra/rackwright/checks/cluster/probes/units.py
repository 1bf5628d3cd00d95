"""Probe of the daemons that a node needs, all in one call: systemd units and static pods."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, Row, UnreadableValue, is_cut, quoted

MUNGE: Final = "munge.service"
FIREWALL: Final = "nftables.service"
CONTROLLER: Final = "slurmctld.service"
NODE_DAEMON: Final = "slurmd.service"
ACCOUNTING: Final = "slurmdbd.service"
DATABASE: Final = "mariadb.service"
FABRIC_MANAGER: Final = "nvidia-fabricmanager.service"
KUBELET: Final = "kubelet.service"
CONTAINERD: Final = "containerd.service"
KEEPALIVED: Final = "keepalived.service"
LOGIN_DAEMON: Final = "sackd.service"
STATIC_PODS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Static pods of a controller, by the names of their programs and manifests (kubeadm)."""
ETCD: Final = "etcd.pod"
API_SERVER: Final = "kube-apiserver.pod"
"""Static pods have the form of units in the answer of a node, and names that end in `.pod`."""
PROMETHEUS: Final = "prometheus.service"
ALERTMANAGER: Final = "prometheus-alertmanager.service"
NODE_EXPORTER: Final = "prometheus-node-exporter.service"
ACTIONS_RUNNER: Final = "actions-runner.service"
METADATA_SERVER: Final = "moosefs-master.service"
SSH_SERVERS: Final = ("ssh.service", "sshd.service")
"""Names of sshd's unit on Debian and on Rocky Linux. On Debian the second may be an alias."""


def name_of(unit: str) -> str:
    """Return the name of a unit or static pod in a message.

    >>> name_of("etcd.pod"), name_of("munge.service")
    ('static pod etcd', 'munge.service')
    """
    return f"static pod {unit[:-4]}" if unit.endswith(".pod") else unit


def servers_of(storage: Mapping[str, Any], node: str) -> tuple[str, ...]:
    """Return the units that serve a storage on a node. The first server of MooseFS holds the metadata, and all hold data."""
    if node not in storage["servers"]:
        return ()
    if storage["kind"] == "nfs":
        return ("nfs-server.service",)
    return (*((METADATA_SERVER,) if node == storage["servers"][0] else ()), "moosefs-chunkserver.service")


BY_SIGNAL: Final = "suspended by a signal"
BY_DEBUGGER: Final = "suspended by a debugger"
FROZEN: Final = "frozen"
SUSPENDED: Final = frozenset({BY_SIGNAL, BY_DEBUGGER, FROZEN})
"""States of a unit whose processes exist but are suspended: proc(5), /proc/pid/stat, T and t; systemctl(1), freeze."""


@dataclass(frozen=True)
class Unit:
    """State of one unit in systemd."""

    state: str | UnreadableValue
    """`active`, `failed`, `inactive` or, in its place, why the unit cannot start: `masked`, `bad-setting`, `error`; `not-found` where there
    is no such unit; or one of SUSPENDED, which systemd reports as active."""
    enabled: bool | UnreadableValue

    @property
    def described(self) -> str:
        """Return the text of a result."""
        return f"{self.state}, {'starts' if self.enabled else 'does not start'} with the node"


_ENABLED: Final = frozenset({"enabled", "static", "indirect", "alias", "generated"})
"""States of a unit file that systemctl(1), is-enabled, counts as enabled, without those in /run, which the next boot has not: transient
and `-runtime`."""
_RUNNING: Final = {"reloading": "active", "refreshing": "active"}
"""States of a unit that runs while it reads its configuration, or updates its mounts (systemd 256): org.freedesktop.systemd1(5)."""
_UNUSABLE: Final = frozenset({"masked", "bad-setting", "error"})
"""Load states for which systemd starts no unit. They are the reason why an inactive one does not run: systemctl(1)."""


def parse_units(text: str) -> Lines[Unit]:
    """Return units by name from blocks of `systemctl show`, separated by empty lines, with keys in any order."""
    units: dict[str, Unit] = {}
    unread: list[str] = []
    plain = text.replace("\r\n", "\n")
    blocks = re.split(r"\n\s*\n", plain.strip())
    if is_cut(plain):
        unread.append(blocks.pop())  # the state of the process is the last line of a block
    for block in blocks:
        pairs = [line.split("=", 1) for line in block.splitlines() if "=" in line]
        values = dict(pairs)
        if any(values[key] != value for key, value in pairs):
            unread.append(block)  # properties of two units, or of one unit twice with different values
        elif re.fullmatch(r"[\w@.\\:-]+\.[a-z]+", values.get("Id", "")):
            units[values["Id"]] = _unit(Row(values["Id"], values, block.replace("\n", " ")))
        else:
            unread.append(block)
    if not units:
        raise ValueError(f'no unit: "{quoted(text)}"')
    return Lines(units, unread)


def _unit(row: Row) -> Unit:
    load, state = row.read("LoadState", _word), row.read("ActiveState", _word)
    file_state = row.cells.get("UnitFileState")  # empty for a unit that does not exist
    enabled: bool | UnreadableValue = row.unread("UnitFileState")
    if file_state is not None and re.fullmatch(r"[a-z-]*", file_state) and file_state != "bad":
        enabled = file_state in _ENABLED
    if isinstance(state, str):
        state = str(load) if state == "inactive" and load in _UNUSABLE else _RUNNING.get(state, state)
    state = _suspension(row.cells) or state
    if row.cells.get("MainPID", "0") != "0" and "ProcessState" not in row.cells:
        state = row.unread("ProcessState")  # the last line of a block; without it, a suspended process would count as running
    return Unit("not-found" if load == "not-found" else state, enabled) if isinstance(load, str) else Unit(load, enabled)


def _suspension(cells: Mapping[str, str]) -> str:
    """Return why the processes of a unit are suspended; empty where they run, or where systemd has no freezer (before version 246)."""
    if cells.get("FreezerState") == "frozen":
        return FROZEN
    return {"T": BY_SIGNAL, "t": BY_DEBUGGER}.get(cells.get("ProcessState", ""), "")


def _word(cell: str) -> str:
    if not re.fullmatch(r"[a-z][a-z-]*", cell):
        raise ValueError(f'"{cell}" is not a state')
    return cell


def units_of(context: ProbeContext) -> list[str]:
    """Return the units that a node needs for its roles."""
    node, members = context.node, context.declared.groups
    name = node["name"]
    by_group = {
        "slurm": (MUNGE,),
        "role_controller": (CONTROLLER,),
        "role_worker": (NODE_DAEMON,),
        "@sackd": (LOGIN_DAEMON,),
        "role_accounting": (ACCOUNTING, DATABASE),
        "nvswitch": (FABRIC_MANAGER,),
        "kubernetes": (CONTAINERD, KUBELET),
        "monitoring_server": (PROMETHEUS, ALERTMANAGER),
        "monitoring_node": (NODE_EXPORTER,),
        "role_runner": (ACTIONS_RUNNER,),
    }
    if (context.declared.cluster.get("scheduler") or {}).get("virtual_address"):
        by_group["kube_control_plane"] = (KEEPALIVED,)
    needed = [unit for group, units in by_group.items() if name in members.get(group, ()) for unit in units]
    servers = [unit for one in context.declared.cluster.get("storage") or () for unit in servers_of(one, name)]
    return [FIREWALL, *SSH_SERVERS, *needed, *servers]


def pods_of(context: ProbeContext) -> list[str]:
    """Return the static pods that a node runs: those of kubeadm on a controller, which have no unit."""
    return list(STATIC_PODS) if context.node["name"] in context.declared.groups.get("kube_control_plane", ()) else []


def _units_command(context: ProbeContext) -> str:
    from rackwright.remote.command import python_command  # the health check on a node has no such module, and no such question

    return python_command("daemon_states", {"units": units_of(context), "pods": pods_of(context), "report": "blocks"})


UNITS = Probe("units", on="nodes", command=_units_command, parse=parse_units)


def parse_suspended(text: str) -> dict[str, str]:
    """Return the state of each suspended unit from one line of JSON.

    >>> parse_suspended('{"suspended": {"chrony.service": "frozen"}}')
    {'chrony.service': 'frozen'}
    """
    found: dict[str, str] = json.loads(text)["suspended"]
    if not set(found.values()) <= SUSPENDED:
        raise ValueError("an unknown state")
    return found


def _suspended_command(context: ProbeContext) -> str:
    from rackwright.remote.command import python_command  # as above

    return python_command("daemon_states", {"units": ["*.service"], "report": "suspended"})


SUSPENDED_UNITS = Probe("suspended-units", on="nodes", command=_suspended_command, parse=parse_suspended)
