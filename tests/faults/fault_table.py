"""The table of faults: read, and proven to have one for every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from rackwright.catalog.checks import CheckSpec, Feature, Level, checks
from rackwright.catalog.kubernetes import etcd
from rackwright.inventory.reader import Inventory
from rackwright.remote import command
from rackwright.yaml_loader import load_yaml

_FILES: Final = tuple(Path(__file__).with_name(name) for name in ("checks.yml", "kubernetes.yml", "monitoring.yml"))
_STACKS: Final = {
    "lab-monitoring": frozenset({Feature.MONITORING, Feature.PROMETHEUS}),
    "lab-monitoring-external": frozenset({Feature.SITE_MONITORING, Feature.STACK_CLIENT, Feature.SITE_API}),
    "lab-k8s-flannel": frozenset({Feature.POD_NETWORK, Feature.FLANNEL, Feature.VXLAN}),
    "lab-k8s-ha": frozenset({Feature.VIRTUAL_ADDRESS}),
    "lab-k8s-keda": frozenset({Feature.AUTOSCALING}),
    "lab-k8s-train": frozenset({Feature.WORKLOAD_IMAGES}),
    "lab-k8s-addons": frozenset(
        {Feature.ADDONS, Feature.ADDON_HOOKS, Feature.QUEUES, Feature.MEASUREMENTS}
        | {Feature.LEADER_WORKER_SETS, Feature.PYTORCH_JOBS, Feature.DEVICE_CLAIMS, Feature.LOAD_BALANCERS}
    ),
    "lab-k8s": frozenset(
        {Feature.KUBERNETES, Feature.KUBERNETES_GPUS, Feature.NAMESPACES, Feature.QUOTAS, Feature.CLAIMS, Feature.POLICIES}
        | {Feature.POD_NEIGHBOURS, Feature.POD_ROUTES}
    ),
}
"""The committed stack for a check, by what it needs: the first with one of its parts."""
LOOK_AGAIN: Final = "! [ -x /usr/local/sbin/rackwright-node-health ] || /usr/local/sbin/rackwright-node-health || exit 1"
"""After a fault: the health check resumes the node, before Slurm runs it the next time."""
HELPERS: Final = Path(__file__).with_name("helpers.sh").read_text(encoding="utf-8")
_ASKING_NAMES: Final = command.source("dns")


@dataclass(frozen=True)
class Fault:
    """One fault: where, what, how back, and what it must and may turn red."""

    spec: CheckSpec
    where: str
    apply: str
    undo: str
    red: str = "same"
    first: bool = False
    everywhere: bool = False
    also: Mapping[str, str] = field(default_factory=dict)
    alerts: Sequence[str] = ()

    @property
    def stack(self) -> str:
        """Return the committed stack that has the fault's part."""
        return next((stack for stack, parts in _STACKS.items() if parts.intersection(self.spec.needs)), "lab")

    @property
    def level(self) -> Level:
        """Return the lowest level at which its check runs."""
        return self.spec.level

    @property
    def may_turn_red(self) -> frozenset[str]:
        """Return other checks that the fault may fail: the health check drains a node on which it finds the fault."""
        return frozenset(self.also) | ({"slurm.node_is_usable"} if self.spec.health else frozenset())

    def nodes(self, declared: Inventory) -> tuple[str, ...]:
        """Return the nodes on which the fault is injected."""
        members = declared.members(self.where)
        return members if self.everywhere else members[:1] if self.first else members[-1:]

    def must_turn_red(self, declared: Inventory) -> set[str]:
        """Return ids of results that must fail."""
        members = declared.members(self.spec.group)
        names = {"all": members, "last": members[-1:], "same": self.nodes(declared)}[self.red]
        return {self.spec.id_on(name) for name in (self.nodes(declared) if self.everywhere else names)}


@cache
def faults() -> Mapping[str, Fault]:
    """Return all faults by the key of their check."""
    rows: dict[str, dict[str, Any]] = {}
    for file in _FILES:
        rows |= load_yaml(file.read_text(encoding="utf-8"))
    catalogue = checks()
    return {key: Fault(spec=catalogue[key], **{"where": catalogue[key].group, **row}) for key, row in rows.items()}


def variables(declared: Inventory, node: str) -> dict[str, str]:
    """Return the plan's values for a fault's commands."""
    cluster, record = declared.cluster, declared.nodes[node]
    workers = declared.members("role_worker")
    gpus = declared.nodes[workers[-1]].get("gpus") or {}
    scheduler = cluster["scheduler"]
    account = (scheduler.get("accounts") or [{"name": "", "fairshare": 1}])[0]
    qos = (scheduler.get("qos") or [{"name": "", "priority": 0}])[0]
    storage = (cluster.get("storage") or [{"mount": "", "mode": "", "folder": ""}])[0]
    return {
        "NODE": node,
        "ASKING_NAMES": _ASKING_NAMES,
        "ADDRESS": record["address"],
        "ENTRY": declared.nodes[declared.members("@entry")[0]]["address"],
        "GATEWAY": cluster["network"].get("gateway") or "",
        "USER_NAME": cluster["users"][0]["name"],
        "GROUP_NAME": next((group["name"] for group in cluster.get("user_groups") or ()), ""),
        "ZONE": cluster["time_zone"],
        "MOUNT": storage["mount"],
        "MODE": storage["mode"],
        "FOLDER": storage["folder"] or "",
        "ACCOUNT": account["name"],
        "SHARE": str(account["fairshare"]),
        "QOS": qos["name"],
        "PRIORITY": str(qos["priority"]),
        "PARTITION": next((one["name"] for one in scheduler.get("partitions") or ()), ""),
        "PROBE": scheduler.get("probe_image") or "",
        "LAST_WORKER": workers[-1],
        "GPU_TYPE": str(gpus.get("model", "")),
        "GPUS": str(gpus.get("count", 0)),
        **(_of_kubernetes(scheduler) if scheduler["kind"] == "kubernetes" else {}),
    }


def _of_kubernetes(scheduler: Mapping[str, Any]) -> dict[str, str]:
    """Return further values for faults of Kubernetes."""
    namespace = scheduler["namespaces"][0]
    return {
        "ENDPOINT": scheduler["endpoint"].partition(":")[0],
        "ETCD_RELEASE": etcd(scheduler["version"]) or "",
        "SERVICE": str(ip_network(scheduler["services"])[1]),
        "DNS": scheduler["dns_address"],
        "NAMESPACE": namespace["name"],
        "NAMESPACE_GPUS": str(namespace["gpus"]),
        "NAMESPACE_PODS": str(namespace["pods"]),
        "POD_SECURITY": namespace["pod_security"],
        "POD_MTU": str(scheduler["network"]["mtu"]),
    }
