"""The inventory as read by reports and checks: the cluster, its nodes, its groups. Plain data; nothing is derived again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from rackwright.catalog.checks import Feature, Level
from rackwright.errors import InputError
from rackwright.inventory.features import features_of
from rackwright.yaml_loader import load_yaml

SCHEMA: Final = "rackwright.inventory/7"
"""Version of the contract: written by `contract`, and the only one that readers accept."""
WITHOUT_SACKD: Final = frozenset({"debian-12", "ubuntu-22.04", "ubuntu-24.04", "rocky-9"})
"""Operating systems whose packages of Slurm have no sackd (23.11 and later): roles/slurm_login/vars/main.yml."""

_ESSENTIAL: Final = (("all", "vars", "handover"), ("all", "vars", "cluster"), ("all", "children"), ("all", "hosts"))
"""The mappings of every inventory, of each version of the contract."""
_WRITE_AGAIN: Final = "run `pulumi up --refresh --stack STACK` to write it again"
"""A plain `up` keeps the file: Converge writes it when it applies the phases and when it is refreshed."""

OPTIONAL_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "gpu_mixed": (),
    "monitoring_node": (),
    "monitoring_server": (),
    "nvlink_domain": (),
    "role_runner": (),
}
"""Groups that an inventory has only if the stack file declares their subject (rackwright.plan.monitoring), or if it is of this release."""


@dataclass(frozen=True)
class Inventory:
    """The declared cluster, as read from the inventory."""

    stack: str
    target: str
    level: Level
    cluster: Mapping[str, Any]
    node_stack: Mapping[str, Any]
    """Settings of the features of nodes in the groups `with_<part>`."""
    nodes: Mapping[str, Mapping[str, Any]]
    """Nodes with the state `in`, by name."""
    out: Mapping[str, Mapping[str, Any]]
    """Nodes with the state `out`, by name."""
    groups: Mapping[str, tuple[str, ...]]
    """Members by group; names that start with @ are lists of `cluster`."""
    fabric: Mapping[str, Any] | None
    """The fabric with its cables, or None."""
    plan: str
    """Digest of the fields above: two reports with the same digest have the same plan."""
    monitoring: Mapping[str, Any] | None = None
    """The plan of monitoring, or None."""

    def members(self, group: str) -> tuple[str, ...]:
        """Return the nodes of a group; raise InputError for an unknown group."""
        if group not in self.groups:
            raise InputError(
                f"unknown group; the inventory has {', '.join(sorted(self.groups))}",
                path=group,
                hint="correct the check's `group` in checks.yml",
            )
        return self.groups[group]

    def needs_sudo(self, node: str) -> bool:
        """Return whether the login user of the node needs sudo."""
        return bool(self.nodes[node]["user"] != "root")

    @property
    def simulated(self) -> frozenset[str]:
        """Return the simulated subsystems of this target, with CPUs and memory if Slurm is configured to trust the plan's values."""
        scheduler = self.cluster.get("scheduler") or {}
        capacity = {"capacity"} if scheduler.get("config_overrides") else set()
        return frozenset(self.cluster.get("simulated") or ()) | capacity

    @property
    def infiniband(self) -> bool:
        """Return whether nodes can discover the fabric's cables: on Ethernet, only the switches have this data."""
        return self.fabric is not None and bool(self.fabric["kind"] == "infiniband")

    @property
    def features(self) -> frozenset[Feature]:
        """Return the features of this plan, derived from its records and never from the size of a group."""
        return features_of(self)


