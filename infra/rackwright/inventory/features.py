"""Features of a plan: what it has, so that the checks of it apply. Each function derives those of one subject from the plan's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rackwright import catalog
from rackwright.catalog.checks import Feature
from rackwright.catalog.compatibility import has_nvlink_rack

if TYPE_CHECKING:
    from rackwright.inventory.reader import Inventory

Presence = Mapping[Feature, bool]


def features_of(declared: Inventory) -> frozenset[Feature]:
    """Return the features of an inventory."""
    slurm, kubernetes = _scheduler(declared, "slurm"), _scheduler(declared, "kubernetes")
    slurm = {} if declared.groups["role_runner"] else slurm  # A stack of runners has no scheduler.
    has = {
        **_of_nodes(declared),
        **_of_gpus(declared),
        **_of_fabric(declared),
        **_of_storage(declared),
        **_of_jobs(declared, slurm, kubernetes),
        **_of_slurm(declared, slurm),
        **_of_kubernetes(declared, kubernetes),
        **_of_monitoring(declared),
    }
    return frozenset(feature for feature, present in has.items() if present)


def _scheduler(declared: Inventory, kind: str) -> Mapping[str, Any]:
    """Return the scheduler of this kind; empty for another one."""
    found = declared.cluster.get("scheduler") or {}
    return found if found.get("kind") == kind else {}


def _of_nodes(declared: Inventory) -> Presence:
    cluster, nodes = declared.cluster, declared.nodes.values()
    return {
        Feature.ALWAYS: True,
        Feature.MACS: any(node.get("mac") for node in nodes),
        Feature.GATEWAY: bool(cluster["network"].get("gateway")),
        Feature.NEIGHBOURS: len(declared.nodes) > 1,
        Feature.EXISTING_MACHINES: declared.target == "hosts",
        Feature.OWN_KERNEL: bool(cluster.get("manage_kernel")),
        Feature.BONDS: any(node.get("bonds") for node in nodes),
        Feature.VLANS: any(node.get("vlans") for node in nodes),
        Feature.USERS: bool(cluster.get("users")),
        Feature.USER_GROUPS: bool(cluster.get("user_groups")),
        Feature.ENTRY: bool(declared.groups["@entry"]),
        Feature.INSIDERS: bool(declared.groups["@insiders"]),
        Feature.LAB: declared.target == "lab",
        Feature.METADATA_SERVICE: bool(cluster.get("metadata_service")),
        Feature.THREADS: any(node.get("threads_per_core") for node in nodes),
        Feature.TUNING: any("tuning" in node.get("features", ()) for node in nodes),
        Feature.SCRATCH: any("scratch" in node.get("features", ()) for node in nodes),
        Feature.ACTIONS_RUNNER: bool(declared.groups["role_runner"]),
    }


def _of_gpus(declared: Inventory) -> Presence:
    having = [node["gpus"] for node in declared.nodes.values() if node.get("gpus")]
    amd = [gpus for gpus in having if gpus.get("vendor") == catalog.AMD]
    nvidia = [gpus for gpus in having if gpus.get("vendor") != catalog.AMD]
    whole = [gpus["count"] for gpus in nvidia if not any(gpus.get("mig", ())) and not gpus.get("others")]
    software = declared.cluster.get("software") or {}
    supplied = [gpus for gpus in nvidia if software and not gpus["simulated"]]
    # In an exclusive partition, two jobs never share the GPUs of a node.
    partitions = (declared.cluster.get("scheduler") or {}).get("partitions") or ()
    shares_nodes = not any(one["default"] and one.get("exclusive") for one in partitions)
    return {
        Feature.NEURON: any(node.get("neuron_devices") for node in declared.nodes.values()),
        Feature.GPUS: bool(nvidia),
        Feature.AMD_GPUS: bool(amd),
        Feature.ROCM: bool(amd and software.get("rocm")),
        Feature.AMD_XGMI: any(gpus["count"] > 1 and catalog.gpus()[gpus["model"]].xgmi for gpus in amd),
        Feature.SHARED_GPUS: bool(whole) and min(whole) > 1 and shares_nodes,
        Feature.WHOLE_GPUS: bool(whole),
        Feature.MIG: any(any(gpus.get("mig", ())) for gpus in nvidia),
        Feature.GPU_SOFTWARE: bool(supplied),
        Feature.NVSWITCH: any(gpus["nvswitch"] for gpus in supplied),
        Feature.NVLINK_RACK: any(_has_nvlink_rack(gpus.get("model", "")) for gpus in supplied),
        Feature.NVLINK_DOMAIN: any(node.get("imex_nodes") for node in declared.nodes.values()),
        Feature.NVLINK: any(_has_nvlinks(gpus) for gpus in supplied),
        Feature.DCGM: bool(supplied) and bool(software["versions"].get("dcgm")),
    }


def _of_fabric(declared: Inventory) -> Presence:
    rails = any(node.get("rail_interfaces") for node in declared.nodes.values())
    return {
        Feature.FABRIC: declared.fabric is not None,
        Feature.INFINIBAND: declared.infiniband,
        Feature.SOFTWARE_RDMA: rails,
        # Software RDMA reports 2.5 Gb/s on every link.
        Feature.LINK_RATES: declared.fabric is not None and not rails,
    }


def _of_storage(declared: Inventory) -> Presence:
    storage = declared.cluster.get("storage") or ()
    kinds = {one["kind"] for one in storage}
    return {
        Feature.STORAGE: bool(storage),
        Feature.CREATED_STORAGE: any("existing" not in one for one in storage),
        # Without Kerberos: no check has a user's ticket.
        Feature.EXISTING_STORAGE: bool(declared.cluster.get("users"))
        and any((one["existing"].get("sec") or "sys") == "sys" for one in storage if "existing" in one),
        Feature.NFS: bool(kinds & {"nfs", "existing-nfs"}),
        Feature.NFS_SERVER: "nfs" in kinds,
    }


def _of_jobs(declared: Inventory, slurm: Mapping[str, Any], kubernetes: Mapping[str, Any]) -> Presence:
    submit = bool((declared.cluster.get("scheduler") or {}).get("submit_hosts"))
    # Jobs write to file systems that rackwright created, never to those of existing servers.
    storage = any("existing" not in one for one in declared.cluster.get("storage") or ())
    tools = declared.node_stack.get("tools") or ()
    return {
        Feature.JOBS: submit and bool(slurm or any(one["users"] for one in kubernetes["namespaces"])),
        Feature.JOBS_SHARE: storage and bool(slurm or (kubernetes and kubernetes["folders"])),
        Feature.JOBS_ON_STORAGE: bool(slurm) and storage,
        # A pod gets its adapters from a device plugin; plans do not include one yet.
        Feature.JOBS_ON_FABRIC: bool(slurm) and declared.fabric is not None,
        # Jobs of Kubernetes run in an image that has none of the nodes' tools.
        Feature.FIO: bool(slurm) and "fio" in tools,
        Feature.HPCC: bool(slurm) and "hpcc" in tools,
    }


def _of_slurm(declared: Inventory, slurm: Mapping[str, Any]) -> Presence:
    constrains, accounting = slurm.get("constrains") or (), bool(slurm.get("accounting"))
    users = declared.cluster.get("users") or ()
    return {
        Feature.SLURM: bool(slurm),
        Feature.HEALTH: bool(slurm.get("health_interval_s")),
        Feature.SUBMIT: bool(slurm.get("submit_hosts")),
        Feature.SACKD: bool(declared.groups["@sackd"]),
        Feature.CONSTRAINED_MEMORY: "memory" in constrains,
        Feature.CONSTRAINED_CORES: "cores" in constrains,
        Feature.CONSTRAINED_DEVICES: "devices" in constrains,
        Feature.PAM_SLURM_ADOPT: bool(declared.groups["@pam_slurm_adopt"]) and any(not user["admin"] for user in users),
        Feature.ACCOUNTING: accounting,
        Feature.ACCOUNTS: accounting and bool(slurm.get("accounts")),
        Feature.QOS: accounting and bool(slurm.get("qos")),
    }


def _of_kubernetes(declared: Inventory, kubernetes: Mapping[str, Any]) -> Presence:
    if not kubernetes:
        return {}
    cni, namespaces = kubernetes["cni"], kubernetes["namespaces"]
    addons = {one["name"] for one in kubernetes.get("addons") or ()}
    return {
        Feature.KUBERNETES: True,
        Feature.KUBERNETES_GPUS: any(node["gpus"] for node in kubernetes["nodes"]),
        Feature.WORKLOAD_IMAGES: bool(kubernetes.get("bundles_training_image")),
        Feature.NAMESPACES: bool(namespaces),
        Feature.QUOTAS: any(_is_limited(one) for one in namespaces),
        Feature.CLAIMS: bool(kubernetes["folders"]),
        Feature.POD_NEIGHBOURS: sum("worker" in node["roles"] for node in declared.nodes.values()) > 1,
        Feature.POD_ROUTES: cni == "bridge",
        Feature.POD_NETWORK: cni != "bridge",
        Feature.FLANNEL: cni == "flannel",
        Feature.VXLAN: cni == "flannel" and kubernetes["network"]["encapsulation"] == "vxlan",
        Feature.POLICIES: kubernetes["network"]["enforces_network_policy"] and bool(namespaces),
        Feature.VIRTUAL_ADDRESS: bool(kubernetes["virtual_address"]),
        Feature.ADDONS: bool(addons),
        Feature.ADDON_HOOKS: bool(addons & {"jobset", "trainer", "training-operator", "leaderworkerset", "kueue", "metallb"}),
        Feature.LEADER_WORKER_SETS: "leaderworkerset" in addons,
        Feature.PYTORCH_JOBS: "training-operator" in addons,
        Feature.DEVICE_CLAIMS: "dra-example-driver" in addons,
        Feature.LOAD_BALANCERS: "metallb" in addons,
        Feature.AUTOSCALING: "keda" in addons,
        Feature.QUEUES: "kueue" in addons,
        Feature.MEASUREMENTS: "metrics-server" in addons,
    }


def _of_monitoring(declared: Inventory) -> Presence:
    site = (declared.monitoring or {}).get("external") or {}
    return {
        Feature.MONITORING: declared.monitoring is not None,
        Feature.PROMETHEUS: declared.monitoring is not None and not site,
        Feature.SITE_MONITORING: bool(site),
        Feature.STACK_CLIENT: bool(site) and not site["client_authority"],
        Feature.SITE_API: bool(site) and bool(site["url"]),
    }


def _has_nvlink_rack(model: str) -> bool:
    """Return whether the NVSwitches of a GPU model are in trays of the rack; False for a model that the catalogue does not have."""
    known = catalog.gpus().get(model)
    return known is not None and has_nvlink_rack(known)


def _has_nvlinks(gpus: Mapping[str, Any]) -> bool:
    """Return whether all NVLinks of GPUs are in use, as in the group `nvlink`."""
    mig = gpus.get("mig", ())
    divided = any(mig) if gpus.get("architecture") == "ampere" else bool(mig) and all(mig)
    return bool(gpus["nvswitch"] or _has_nvlink_rack(gpus.get("model", ""))) and not divided


def _is_limited(namespace: Mapping[str, Any]) -> bool:
    """Return whether a namespace has a quota."""
    return any(namespace[key] is not None for key in ("gpus", "cpus", "memory_mib", "pods"))
