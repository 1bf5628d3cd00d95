"""Access of pods and services to networks: addresses on the cluster's network, HCAs of the fabric."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any, Final

from rackwright.catalog.addons import addons
from rackwright.derive.load_balancers import default_pool
from rackwright.errors import InputError
from rackwright.model.scheduler.kubernetes import Cni
from rackwright.plan.kubernetes.load_balancers import load_balancer_objects
from rackwright.plan.kubernetes.network import cilium_values
from rackwright.workloads.site import RDMA, Site

Object = dict[str, Any]
_NVIDIA: Final = "15b3"
"""PCI vendor of Mellanox (pci-ids)."""


def metallb(site: Site) -> list[Object]:
    """Return MetalLB's objects for the declared addresses, or for a few that no group owns, announced by ARP: so not in a cloud."""
    if site.plan.target.kind == "aws":
        raise InputError(
            "a VPC does not route addresses that it did not assign", hint="use a Service of type NodePort, or the cloud's load balancer"
        )
    if not site.plan.target.owns_network:
        raise InputError("the plan does not know the free addresses of an existing network", hint="write the address pool by hand")
    ranges = site.cluster.load_balancer_addresses or (str(default_pool(IPv4Network(site.plan.network.cidr))),)
    return list(load_balancer_objects(ranges))


def cilium(site: Site) -> list[Object]:
    """Return values of Cilium's chart, if the stack declares Cilium."""
    if site.cluster.cni is not Cni.CILIUM:
        raise InputError(
            f"the pod network of stack {site.plan.stack} is {site.cluster.cni.value}",
            hint="declare `cni: cilium` before the cluster is created",
        )
    return [cilium_values(site.cluster)]


def selector(site: Site) -> Object:
    """Return the selector of the plugin's cards: those that the fabric names, or all of that vendor and link type."""
    fabric = site.plan.fabric
    if fabric is None:
        raise InputError(f"stack {site.plan.stack} declares no fabric", hint="declare one under `fabric`")
    link = "infiniband" if fabric.link_layer.lower() == "infiniband" else "ether"
    return {"vendors": [_NVIDIA], "linkTypes": [link]}


def rdma_plugin(site: Site) -> list[Object]:
    """Return NVIDIA's RDMA plugin without the network operator."""
    config = {
        "periodicUpdateInterval": 300,
        "configList": [{"resourceName": RDMA.partition("/")[2], "rdmaHcaMax": 1000, "selectors": selector(site)}],
    }
    labels = {"app.kubernetes.io/name": "rdma-shared-device-plugin"}
    metadata = {"name": "rdma-shared-device-plugin", "namespace": "kube-system", "labels": labels}
    hosts = {"device-plugin": "/var/lib/kubelet/device-plugins", "plugins-registry": "/var/lib/kubelet/plugins_registry", "devices": "/dev"}
    container = {
        "name": "plugin",
        "image": f"ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v{addons()['rdma-plugin'].version}",
        "securityContext": {"privileged": True},
        "volumeMounts": [
            *({"name": name, "mountPath": path} for name, path in hosts.items()),
            {"name": "config", "mountPath": "/k8s-rdma-shared-dev-plugin"},
        ],
    }
    pod = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            *({"name": name, "hostPath": {"path": path}} for name, path in hosts.items()),
            {"name": "config", "configMap": {"name": "rdma-devices", "items": [{"key": "config.json", "path": "config.json"}]}},
        ],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "rdma-devices", "namespace": "kube-system"},
            "data": {"config.json": json.dumps(config, indent=2) + "\n"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        },
    ]