def load(inventory: Path) -> Inventory:
    """Read an inventory file; raise InputError if it is missing, damaged or incomplete."""
    document = load_document(inventory)
    try:
        return from_inventory(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _invalid(inventory, f"it lacks {error}" if isinstance(error, KeyError) else str(error)) from None


def load_document(inventory: Path) -> dict[str, Any]:
    """Return the data of an inventory file; raise InputError if it is missing, unreadable, or has no plan of a cluster."""
    try:
        found = load_yaml(inventory.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            "no inventory found; the stack has not been applied", path=str(inventory), hint="run `rackwright up STACK`"
        ) from None
    except OSError as refused:
        raise InputError(f"cannot be read: {refused.strerror}", path=str(inventory), hint="check the file's type and mode") from None
    except UnicodeDecodeError:
        raise _invalid(inventory, "it is not UTF-8 text") from None
    except yaml.YAMLError as broken:
        raise _invalid(inventory, _first_problem(broken)) from None
    missing = next((" -> ".join(place) for place in _ESSENTIAL if not isinstance(_inside(found, place), dict)), None)
    if missing:
        raise _invalid(inventory, f"it has no mapping {missing}")
    document: dict[str, Any] = found
    return document


def _inside(found: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _first_problem(broken: yaml.YAMLError) -> str:
    """Return the place and the cause of a YAML error in one line."""
    mark = getattr(broken, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    return where + str(getattr(broken, "problem", None) or broken).splitlines()[0]


def _invalid(inventory: Path, why: str) -> InputError:
    return InputError(f"invalid inventory: {why}", path=str(inventory), hint=_WRITE_AGAIN)


def from_inventory(inventory: Mapping[str, Any]) -> Inventory:
    """Return the declared cluster of a parsed inventory; raise InputError for another schema version."""
    everything = inventory["all"]
    variables, children = everything["vars"], everything["children"]
    handover, cluster, fabric = variables["handover"], variables["cluster"], variables.get("fabric")
    if handover["schema"] != SCHEMA:
        cause = f"unsupported schema: expected {SCHEMA}, found {handover['schema']}"
        raise InputError(cause, path="handover.schema", hint="run `rackwright up STACK` to write the inventory again")
    node_stack, monitoring = variables.get("node_stack") or {}, variables.get("monitoring")
    records = {name: host["node"] for name, host in everything["hosts"].items()}
    groups = {**OPTIONAL_GROUPS, **{name: tuple(group.get("hosts") or ()) for name, group in children.items()}}
    out = {name: record for name, record in records.items() if name in groups["out"]}
    nodes = {name: record for name, record in records.items() if name in groups["nodes"]}
    entry = tuple(name for name in cluster["access"]["jump_hosts"] if name in nodes)
    groups["@entry"] = entry
    groups["@insiders"] = tuple(name for name in nodes if name not in entry)
    groups["@existing_machines"] = tuple(nodes) if handover["target"] == "hosts" else ()
    groups["@bonds"] = tuple(name for name, record in nodes.items() if record.get("bonds"))
    groups["@vlans"] = tuple(name for name, record in nodes.items() if record.get("vlans"))
    groups["@submit"] = tuple(name for name in (cluster.get("scheduler") or {}).get("submit_hosts") or () if name in nodes)
    groups["@control"] = tuple(name for name in (cluster.get("scheduler") or {}).get("controllers") or () if name in nodes)[:1]
    groups["@sackd"] = _with_sackd(nodes, groups)
    adopting = (cluster.get("scheduler") or {}).get("pam_slurm_adopt") or ()
    groups["@pam_slurm_adopt"] = tuple(name for name in adopting if name in nodes)
    groups["@observer"] = _observer(fabric, groups.get("fabric", ()))
    return Inventory(
        stack=handover["stack"],
        target=handover["target"],
        level=Level(cluster["level"]),
        cluster=cluster,
        node_stack=node_stack,
        nodes=nodes,
        out=out,
        groups=groups,
        fabric=fabric,
        monitoring=monitoring,
        plan=_digest(cluster, node_stack, records, children, *([fabric] if fabric else []), *([monitoring] if monitoring else [])),
    )


def _with_sackd(nodes: Mapping[str, Mapping[str, Any]], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the nodes on which sackd fetches the configuration for Slurm's commands: login nodes without another daemon of Slurm."""
    others = {*groups.get("role_controller", ()), *groups.get("role_worker", ())}
    logins = [name for name in groups.get("role_login", ()) if name in groups.get("slurm", ()) and name not in others]
    return tuple(name for name in logins if nodes[name]["os"] not in WITHOUT_SACKD)


def _observer(fabric: Mapping[str, Any] | None, members: tuple[str, ...]) -> tuple[str, ...]:
    """Return the node that is queried for the whole fabric: the subnet manager's, else the first node on the fabric."""
    if not fabric or fabric["kind"] != "infiniband":
        return ()
    return tuple(name for name in members if name == fabric["subnet_manager"]) or members[:1]


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]
