"""The declared monitoring, expanded over the nodes that take part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rackwright.catalog import NVIDIA
from rackwright.derive.monitoring import monitoring_node
from rackwright.model import receivers
from rackwright.model.cluster import Cluster
from rackwright.model.external_monitoring import ExternalMonitoring
from rackwright.model.groups import Role
from rackwright.model.monitoring import DeclaredMonitoring
from rackwright.model.scheduler.kubernetes import Kubernetes
from rackwright.model.scheduler.slurm import Scheduler
from rackwright.model.units import mebibytes
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.monitoring.external import expand_external, node_targets
from rackwright.plan.monitoring.kubernetes import kubernetes_targets
from rackwright.plan.monitoring.schema import Collector, Deadman, MonitoredNode, MonitoringPlan, Receiver, RemoteWriteTarget, ScrapeTarget
from rackwright.plan.schema import PlanNode, Storage

PROMETHEUS_PORT: Final = 9090
ALERTMANAGER_PORT: Final = 9093
"""Default ports: github.com/prometheus/prometheus/wiki/Default-port-allocations."""
_SCHEDULED: Final = frozenset({Role.LOGIN, Role.CONTROLLER, Role.ACCOUNTING, Role.WORKER})
"""Roles whose nodes run munge."""


def expand_monitoring(
    cluster: Cluster, nodes: Sequence[PlanNode], storage: Sequence[Storage], fabric: FabricPlan | None
) -> MonitoringPlan | None:
    """Return the plan of monitoring; None where the stack file declares none. Nodes that are out are not watched."""
    declared = cluster.monitoring
    server = monitoring_node(cluster)
    if declared is None or (server is None and not isinstance(declared, ExternalMonitoring)):
        return None
    watched = [node for node in nodes if node.is_in]
    once = _once_per_cluster(watched, fabric, cluster.scheduler)
    expected = tuple(_node(node, server, once.get(node.name, ()), storage, fabric, cluster.scheduler) for node in watched)
    if isinstance(declared, ExternalMonitoring):
        return expand_external(declared, expected)
    return MonitoringPlan(
        server=server,
        interval_s=declared.scrape_interval,
        retention_s=declared.retention.time,
        retention_mib=mebibytes(declared.retention.size),
        receivers=tuple(receiver(name, one) for name, one in declared.receivers.items()),
        deadman=Deadman(secret_file=declared.deadman.url_file, interval_s=declared.deadman.interval) if declared.deadman else None,
        remote_write=tuple(RemoteWriteTarget(name=name, **one.model_dump()) for name, one in declared.remote_write.items()),
        targets=(
            *node_targets(expected),
            ScrapeTarget(job="prometheus", node=server, port=PROMETHEUS_PORT),
            ScrapeTarget(job="alertmanager", node=server, port=ALERTMANAGER_PORT),
            *(kubernetes_targets(watched) if cluster.scheduler.kind == "kubernetes" else ()),
        ),
        nodes=expected,
    )


def receiver(name: str, declared: receivers.Webhook | receivers.Email | receivers.Slack | receivers.PagerDuty) -> Receiver:
    """Return a receiver with its secret's file under one key."""
    key, file = receivers.secret_file(declared) or ("password_file", None)
    return Receiver(name=name, secret_file=file, **declared.model_dump(exclude={key}))


def _node(
    node: PlanNode,
    server: str | None,
    once: Sequence[Collector],
    storage: Sequence[Storage],
    fabric: FabricPlan | None,
    scheduler: Scheduler,
) -> MonitoredNode:
    return MonitoredNode(
        name=node.name,
        collectors=tuple(_collectors(node, server, once, storage, scheduler)),
        units=tuple(_units(node, server, storage, fabric, scheduler)),
        mounts=tuple(shared.mount for shared in storage if node.name in shared.clients),
        gpus=node.gpus.count if _has_nvidia_gpus(node) and node.gpus else 0,
        simulated_gpus=node.gpus is not None and node.gpus.simulated,
    )


def _has_nvidia_gpus(node: PlanNode) -> bool:
    """Return whether the collector of GPUs, which calls nvidia-smi, has something to collect."""
    return node.gpus is not None and node.gpus.vendor == NVIDIA


