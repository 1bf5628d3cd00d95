"""Validate the inventory on the control machine before any node is changed.

Only facts that the roles use are checked. The complete contract is the JSON schema in the package, which the writer is tested against.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.rackwright.cluster.plugins.plugin_utils import role_arguments

ROLES_FOLDER = Path(__file__).parents[2] / "roles"

CLUSTER_KEYS = (
    *("stack", "target", "time_zone", "preinstalled_roles", "metadata_service"),
    *("network", "access", "hosts", "users", "storage", "scheduler"),
)
NODE_KEYS = ("name", "group", "index", "roles", "fqdn", "address", "os", "gpus", "neuron_devices", "devices")
SECRET_KEYS = {"slurm": ("munge_key", "accounting_password"), "kubernetes": ("kubernetes_encryption_key",)}
"""Keys by scheduler."""
ROLES = ("login", "controller", "accounting", "worker", "storage", "runner")


def problems(schema: str, groups: Mapping[str, list[str]], variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return all problems as place, problem and hint; `variables`: variables by host."""
    hosts = groups.get("nodes", [])
    if not hosts:
        return ["inventory: the group `nodes` is missing or empty - write the inventory again with `rackwright inventory`"]
    first = variables[hosts[0]]
    found = version_problems(schema, first) or [*cluster_problems(first), *secret_problems(first)]
    listed = {record["name"]: record["address"] for record in (first.get("cluster") or {}).get("hosts", [])}
    nodes = {host: variables[host].get("node") for host in hosts}  # Ansible templates a host's variables at each access.
    for host, node in nodes.items():
        found += node_problems(host, node, listed)
    return found or group_problems(groups, nodes)


def version_problems(schema: str, host: Mapping[str, Any]) -> list[str]:
    """Return a problem if the contract has another version."""
    version = (host.get("handover") or {}).get("schema", "none")
    if version == schema:
        return []
    return [f"handover.schema: expected {schema}, found {version} - write the inventory again with `rackwright inventory`"]


def cluster_problems(host: Mapping[str, Any]) -> list[str]:
    """Return problems of the facts that all nodes share."""
    cluster = host.get("cluster") or {}
    found = [f"cluster.{key}: missing - write the inventory again with `rackwright inventory`" for key in missing(CLUSTER_KEYS, cluster)]
    known = {record["name"] for record in cluster.get("hosts", [])}
    for entry in cluster.get("access", {}).get("jump_hosts", []):
        if entry not in known:
            found.append(f"cluster.access.jump_hosts: {entry} is not a host of the cluster, so logins would fail")
    for filesystem in cluster.get("storage", []):
        unknown_hosts = sorted({*filesystem["servers"], *filesystem["clients"]} - known)
        found += [f"cluster.storage.{filesystem['name']}: {name} is not a host of the cluster" for name in unknown_hosts]
        if not filesystem["servers"] and not filesystem.get("source"):
            found.append(f"cluster.storage.{filesystem['name']}: no server and no `source`")
    return found


def secret_problems(host: Mapping[str, Any]) -> list[str]:
    """Return the missing secrets; values are not read."""
    kind = ((host.get("cluster") or {}).get("scheduler") or {}).get("kind", "slurm")
    absent = missing(SECRET_KEYS.get(kind, ()), host.get("secrets") or {})
    absent += missing(("monitoring",) if host.get("monitoring") else (), host.get("secrets") or {})
    return [f"secrets.{key}: missing - pass the stack's secrets.yml with `-e @secrets.yml`" for key in absent]


def node_problems(host: str, node: Any, listed: Mapping[str, str]) -> list[str]:
    """Return problems of one host's record; `listed`: address by host from cluster.hosts."""
    if not isinstance(node, Mapping):
        return [f"{host}: variable `node` is missing - write the inventory again with `rackwright inventory`"]
    found = [f"{host}.node.{key}: missing" for key in missing(NODE_KEYS, node)]
    if node.get("name") != host:
        found.append(f"{host}.node.name: expected {host}, found {node.get('name')} - one of the two belongs to another node")
    if listed.get(host, node.get("address")) != node.get("address"):
        found.append(f"{host}.node.address: expected {listed[host]} (cluster.hosts), found {node.get('address')}")
    if host not in listed:
        found.append(f"{host}: missing from cluster.hosts, so other nodes cannot resolve its name")
    return found


def group_problems(groups: Mapping[str, list[str]], nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return differences between groups and records: a wrong group adds or skips a whole phase."""
    found = []
    for role in ROLES:
        wanted = {host for host, node in nodes.items() if role in node["roles"]}
        found += disagreement(f"role_{role}", set(groups.get(f"role_{role}", [])), wanted)
    vendors = {host: node["gpus"].get("vendor", "nvidia") for host, node in nodes.items() if node["gpus"]}
    for group, vendor in (("gpu", "nvidia"), ("amd_gpu", "amd")):
        found += disagreement(group, set(groups.get(group, [])), {host for host, own in vendors.items() if own == vendor})
    return found + disagreement("neuron", set(groups.get("neuron", [])), {host for host, node in nodes.items() if node["neuron_devices"]})


def disagreement(group: str, members: set[str], wanted: set[str]) -> list[str]:
    """Return members that do not belong in the group, and missing members."""
    return [
        *(f"group {group}: {host} is a member, but its record does not belong there" for host in sorted(members - wanted)),
        *(f"group {group}: {host} is missing, its record belongs there" for host in sorted(wanted - members)),
    ]


def missing(keys: tuple[str, ...], record: Mapping[str, Any]) -> list[str]:
    """Return the keys that the record lacks."""
    return [key for key in keys if key not in record]


class ActionModule(ActionBase):  # type: ignore[misc]
    """The task `rackwright.cluster.validate_inventory: {schema: …}`."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail with a list of all problems."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        given = task_vars or {}
        groups = {name: list(hosts) for name, hosts in given["groups"].items()}
        variables = {host: given["hostvars"][host] for host in groups.get("nodes", [])}
        found = [*problems(self._task.args["schema"], groups, variables), *role_arguments.problems(ROLES_FOLDER, variables)]
        if found:
            result.update(failed=True, msg="invalid inventory:\n" + "\n".join(found))
        return result
