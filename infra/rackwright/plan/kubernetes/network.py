"""The network between pods of different nodes: its plan, and the objects that create it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from rackwright.catalog.networks import encapsulations, flannel_image, overhead, required_ports, version
from rackwright.model.scheduler.kubernetes import Cni, Encapsulation
from rackwright.model.scheduler.kubernetes import Kubernetes as Declared
from rackwright.plan.kubernetes.schema import Kubernetes, Manifest, PodNetwork

Object = dict[str, Any]
ENFORCING: Final = frozenset({Cni.CALICO, Cni.CILIUM})
"""Networks that enforce NetworkPolicies."""
FLANNEL: Final = {"app.kubernetes.io/name": "flannel"}
FLANNEL_FOLDER: Final = "/run/flannel"
"""Folder to which flanneld writes the node's range and MTU."""
VNI: Final = 1
"""Number of the VXLAN: the default of flannel on Linux (flannel, Documentation/backends.md)."""
_MANAGED: Final = {"app.kubernetes.io/managed-by": "rackwright"}
_SYSTEM: Final = "kube-system"
_BLOCK: Final = 26
"""Prefix of the blocks of addresses that Calico assigns to nodes, one after the other (its own default)."""


def pod_network(declared: Declared, cni: Cni, nodes: str, target_mtu: int) -> PodNetwork:
    """Return the plan of the pod network."""
    encapsulation = declared.encapsulation or encapsulations(cni)[0]
    node_mtu = declared.node_mtu or target_mtu
    return PodNetwork(
        encapsulation=encapsulation,
        version=None if cni is Cni.BRIDGE else version(cni),
        nodes=nodes,
        node_mtu=node_mtu,
        mtu=node_mtu - overhead(encapsulation),
        required_ports=required_ports(cni, encapsulation) if encapsulation in encapsulations(cni) else (),
        enforces_network_policy=cni in ENFORCING,
        manifests=tuple(Manifest(file=one.file, sha256=one.sha256) for one in declared.cni_manifests),
    )


def network_objects(cluster: Kubernetes) -> Iterator[Object]:
    """Yield the objects that create the network; Cilium's are all in its chart, and plain routes need none."""
    if cluster.cni is Cni.FLANNEL:
        yield from _flannel(cluster)
    elif cluster.cni is Cni.CALICO:
        yield calico_installation(cluster)


def _flannel(cluster: Kubernetes) -> Iterator[Object]:
    """Yield flannel's own manifest, without the installer of the nodes' network plugins: a role installs them."""
    named = {"name": "flannel", "labels": {**_MANAGED, **FLANNEL}}
    inside = {**named, "namespace": _SYSTEM}
    rbac = "rbac.authorization.k8s.io"
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": inside}
    yield {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRole",
        "metadata": named,
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        ],
    }
    yield {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": named,
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "flannel"},
        "subjects": [{"kind": "ServiceAccount", "name": "flannel", "namespace": _SYSTEM}],
    }
    config = json.dumps(flannel_config(cluster), sort_keys=True)
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": inside, "data": {"net-conf.json": config}}
    yield _flanneld(cluster, inside, config)


def flannel_config(cluster: Kubernetes) -> Object:
    """Return flannel's net-conf.json.

    flannel subtracts the encapsulation from the MTU between nodes; with host-gw it uses the interface's MTU.
    """
    backend: Object = {"Type": "host-gw"}
    if cluster.network.encapsulation is Encapsulation.VXLAN:
        backend = {"Type": "vxlan", "VNI": VNI, "Port": 8472, "MTU": cluster.network.node_mtu}
    return {"Network": cluster.pods, "EnableNFTables": True, "Backend": backend}


def _flanneld(cluster: Kubernetes, metadata: Object, config: str) -> Object:
    """Return the DaemonSet, first on every node; the annotation recreates its pods when the settings change."""
    pod = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": "flannel",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 2,
        "containers": [_flannel_container(cluster)],
        "volumes": [
            {"name": "run", "hostPath": {"path": FLANNEL_FOLDER, "type": "DirectoryOrCreate"}},
            {"name": "config", "configMap": {"name": "flannel"}},
            {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": FLANNEL},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": FLANNEL, "annotations": {"rackwright.node/settings": config}}, "spec": pod},
        },
    }


def _flannel_container(cluster: Kubernetes) -> Object:
    """Return the flanneld container, bound to the interface with the node's address in the plan, independent of the default route."""
    told = {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "NODE_ADDRESS": "status.hostIP",
        "NODE_NAME": "spec.nodeName",
    }
    return {
        "name": "flannel",
        "image": flannel_image(cluster.bundled),
        "command": ["/usr/local/bin/flanneld" if cluster.bundled else "/opt/bin/flanneld"],
        "args": ["--ip-masq", "--kube-subnet-mgr", "--iface=$(NODE_ADDRESS)"],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in told.items()],
        "securityContext": {"privileged": False, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}},
        "volumeMounts": [
            {"name": "run", "mountPath": FLANNEL_FOLDER},
            {"name": "config", "mountPath": "/etc/kube-flannel", "readOnly": True},
            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
        ],
    }


def calico_installation(cluster: Kubernetes) -> Object:
    """Return the Tigera operator's installation of Calico.

    kube-proxy stays, in its nftables mode, and Calico's own rules are nftables, too.
    """
    encapsulation = cluster.network.encapsulation
    said = {Encapsulation.VXLAN: "VXLAN", Encapsulation.IPIP: "IPIP", Encapsulation.NONE: "None"}
    return {
        "apiVersion": "operator.tigera.io/v1",
        "kind": "Installation",
        "metadata": {"name": "default"},
        "spec": {
            "variant": "Calico",
            "cni": {"type": "Calico", "ipam": {"type": "Calico"}},
            "calicoNetwork": {
                "bgp": "Disabled" if encapsulation is Encapsulation.VXLAN else "Enabled",
                "linuxDataplane": "Nftables",
                "mtu": cluster.network.mtu,
                "nodeAddressAutodetectionV4": {"kubernetes": "NodeInternalIP"},
                "ipPools": [
                    {
                        "name": "default-ipv4-ippool",
                        "cidr": cluster.pods,
                        "blockSize": _BLOCK,
                        "encapsulation": said.get(encapsulation, "VXLAN"),
                        "natOutgoing": "Enabled",
                        "nodeSelector": "all()",
                    }
                ],
            },
        },
    }


def cilium_values(cluster: Kubernetes) -> Object:
    """Return the values of Cilium's chart: the control plane's ranges, kube-proxy stays.

    Cilium subtracts the encapsulation from the node MTU.
    """
    network = cluster.network
    routed: Object = {"routingMode": "tunnel", "tunnelProtocol": network.encapsulation.value}
    if network.encapsulation is Encapsulation.NONE:
        routed = {"routingMode": "native", "autoDirectNodeRoutes": True, "ipv4NativeRoutingCIDR": cluster.pods}
    return {
        **routed,
        "MTU": network.node_mtu,
        "ipam": {"mode": "kubernetes"},
        "k8s": {"requireIPv4PodCIDR": True},
        "ipv4": {"enabled": True},
        "ipv6": {"enabled": False},
        "kubeProxyReplacement": False,
        "cni": {"binPath": "/opt/cni/bin", "confPath": "/etc/cni/net.d", "exclusive": True},
        "policyEnforcementMode": "default",
        "operator": {"replicas": min(2, len(cluster.nodes))},
        "hubble": {"enabled": False},
    }
