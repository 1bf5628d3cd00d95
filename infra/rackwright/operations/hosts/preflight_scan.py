"""Preflight scan of a stack's machines: query every machine and compare it with the stack file. Changes no machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rackwright.drivers.host_facts import Declared
from rackwright.drivers.preflight import PreflightRequest, PreflightResult, run_preflight
from rackwright.drivers.ssh_login import ConnectBudget, SshRoute
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.inventory.host import ssh_sources
from rackwright.model.targets.hosts import HostsTarget, Machine, MachineType
from rackwright.operations.stack import load_and_validate
from rackwright.plan import Plan, PlanNode, expand
from rackwright.stackfile.load import find_stack_file

_SHARE = 3
"""Ratio of the time for a machine that is adopted to that for one that is only read. Chosen: a scan also lists machines that are off."""
_MISSING_YET = frozenset({"machine-key-missing", "capacity-undeclared"})
"""Rules that a stack file may violate before its machines are scanned."""


@dataclass(frozen=True, slots=True)
class HostScan:
    """The machines of a stack that are not `out`, in the order of its nodes."""

    file: Path
    plan: Plan
    machines: tuple[PreflightResult, ...]


def scan_machines(name_or_path: str) -> HostScan:
    """Query every machine of a stack that is not `out`, and compare it with the stack file.

    Missing host keys and undeclared capacities are accepted. Raises InputError for other errors of the stack file and for another target.
    """
    file, plan = _planned(name_or_path)
    own = paths.ssh_private_key_file(plan.stack)
    target = _target(plan)
    # The stack's own key first, as `up` does.
    keys = [*([own] if own.exists() else []), *([Path(target.ssh_private_key_file)] if target.ssh_private_key_file else [])]
    via = _route(plan, target.jump_host) if target.jump_host else None
    requests = [PreflightRequest(_route(plan, node.name), declared(plan, node)) for node in plan.nodes if node.is_in]
    budget = ConnectBudget(target.connect_timeout / _SHARE)
    return HostScan(file, plan, tuple(run_preflight(requests, keys, via=via, adopted=own.exists(), budget=budget)))


def machine(plan: Plan, name: str) -> Machine:
    """Return a machine as declared in the stack file."""
    return _target(plan).machine_by_node[name]


def port(plan: Plan, name: str) -> int:
    """Return the SSH port of a machine for connections from this machine."""
    return _target(plan).port_of(name)


def declared(plan: Plan, node: PlanNode) -> Declared:
    """Return the declared properties of a node's machine."""
    gpus = node.gpus.count if node.gpus else 0
    in_container = _target(plan).machine_type is MachineType.SYSTEM_CONTAINER
    return Declared(
        node.os,
        node.cpus,
        node.memory_mib,
        gpus,
        in_container,
        machine(plan, node.name).serial,
        node.ssh_port,
        ssh_sources(plan, node.name),
    )


def _planned(name_or_path: str) -> tuple[Path, Plan]:
    judged = load_and_validate(name_or_path)
    errors = [finding for finding in judged.findings if finding.is_error and finding.rule not in _MISSING_YET]
    if errors or judged.loaded.cluster is None:
        raise InputError("\n".join(map(str, errors)))
    if not isinstance(judged.loaded.cluster.target, HostsTarget):
        raise InputError(
            f"target {judged.loaded.cluster.target.kind} creates its own nodes (expected target hosts)",
            path=f"stack {judged.loaded.stack}",
        )
    return find_stack_file(name_or_path, paths.stacks()), expand(judged.loaded.cluster, judged.loaded.stack)


def _target(plan: Plan) -> HostsTarget:
    assert isinstance(plan.target, HostsTarget)
    return plan.target


def _route(plan: Plan, name: str) -> SshRoute:
    known, node = machine(plan, name), plan.node(name)
    return SshRoute(name, known.ssh_address or node.address, _target(plan).port_of(name), node.user, known.host_key or "")