def _collectors(
    node: PlanNode, server: str | None, once: Sequence[Collector], storage: Sequence[Storage], scheduler: Scheduler
) -> Iterator[Collector]:
    """Yield the collectors of a node; `once` are those of the whole cluster that run on it."""
    yield "units"
    yield from (collector for collector in once if collector != "fabric")
    if _has_nvidia_gpus(node):
        yield "gpu"
    if scheduler.kind == "slurm":
        yield from _job_collectors(node, server)
    if "fabric" in once:
        yield "fabric"
    if any(node.name in shared.clients for shared in storage):
        yield "storage"


def _job_collectors(node: PlanNode, server: str | None) -> Iterator[Collector]:
    """Yield those of hung and straggling jobs: samples of ranks on workers, the judgement beside Prometheus if Slurm answers there."""
    if Role.WORKER in node.roles:
        yield "ranks"
    if node.name == server and _SCHEDULED & set(node.roles):
        yield "jobs"


def _once_per_cluster(watched: Sequence[PlanNode], fabric: FabricPlan | None, scheduler: Scheduler) -> dict[str, list[Collector]]:
    """Return the collectors of what concerns the whole cluster, by the node that runs them: one, or each member of etcd."""
    found: dict[str, list[Collector]] = {}
    controllers = [node.name for node in watched if Role.CONTROLLER in node.roles]
    for name in controllers[:1]:
        found.setdefault(name, []).append("slurm" if scheduler.kind == "slurm" else "kubernetes")
    for name in controllers if scheduler.kind == "kubernetes" else ():
        found.setdefault(name, []).append("etcd")
    if (observer := _fabric_observer(watched, fabric)) is not None:
        found.setdefault(observer, []).append("fabric")
    return found


def _fabric_observer(watched: Sequence[PlanNode], fabric: FabricPlan | None) -> str | None:
    """Return the node that reads the whole fabric: the subnet manager's, else the first on the fabric. Ethernet has no such reading."""
    if fabric is None or fabric.kind != "infiniband":
        return None
    members = [node.name for node in watched if node.rails]
    return fabric.subnet_manager if fabric.subnet_manager in members else next(iter(members), None)


def _units(
    node: PlanNode, server: str | None, storage: Sequence[Storage], fabric: FabricPlan | None, scheduler: Scheduler
) -> Iterator[str]:
    """Yield the units that must be active on a node with Debian 13."""
    yield from ("nftables.service", "ssh.service", "prometheus-node-exporter.service")
    if node.name == server:
        yield from ("prometheus.service", "prometheus-alertmanager.service")
    yield from _slurm_units(node) if scheduler.kind == "slurm" else _kubernetes_units(node, scheduler)
    for shared in storage:
        if node.name in shared.servers and shared.kind == "moosefs":
            yield from ("moosefs-master.service",) if node.name == shared.servers[0] else ()
            yield "moosefs-chunkserver.service"
        elif node.name in shared.servers and shared.kind == "nfs":
            yield "nfs-server.service"
    if fabric is not None and node.name == fabric.server:
        yield "rackwright-ibsim.service"
    if fabric is not None and fabric.kind == "infiniband" and node.name == fabric.subnet_manager:
        yield "rackwright-opensm.service"


def _slurm_units(node: PlanNode) -> Iterator[str]:
    roles = set(node.roles)
    if _SCHEDULED & roles:
        yield "munge.service"
    if Role.CONTROLLER in roles:
        yield "slurmctld.service"
    if Role.WORKER in roles:
        yield "slurmd.service"
    if Role.LOGIN in roles and not roles & {Role.CONTROLLER, Role.WORKER}:
        yield "sackd.service"
    if Role.ACCOUNTING in roles:
        yield from ("slurmdbd.service", "mariadb.service")


def _kubernetes_units(node: PlanNode, scheduler: Kubernetes) -> Iterator[str]:
    if {Role.CONTROLLER, Role.WORKER} & set(node.roles):
        yield from ("containerd.service", "kubelet.service")
    if Role.CONTROLLER in node.roles and scheduler.control_plane_vip:
        yield "keepalived.service"


def monitoring_groups(declared: DeclaredMonitoring | None, server: str | None, nodes: Sequence[PlanNode]) -> dict[str, tuple[str, ...]]:
    """Return the inventory groups of monitoring; none where the stack file declares none. The site's Prometheus is on no node."""
    if declared is None or (server is None and not isinstance(declared, ExternalMonitoring)):
        return {}
    return {"monitoring_server": (server,) if server else (), "monitoring_node": tuple(node.name for node in nodes if node.is_in)}
