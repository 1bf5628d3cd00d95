"""(plan, hosts) -> Ansible inventory, `rackwright.inventory/7`. Each host has one variable of its own, `node`: the plan's record."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.catalog.checks import checks
from rackwright.inventory import paths
from rackwright.inventory.alert_rules import rule_groups
from rackwright.inventory.host import Host
from rackwright.inventory.reader import SCHEMA
from rackwright.model.storage.exports import SYSTEMS_WITH_MOOSEFS
from rackwright.model.targets.adapters import Adapter
from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import Plan
from rackwright.plan.fabric import netlist, wiring
from rackwright.plan.fabric.rails import rail_interfaces
from rackwright.plan.fabric.slurm import domains_of
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.plan.monitoring.schema import MonitoringPlan
from rackwright.plan.schema import PlanNode
from rackwright.plan.slurm.schema import Slurm

_MOOSEFS: Final = ("moosefs_server", "moosefs_client")
_ALWAYS: Final = ("base", "volumes", "sshd", "firewall", "gpu", "fabric", *_MOOSEFS)
BAKED: Final[Mapping[str, tuple[str, ...]]] = {
    "slurm": (*_ALWAYS, "roce", "munge", "slurm_controller", "slurmdbd", "slurm_worker", "slurm_login"),
    "kubernetes": (*_ALWAYS, "containerd", "keepalived", "kubernetes", "kube_control_plane", "kubernetes_client"),
}
"""Roles whose install steps a prebuilt image contains, by its scheduler, if the system has their packages (`baked_roles`)."""


def baked_roles(scheduler: str, os: str) -> tuple[str, ...]:
    """Return the roles whose install steps the prebuilt image of a system contains."""
    left_out = () if SYSTEMS_WITH_MOOSEFS.match(os) else _MOOSEFS
    return tuple(role for role in BAKED[scheduler] if role not in left_out)


def inventory(
    plan: Plan,
    hosts: Mapping[str, Host],
    *,
    sources: Mapping[str, str] | None = None,
    preinstalled_roles: Iterable[str] | None = None,
    bundle: str | None = None,
    addons: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the inventory as Ansible reads it; nodes without a host are left out everywhere.

    `sources`: file system -> mount source of clients. `bundle`: folder of the Kubernetes bundle on this machine; `addons`: its parts.

    If one node was created from an older image, the roles install on all nodes, which changes nothing on nodes with all packages.
    """
    whole = plan.target.uses_prebuilt_image and all(host.baked for host in hosts.values())
    baked = (_baked_everywhere(plan) if whole else ()) if preinstalled_roles is None else preinstalled_roles
    present = [node for node in plan.nodes if node.name in hosts]
    known = {node.name for node in present}
    groups: dict[str, Any] = {group: {"hosts": {name: {} for name in names if name in known}} for group, names in plan.groups.items()}
    records = {
        node.name: {"ansible_host": node.name, "ansible_user": node.user, "node": _node(plan, node, hosts[node.name])} for node in present
    }
    variables = _variables(plan, tuple(baked), sources or {}) | ({"kubernetes_bundle": bundle} if bundle else {})
    variables |= {"kubernetes_addons": dict(addons)} if addons else {}
    return {"all": {"vars": variables, "children": groups, "hosts": records}}


def _baked_everywhere(plan: Plan) -> tuple[str, ...]:
    """Return the roles that the images of all nodes contain."""
    images = [set(baked_roles(plan.scheduler.kind, os)) for os in {node.os for node in plan.nodes}]
    return tuple(role for role in BAKED[plan.scheduler.kind] if all(role in image for image in images))


def _node(plan: Plan, node: PlanNode, host: Host) -> dict[str, Any]:
    adapters = {device: one.model_dump(mode="json", exclude_none=True) for device, one in _adapters(plan, node.name).items()}
    record = {**node.model_dump(mode="json"), "devices": dict(host.devices)} | ({"adapters": adapters} if adapters else {})
    record |= _links(plan, node.name)
    record |= {"rail_interfaces": [rail._asdict() for rail in rails]} if (rails := rail_interfaces(plan, node)) else {}
    return record | ({"imex_nodes": imex} if (imex := _imex_nodes(plan, node)) else {})


def _imex_nodes(plan: Plan, node: PlanNode) -> list[str]:
    """Return the addresses of the nodes of an NVLink domain, the same list on each; empty for a node that is in none.

    Nodes that are out stay in the list: the daemons read it at their start, and a restart ends the jobs that share memory.
    """
    if node.name not in plan.groups.get("nvlink_domain", ()):  # a plan that is up may be older than the group
        return []
    domains = domains_of(plan.fabric, plan.nodes)
    return [other.address for other in plan.nodes if domains.get(other.name) == domains[node.name]]


def _adapters(plan: Plan, node: str) -> dict[str, Adapter]:
    """Return the declared RDMA adapters of a node by device name."""
    return plan.target.adapters_of(node) if isinstance(plan.target, HostsTarget) else {}


def _links(plan: Plan, node: str) -> dict[str, Any]:
    """Return the declared bonds and VLANs of a node by name; a node that declares none has no such key."""
    if not isinstance(plan.target, HostsTarget):
        return {}
    bonds, vlans = plan.target.bonds_of(node), plan.target.vlans_of(node)
    members = {name: list(dict.fromkeys(bond.members)) for name, bond in bonds.items()}
    declared = {
        "bonds": {
            name: {"mode": bond.mode.value, "members": members[name], "min_links": bond.min_links or len(members[name])}
            for name, bond in bonds.items()
        },
        "vlans": {name: vlan.model_dump(mode="json") for name, vlan in vlans.items()},
    }
    return {key: value for key, value in declared.items() if value}


