"""Daemons that read edited settings: restarted ones and reloaded ones.

The roles define a daemon's settings; `tests/roles/test_impact.py` compares this table with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rackwright.impact.nodes import replaced
from rackwright.impact.planned_change import Action, PlannedChange, Transition, named
from rackwright.model.groups import Role
from rackwright.model.update_policy import UpdatePolicy
from rackwright.plan.fabric import netlist
from rackwright.plan.schema import Plan, PlanNode
from rackwright.plan.slurm.schema import Slurm

_RESTARTED_ON_EVERY_CHANGE: Final = ("debian-12", "ubuntu-22.04", "rocky-9")
"""Releases whose slurmctld cannot reload a changed list of nodes (roles/slurm_controller, `_slurm_controller_reloads`)."""
_SLURMD_RESTARTED: Final = ("debian-12", "ubuntu-22.04", "ubuntu-24.04")
"""Releases whose slurmd reads the controller's configuration only at its start (roles/slurm_worker, `_slurm_worker_is_old`)."""
_WITHOUT_SACKD: Final = (*_SLURMD_RESTARTED, "rocky-9")
_CAUSES: Final = (UpdatePolicy.RESTART, UpdatePolicy.MEMBERS, UpdatePolicy.REPLACE, UpdatePolicy.ADOPT, UpdatePolicy.RECABLE)


@dataclass(frozen=True)
class Daemon:
    """Settings with which a daemon on a node was, or will be, started."""

    facts: Any
    reads: tuple[tuple[str, ...], ...]
    """Fields it depends on."""
    reloads: bool = False


def consequences(step: Transition) -> Iterator[PlannedChange]:
    """Yield reloads and restarts on nodes that are not replaced."""
    before, after, anew = daemons(step.old.plan), daemons(step.new.plan), replaced(step)
    stay = {new.name: new for old, new in step.stay if old.is_in and new.is_in and new.name not in anew}
    changed = [key for key in after if key in before and before[key].facts != after[key].facts and key[1] in stay]
    rows = {(name, node): (_verb(after[name, node]), _why(step, after[name, node], stay[node])) for name, node in changed}
    for (action, why), services in _by_cause(rows).items():
        for names, nodes in services.items():
            words = f"{action.value}s {' and '.join(names)} on {named(nodes)}"
            yield PlannedChange(action, tuple(nodes), why, words)


def _by_cause(
    rows: dict[tuple[str, str], tuple[Action, tuple[str, ...]]],
) -> dict[tuple[Action, tuple[str, ...]], dict[tuple[str, ...], list[str]]]:
    """Return (action, why) -> daemons -> nodes: nodes with the same daemons share a message, and so do daemons of a node."""
    on_node: dict[tuple[Action, tuple[str, ...], str], list[str]] = {}
    for (name, node), (action, why) in rows.items():
        on_node.setdefault((action, why, node), []).append(name)
    found: dict[tuple[Action, tuple[str, ...]], dict[tuple[str, ...], list[str]]] = {}
    for (action, why, node), names in on_node.items():
        found.setdefault((action, why), {}).setdefault(tuple(names), []).append(node)
    return found


def _verb(daemon: Daemon) -> Action:
    return Action.RELOAD if daemon.reloads else Action.RESTART


def _why(step: Transition, daemon: Daemon, node: PlanNode) -> tuple[str, ...]:
    """Return edits that the daemon reads. Slurm's configuration contains a group only through its workers and controllers."""
    scheduled = [
        found for plan in (step.old.plan, step.new.plan) for found in plan.nodes if {Role.WORKER, Role.CONTROLLER} & {*found.roles}
    ]
    return tuple(
        str(edit)
        for edit in step.edits
        if edit.change in _CAUSES
        and any(edit.within(*pattern) for pattern in daemon.reads)
        and (edit.path[0] not in ("groups", "nodes") or any(step.concerns(edit, found) for found in (*scheduled, node)))
    )


def daemons(plan: Plan) -> dict[tuple[str, str], Daemon]:
    """Return (daemon, node) -> its settings, for every daemon that can change without its node."""
    return {(name, node): daemon for name, node, daemon in (*_slurm(plan), *_accounting(plan), *_storage(plan), *_fabric(plan))}


