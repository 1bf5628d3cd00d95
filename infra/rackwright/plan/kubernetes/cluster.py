"""Kubernetes, expanded over the nodes that are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from rackwright.catalog.addons import addons, image
from rackwright.catalog.kubernetes import own_image, pause
from rackwright.catalog.networks import default_cni
from rackwright.derive.load_balancers import default_pool
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.model.monitoring import Monitoring
from rackwright.model.scheduler.kubernetes import BUNDLED_IMAGE, Cni, Source
from rackwright.model.scheduler.kubernetes import Addon as AddonName
from rackwright.model.scheduler.kubernetes import Kubernetes as Declared
from rackwright.model.scheduler.kubernetes import Namespace as DeclaredNamespace
from rackwright.model.units import mebibytes
from rackwright.plan.kubernetes.monitoring import monitoring_objects
from rackwright.plan.kubernetes.network import pod_network
from rackwright.plan.kubernetes.objects import GPU_PRESENT, folders, objects
from rackwright.plan.kubernetes.schema import Addon, Kubernetes, KubernetesNode, Namespace
from rackwright.plan.schema import PlanNode, Storage

API_PORT: Final = 6443
"""Port of the API server: the default of kubeadm (kubeadm-config.v1beta4, APIEndpoint.bindPort)."""
CARRIES: Final = frozenset({Role.CONTROLLER, Role.WORKER})
"""Roles whose nodes run a kubelet."""
CONTROL_TAINT: Final = "node-role.kubernetes.io/control-plane=:NoSchedule"
NODE_PREFIX: Final = 24
"""Prefix of the pod range of one node: kubelet runs 110 pods at most, and addresses of ended pods are not free at once."""
_DNS: Final = 10
"""Index of the DNS address in the services' range: kubeadm's own choice (kubeadm, GetDNSIP)."""


def expand_kubernetes(
    cluster: Cluster,
    declared: Declared,
    stack: str,
    nodes: Sequence[PlanNode],
    labels: Mapping[str, Mapping[str, str]],
    storage: Sequence[Storage],
) -> Kubernetes:
    """Return control plane, workers and namespaces; nodes that are out are in none of them."""
    members = [node for node in nodes if node.is_in and CARRIES.intersection(node.roles)]
    controllers = [node for node in members if Role.CONTROLLER in node.roles]
    first = controllers[0].address if controllers else "0.0.0.0"
    cni = declared.cni or default_cni(cluster.target.kind)
    bundled = declared.install_from is Source.BUNDLE or (declared.install_from is Source.AUTO and cluster.target.publishes_ports)
    expanded = Kubernetes(
        cluster_name=stack,
        version=declared.version,
        pause_image=pause(declared.version),
        bundled=bundled,
        controllers=tuple(node.name for node in controllers),
        submit_hosts=tuple(node.name for node in nodes if node.is_in and Role.LOGIN in node.roles),
        endpoint=f"{declared.control_plane_vip or first}:{API_PORT}",
        virtual_address=str(declared.control_plane_vip) if declared.control_plane_vip else None,
        pods=str(declared.pod_cidr),
        services=str(declared.service_cidr),
        dns_address=str(declared.service_cidr.network_address + _DNS),
        cni=cni,
        network=pod_network(declared, cni, str(cluster.network.cidr), cluster.target.mtu),
        nodes=tuple(_node(cluster, declared, cni, node, labels.get(node.name, {})) for node in members),
        namespaces=tuple(_namespace(name, one) for name, one in declared.namespaces.items()),
        drain_timeout_s=declared.drain_timeout,
        apply_with=declared.apply_with,
        addons=tuple(_addon(name) for name in AddonName if name in declared.addons),
        load_balancer_addresses=_load_balancer_addresses(cluster, declared),
        probe_image=own_image("probe") if bundled else None,
        jobs=declared.acceptance_image or own_image("jobs"),
        builds_acceptance_image=declared.acceptance_image is None,
        training_image=own_image("training") if declared.training_image == BUNDLED_IMAGE else declared.training_image,
        bundles_training_image=declared.training_image == BUNDLED_IMAGE,
        scraped=isinstance(cluster.monitoring, Monitoring),
    )
    made = (*objects(expanded, nodes, storage), *(monitoring_objects(scraped=expanded.scraped) if cluster.monitoring else ()))
    return expanded.model_copy(update={"objects": made, "folders": folders(expanded, storage)})


def _node(cluster: Cluster, declared: Declared, cni: Cni, node: PlanNode, labels: Mapping[str, str]) -> KubernetesNode:
    works = Role.WORKER in node.roles
    return KubernetesNode(
        name=node.name,
        address=node.address,
        is_control_plane=Role.CONTROLLER in node.roles,
        runs_workloads=works,
        gpus=node.gpus.count if node.gpus and works else 0,
        pods=str(pod_range(declared.pod_cidr, cluster.network.cidr, node.address)) if cni is Cni.BRIDGE else None,
        labels={**labels, **_own_labels(node)},
        taints=() if works else (CONTROL_TAINT,),
    )


def _own_labels(node: PlanNode) -> dict[str, str]:
    """Return labels that follow from the node itself; the GPU's key is the one that NVIDIA's feature discovery sets."""
    found = {"rackwright.node/group": node.group}
    if node.rack:
        found["topology.kubernetes.io/zone"] = node.rack
    if node.gpus:
        found[GPU_PRESENT] = "true"
        found["nvidia.com/gpu.product"] = node.gpus.product.replace(" ", "-")
    return found


def pod_range(pods: IPv4Network, cidr: IPv4Network, address: str) -> IPv4Network:
    """Return the pod range of a node, derived from the node's own address, so that other nodes never change it.

    >>> str(pod_range(IPv4Network("10.244.0.0/16"), IPv4Network("10.77.0.0/24"), "10.77.0.16"))
    '10.244.16.0/24'
    """
    place = int(IPv4Address(address)) - int(cidr.network_address)
    return IPv4Network((int(pods.network_address) + place * 2 ** (32 - NODE_PREFIX), NODE_PREFIX))


def _addon(name: AddonName) -> Addon:
    row = addons()[name]
    assert row.installed is not None, f"addons.yml does not say how {name} is installed"
    found = row.installed
    return Addon(
        name=name,
        version=row.version,
        image=image(name),
        namespace=found.namespace,
        deployment=found.deployment,
        daemon_set=found.daemon_set,
        metrics_deployment=found.metrics_deployment,
    )


def _load_balancer_addresses(cluster: Cluster, declared: Declared) -> tuple[str, ...]:
    if AddonName.METALLB not in declared.addons:
        return ()
    return tuple(str(one) for one in declared.load_balancer_addresses or (default_pool(cluster.network.cidr),))


def _namespace(name: str, one: DeclaredNamespace) -> Namespace:
    return Namespace(
        name=name,
        users=one.users,
        gpus=one.gpus,
        cpus=one.cpus,
        memory_mib=mebibytes(one.memory) if one.memory is not None else None,
        pods=one.pods,
        pod_security=one.pod_security,
        claim_mib=mebibytes(one.shared_volume) if one.shared_volume is not None else None,
    )