def declared_guids(plan: Plan) -> dict[str, str]:
    """Return the declared port GUIDs of the nodes' adapters, by `worker0/mlx5_0`."""
    declared = {f"{node.name}/{device}": one.port_guid for node in plan.nodes for device, one in _adapters(plan, node.name).items()}
    return {name: guid for name, guid in declared.items() if guid}


def _variables(plan: Plan, preinstalled_roles: tuple[str, ...], sources: Mapping[str, str]) -> dict[str, Any]:
    return {
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": f"-F {shlex.quote(str(paths.ssh_config(plan.stack)))}",
        "handover": {"schema": SCHEMA, "stack": plan.stack, "target": plan.target.kind},
        "cluster": _cluster(plan, preinstalled_roles, sources),
        "node_stack": plan.node_stack.model_dump(mode="json"),
        "fabric": _fabric(plan),
        **({"monitoring": _monitoring(plan, plan.monitoring)} if plan.monitoring else {}),
    }


def _monitoring(plan: Plan, monitoring: MonitoringPlan) -> dict[str, Any]:
    """Return monitoring with the names that Slurm's collector counts, and the rules of Prometheus."""
    slurm = plan.scheduler if plan.scheduler.kind == "slurm" else None
    return {
        **monitoring.model_dump(mode="json"),
        "partitions": [one.name for one in slurm.partitions] if slurm else [],
        "accounts": [one.name for one in slurm.accounts] if slurm else [],
        "rules": rule_groups(plan, monitoring),
    }


def _cluster(plan: Plan, preinstalled_roles: tuple[str, ...], sources: Mapping[str, str]) -> dict[str, Any]:
    data = plan.to_data()
    return {
        "stack": plan.stack,
        "domain": plan.domain,
        "target": plan.target.kind,
        "level": data["level"],
        "time_zone": plan.time_zone,
        "preinstalled_roles": list(preinstalled_roles),
        "simulated": list(plan.simulated),
        "manage_hostname": plan.target.manage_hostname,
        "manage_kernel": plan.target.manage_kernel,
        "metadata_service": plan.target.metadata_service,
        "network": data["network"],
        "access": {key: data["access"][key] for key in ("jump_hosts", "port", "listen", "allow")},
        "hosts": [{"name": node.name, "fqdn": node.fqdn, "address": node.address} for node in plan.nodes if node.is_in],
        "rolling": data["rolling"],
        "users": data["users"],
        "user_groups": data["user_groups"],
        "storage": [_storage(row, sources) for row in data["storage"]],
        "scheduler": _scheduler(plan.scheduler),
        "software": data["software"],
        **({"extra_packages": True} if plan.monitoring or any(_unbaked(plan, node) for node in plan.nodes) else {}),
        "health": [{"check": spec.key, "group": spec.group, "limit": spec.limit} for spec in checks().values() if spec.health],
    }


def _unbaked(plan: Plan, node: PlanNode) -> bool:
    """Return whether a node has a feature whose packages no image has."""
    return not set(node.features) <= set(BAKED[plan.scheduler.kind])


def _storage(row: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Any]:
    """Return a file system for its clients and servers."""
    existing = row["existing"]
    shared = {key: value for key, value in row.items() if key not in {"fsx", "existing"}}
    if existing is None:
        return {**shared, "source": sources.get(row["name"])}
    return {**shared, "source": existing["source"], "existing": {key: value for key, value in existing.items() if key != "source"}}


def _scheduler(scheduler: Slurm | Kubernetes) -> dict[str, Any]:
    data = scheduler.model_dump(mode="json")
    if scheduler.kind == "kubernetes":
        return data
    data["partitions"] = [{key: value for key, value in row.items() if key != "gres"} for row in data["partitions"]]
    return data


def _fabric(plan: Plan) -> dict[str, Any] | None:
    """Return the fabric with every cable, separate from the cluster: plays that do not read it need not template its thousands of rows."""
    if plan.fabric is None:
        return None
    laid = wiring(plan)
    keys = (
        *("kind", "topology", "rails", "speed", "rate", "width", "rate_gbps", "switch_width", "line_card", "link_layer", "simulated"),
        "subnet_manager",
    )
    return {
        **plan.fabric.model_dump(mode="json", include=set(keys)),
        "server": plan.fabric.server,
        "switches": [switch.name for switch in laid.switches],
        "cables": [cable.row() for cable in laid.cables],
        "netlist": netlist(plan) if plan.fabric.server else None,
    } | ({"guids": guids} if (guids := declared_guids(plan)) else {})


def is_baked(cluster: Mapping[str, Any]) -> bool:
    """Return whether the nodes of an inventory have all packages that the roles install.

    No image has those of monitoring and of declared software, such as `software.tools`. A cluster whose image lacks MooseFS has none.
    """
    unused = set() if any(row["kind"] == "moosefs" for row in cluster["storage"]) else set(_MOOSEFS)
    needed = set(BAKED[cluster["scheduler"]["kind"]]) - unused
    return not cluster.get("extra_packages") and set(cluster["preinstalled_roles"]) >= needed


@cache
def schema() -> dict[str, Any]:
    """Return the contract as a JSON schema."""
    loaded: dict[str, Any] = json.loads((Path(__file__).parent / "inventory.schema.json").read_text(encoding="utf-8"))
    return loaded


def schema_errors(handed_over: Mapping[str, Any]) -> list[str]:
    """Return violations of the contract, as `path: what`; empty for a valid inventory."""
    from jsonschema import Draft202012Validator

    found = sorted(Draft202012Validator(schema()).iter_errors(handed_over), key=lambda breach: breach.json_path)
    return [f"{breach.json_path}: {breach.message}" for breach in found]