_MEMBERS: Final = (("groups",), ("nodes",), ("target", "machines"))


def _slurm(plan: Plan) -> Iterator[tuple[str, str, Daemon]]:
    scheduler = plan.scheduler
    if scheduler.kind != "slurm":
        return
    configuration = _slurm_conf(plan, scheduler)
    reads = (*_MEMBERS, ("scheduler",), ("fabric",), ("network", "cidr"), ("target", "machine_type"))
    power = scheduler.power_saving is not None
    for node in plan.nodes:
        if not node.is_in:
            continue
        controls, works = Role.CONTROLLER in node.roles, Role.WORKER in node.roles
        servers = () if controls else scheduler.controllers
        awaits_gpus = node.gpus is not None and not node.gpus.simulated
        if controls:
            yield "slurmctld", node.name, Daemon(configuration, reads, reloads=node.os not in _RESTARTED_ON_EVERY_CHANGE)
        if works and node.os in _SLURMD_RESTARTED:
            yield "slurmd", node.name, Daemon((servers, power, awaits_gpus, configuration), reads)
        elif works:
            yield (
                "slurmd",
                node.name,
                Daemon((servers, power, awaits_gpus), (("scheduler", "power_saving"), ("scheduler", "backup_controllers"), ("groups",))),
            )
        if Role.LOGIN in node.roles and not controls and not works and node.os not in _WITHOUT_SACKD:
            yield "sackd", node.name, Daemon(servers, (("scheduler", "backup_controllers"), ("groups",)))


def _fabric(plan: Plan) -> Iterator[tuple[str, str, Daemon]]:
    """Yield the simulation, whose input is the whole wiring, and the subnet manager, which restarts with it or with a new adapter."""
    if plan.fabric is None or plan.fabric.server is None:
        return
    server = next(node for node in plan.nodes if node.name == plan.fabric.server)
    reads = (*_MEMBERS, ("fabric",))
    yield "rackwright-ibsim", server.name, Daemon(netlist(plan), reads)
    yield "rackwright-opensm", server.name, Daemon((server.address, server.rails[0]), reads)


def _slurm_conf(plan: Plan, said: Slurm) -> tuple[Any, ...]:
    """Return the settings in slurm.conf, gres.conf and cgroup.conf."""
    places = {node.name: node.address for node in plan.nodes}
    return (
        [(name, places[name]) for name in said.controllers],
        said.accounting,
        said.constrains,
        said.config_overrides,
        said.power_saving,
        said.topology,
        [(node, places[node.name]) for node in said.nodes],
        [queue.model_copy(update={"gres": ()}) for queue in said.partitions if queue.nodes],
        said.preemption,
        said.accounting is not None and bool(said.accounts or said.qos),
    )


def _accounting(plan: Plan) -> Iterator[tuple[str, str, Daemon]]:
    for node in plan.nodes:
        if node.is_in and Role.ACCOUNTING in node.roles:
            facts = _buffer_pool(node.memory_mib)
            yield "mariadb", node.name, Daemon(facts, (("groups", node.group, "memory"), ("nodes", node.name, "memory")))


def _buffer_pool(memory_mib: int) -> int:
    """Return the MiB that the accounting database keeps on a node (roles/slurmdbd, `slurmdbd_buffer_pool`)."""
    return max(64, min(max(memory_mib // 8, 512), memory_mib // 4, 4096))


def _storage(plan: Plan) -> Iterator[tuple[str, str, Daemon]]:
    for shared in plan.storage:
        if shared.kind != "moosefs" or shared.size_mib is None:
            continue
        reads = (("storage", shared.name), ("groups",), ("nodes",))
        for index, name in enumerate(shared.servers):
            share = shared.size_mib // len(shared.servers)
            yield "moosefs-chunkserver", name, Daemon((shared.name, shared.servers[0], share), reads)
            if index == 0:
                yield "moosefs-master", name, Daemon(plan.network.cidr, (("network", "cidr"),))
