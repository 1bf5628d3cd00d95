"""Comparison of each node's undeclared state with a baseline that was recorded when the node was in a known good state."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rackwright.drift.difference import CLUSTER, Category, DriftItem, Layer
from rackwright.drift.document import DriftReport
from rackwright.drift.history import DriftRecord
from rackwright.drift.host_baseline import baseline
from rackwright.drift.host_baseline.boots import boot_difference, with_boots, without_boot
from rackwright.drift.host_baseline.compare import Kinds, differences, identity_difference
from rackwright.drivers import remote_exec, ssh_connections
from rackwright.drivers.power import PowerSavingNodes, wake_nodes
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack

_TROUBLE = "error"
_NO_ANSWER: Final = "TimeoutError: no answer within"
"""Words of a node for a file system that did not respond (rackwright.remote.programs.limited_reader)."""
_REACH: Final = 10.0
"""Timeout in seconds for connecting to a node."""
_SECOND_ATTEMPT: Final = 3 * remote_exec.LONGEST
"""Time limit in seconds of a node that was late while playbooks and checks ran on it: four emulated machines on two cores took longer than
the first limit then, and 17 s afterwards (`rackwright drift lab-vm`)."""

SIMULATED_FABRIC: Final = range(7071, 7081)
"""UDP ports of the simulated fabric (roles/fabric, ibsim's data ports). They open and close with each client."""


@dataclass(frozen=True, slots=True)
class BaselineStates:
    """The collected state of nodes, and the reasons why it is missing or incomplete on others."""

    nodes: Mapping[str, Kinds] = field(default_factory=dict)
    unreachable: tuple[tuple[str, str], ...] = ()
    late: tuple[str, ...] = ()
    """Nodes that exceeded the time limit."""

    def completed_by(self, second: BaselineStates) -> BaselineStates:
        """Return the result with what a second attempt found on the nodes that were late."""
        kept = tuple(one for one in self.unreachable if one[0] not in self.late)
        return BaselineStates({**self.nodes, **second.nodes}, kept + second.unreachable, second.late)


async def empty(first: BaselineStates | None = None) -> BaselineStates:
    """Return an empty result, for stacks with `drift.host_baseline: false`."""
    return first or BaselineStates()


async def collect(running: RunningStack, first: BaselineStates | None = None) -> BaselineStates:
    """Collect the state of every node that is `in`, in parallel, over existing SSH connections, with the nodes powered on.

    `first`: the result of a first attempt, to be completed by the nodes that were late in it, with more time.
    """
    names = running.inventory.nodes if first is None else first.late
    limit = remote_exec.LONGEST if first is None else _SECOND_ATTEMPT
    stack, declared = running.name, running.inventory
    async with wake_nodes(stack, PowerSavingNodes.of(declared.cluster["scheduler"])):
        lost = await ssh_connections.connect_all(stack, names, within=_REACH)
        there = [name for name in names if name not in lost]
        sudo = {name: declared.needs_sudo(name) for name in there}
        requests: dict[str, dict[str, str]] = {name: {} for name in there}
        states, failed = await remote_exec.run_on_nodes(stack, "host_baseline", requests, sudo, target=declared.target, limit=limit)
    unknown = [(name, f"cannot collect its state: {why}") for name, why in {**lost, **failed}.items()]
    unknown += [(name, f"cannot read {kind}: {why}") for name, found in states.items() for kind, why in found[_TROUBLE].items()]
    passing = SIMULATED_FABRIC if "fabric" in declared.simulated else range(0)
    moving = declared.cluster["scheduler"].get("virtual_address")
    controllers = {name for name, node in declared.nodes.items() if "controller" in node["roles"]}
    kept: dict[str, Kinds] = {
        name: without_transient(found, passing, moving if name in controllers else None) for name, found in states.items()
    }
    kept = {name: without_boot(found) if _are_boots_ignored(declared, name) else found for name, found in kept.items()}
    found = BaselineStates(kept, tuple(unknown), tuple(name for name, why in failed.items() if remote_exec.is_late(why)))
    return found if first is None else first.completed_by(found)


def without_transient(state: Kinds, passing: Collection[int], moving: str | None = None) -> dict[str, dict[str, str]]:
    """Return a node's state by kind, without what changes during normal operation.

    passing: UDP ports that open and close. moving: the address that keepalived moves between controllers.
    """
    ports = {f"udp 0.0.0.0 {port}" for port in passing}
    return {
        kind: {name: what for name, what in part.items() if name not in ports and not (kind == "addresses" and _has(name, moving))}
        for kind, part in state.items()
        if kind != _TROUBLE
    }


def _are_boots_ignored(declared: Inventory, node: str) -> bool:
    """Return whether boots of a node are no differences: containers have that of their machine, and power saving boots nodes."""
    saving = PowerSavingNodes.of(declared.cluster["scheduler"], [node])
    return declared.target == "lab" or saving is not None


def _has(name: str, moving: str | None) -> bool:
    """Return whether an entry `link address/prefix` has the address."""
    return moving is not None and name.rpartition(" ")[2].partition("/")[0] == moving


def compare_with_baseline(found: DriftReport, now: BaselineStates, past: Iterable[DriftRecord], *, update: bool) -> DriftReport:
    """Return the scan with each node's differences from its baseline added. With `update`, take the current state as the new baseline."""
    file = paths.host_baseline(found.stack)
    saved = baseline.Baseline("") if update else baseline.read(file)
    still = {(one.difference.node, one.difference.subject) for one in past if one.resolved is None}
    well = set(now.nodes) if update else _healthy(found, now.nodes)
    applied = _applied(found.stack)
    renamed = {name: ids for name, kinds in now.nodes.items() if (ids := saved.renamed(applied, name, kinds, still))}
    reboots = [] if applied != saved.applied else list(_reboots(found.stack, saved, now))
    saved = with_boots(saved.renewed(applied, now.nodes, well, still), now.nodes)
    baseline.write(saved, file)
    # A machine id that somebody changed must not hide what else differs on the node.
    compared = {name: saved.nodes[name] if name in renamed else saved.of(name, kinds) for name, kinds in now.nodes.items()}
    further = [one for name, was in compared.items() if was for one in differences(found.stack, name, was, now.nodes[name])]
    further += [identity_difference(found.stack, name, *ids) for name, ids in renamed.items()] + reboots
    late = tuple(one for one in now.unreachable if found.names_suspended_daemon and _NO_ANSWER in one[1])
    unreachable = tuple(one for one in now.unreachable if one not in late)
    return found.with_layers(
        replace(
            scan,
            differences=(*scan.differences, *_unexplained(found, further)),
            unknown=_unique((*scan.unknown, *unreachable)),
            incomplete=_unique((*scan.incomplete, *late)),
        )
        if scan.layer is Layer.BEHAVIOUR
        else scan
        for scan in found.layers
    )


def _reboots(stack: str, saved: baseline.Baseline, now: BaselineStates) -> Iterator[DriftItem]:
    """Yield the reboots since the last scan. An `up` that changed something may have started nodes again."""
    for name, kinds in now.nodes.items():
        if (was := saved.of(name, kinds)) and (found := boot_difference(stack, name, was, kinds)):
            yield found


def _healthy(found: DriftReport, names: Iterable[str]) -> set[str]:
    """Return the nodes that were scanned completely and have no unexpected differences."""
    bad = {node for _, node, _ in found.unknown} | {node for scan in found.layers for node, _ in scan.incomplete}
    bad |= {one.node for one in found.differences if one.category is not Category.EXPECTED}
    return set() if found.missing or any(node == CLUSTER for _, node, _ in found.unknown) else set(names) - bad


def _unexplained(found: DriftReport, further: Iterable[DriftItem]) -> list[DriftItem]:
    """Return the differences without the files that a playbook would rewrite: the configuration layer reports them in more detail."""
    phases = [one for one in found.differences if one.layer is Layer.CONFIGURATION]
    written = {(one.node, path) for one in phases for path in one.managed_paths}
    return [one for one in further if (one.node, one.subject.rpartition(" ")[2]) not in written]


def _unique(unknown: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(unknown))


def _applied(stack: str) -> str:
    """Return a token that changes with every `up` that applies a change, or an empty string before the first one."""
    file = paths.applied(stack)
    if not file.exists():
        return ""
    return hashlib.sha256(f"{file.stat().st_mtime_ns} {file.read_text(encoding='utf-8')}".encode()).hexdigest()[:16]
