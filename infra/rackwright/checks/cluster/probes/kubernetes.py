"""Probes of the API server: nodes, pods, objects of the plan, and its health. Only controllers query it, for all nodes at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.probes.units import API_SERVER, ETCD
from rackwright.remote.command import python_command

OF_API: Final = (API_SERVER, ETCD)
"""Static pods that a request to a controller's own API server waits for."""


def query(topic: str, *arguments: str) -> str:
    """Return the command that queries the API server on a controller about one topic (rackwright.remote.programs.kubernetes_api)."""
    return python_command("kubernetes_api", {"topic": topic, "arguments": arguments})


@dataclass(frozen=True)
class Node:
    """A node as the API server reports it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[str, ...]
    """`key=value:Effect`."""
    cordoned: bool
    addresses: tuple[str, ...]
    kubelet: str
    runtime: str
    conditions: Mapping[str, tuple[str, str]]
    """`True`, `False` or `Unknown`, with the reason, by type."""
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    range: str = ""
    """Address range of its pods, where the control plane assigns one."""


def parse_nodes(text: str) -> dict[str, Node]:
    """Return nodes by name."""
    found = [_node(one) for one in json.loads(text)]
    if not found:
        raise ValueError("no nodes are listed")
    return {node.name: node for node in found}


def _node(one: Mapping[str, Any]) -> Node:
    conditions = {kind: (status, f"{reason}: {message}" if message else reason) for kind, status, reason, message in one["conditions"]}
    return Node(**{**one, "taints": tuple(one["taints"]), "addresses": tuple(one["addresses"]), "conditions": conditions})


NODES = Probe("kubernetes-nodes", on="kube_control_plane", command=query("nodes"), parse=cache(parse_nodes), needs=OF_API)


@dataclass(frozen=True)
class Pod:
    """A pod as the API server reports it."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    node: str
    phase: str
    ready: bool
    why: str
    """Reasons why its containers wait."""
    rights: tuple[str, ...]
    """Rights of the pod on its node outside of its containers."""
    leaving: bool = False
    """Whether the pod is being deleted."""

    @property
    def has_ended(self) -> bool:
        """Return whether no container of the pod runs any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def described(self) -> str:
        """Return the text of a result."""
        return "ready" if self.ready else f"{self.phase.lower()}, not ready{f' ({self.why})' if self.why else ''}"


def current(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods that neither ended nor are being deleted; all, where there are no others.

    An evicted pod, and one that ended with its node's shutdown, stays listed beside its successor.
    """
    every = tuple(pods)
    return tuple(pod for pod in every if not pod.has_ended and not pod.leaving) or every


def parse_pods(text: str) -> tuple[Pod, ...]:
    """Return the pods of kube-system, and the pods of other namespaces that have rights on their node."""
    found = tuple(Pod(**{**one, "rights": tuple(one["rights"])}) for one in json.loads(text))
    if not any(pod.namespace == "kube-system" for pod in found):
        raise ValueError("no pods of kube-system are listed")
    return found


PODS = Probe("kubernetes-pods", on="kube_control_plane", command=query("pods"), parse=cache(parse_pods), needs=OF_API)


def parse_kubelets(text: str) -> dict[str, Any]:
    """Return the running configuration of each kubelet by node, or why it could not be read."""
    found: dict[str, Any] = json.loads(text)
    if not found or not all(isinstance(one, dict | str) for one in found.values()):
        raise ValueError("no kubelet is listed")
    return found


KUBELETS = Probe(
    "kubernetes-kubelets",
    on="kube_control_plane",
    command=lambda context: query("kubelets", *context.declared.groups["kubernetes"]),
    parse=cache(parse_kubelets),
    needs=OF_API,
)


PLURALS = {"DaemonSet": "daemonsets", "LimitRange": "limitranges", "NetworkPolicy": "networkpolicies", "Topology": "topologies"}


def path_of(one: Mapping[str, Any]) -> str:
    """Return the path of an object in the API.

    >>> path_of({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota", "namespace": "research"}})
    '/api/v1/namespaces/research/resourcequotas/quota'
    >>> path_of({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "within", "namespace": "a"}})
    '/apis/networking.k8s.io/v1/namespaces/a/networkpolicies/within'
    >>> path_of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker0"}})
    '/api/v1/nodes/worker0'
    """
    version, about = one["apiVersion"], one["metadata"]
    plural = PLURALS.get(one["kind"], f"{one['kind'].lower()}s")
    inside = f"/namespaces/{about['namespace']}" if "namespace" in about else ""
    return f"{'/apis' if '/' in version else '/api'}/{version}{inside}/{plural}/{about['name']}"


DNS = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
"""Deployment of the cluster's name servers, where kubeadm creates it."""


QUEUED = ("Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue")
"""Kinds of Kueue. They are queried separately: if Kueue does not respond, the API server does not respond to requests for them."""


def _objects(context: ProbeContext) -> str:
    planned = [one for one in context.declared.cluster["scheduler"]["objects"] if one["kind"] not in QUEUED]
    return query("objects", *map(path_of, planned), DNS)


def parse_objects(text: str) -> dict[str, Any]:
    """Return objects by path; None where an object does not exist."""
    found: dict[str, Any] = json.loads(text)
    if not found or not all(one is None or "metadata" in one for one in found.values()):
        raise ValueError("no objects are listed")
    return found


OBJECTS = Probe("kubernetes-objects", on="kube_control_plane", command=_objects, parse=cache(parse_objects), needs=OF_API)


def parse_tokens(text: str) -> dict[str, str]:
    """Return the expiry of each bootstrap token in RFC 3339; empty for a token that does not expire."""
    found: dict[str, str] = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no table of tokens")
    return found


TOKENS = Probe("kubernetes-tokens", on="kube_control_plane", command=query("tokens"), parse=parse_tokens, needs=OF_API)


def parse_health(text: str) -> dict[str, str]:
    """Return the unhealthy parts of the API server with their messages.

    >>> parse_health('"[+]ping ok\\\\n[-]etcd failed: reason withheld\\\\nreadyz check failed"')
    {'etcd': 'failed: reason withheld'}
    """
    lines = [line.strip() for line in json.loads(text).splitlines()]
    if not any(line.startswith(("[+]", "[-]")) for line in lines):
        raise ValueError("no component is listed")
    failed = {name: words for name, _, words in (line[3:].partition(" ") for line in lines if line.startswith("[-]"))}
    if not failed and not any(re.fullmatch(r"\w+ check passed", line) for line in lines):
        raise ValueError(f"the list of components is cut, its last line is {lines[-1]}")
    return failed


HEALTH = Probe("kubernetes-health", on="kube_control_plane", command=query("health"), parse=parse_health, needs=OF_API)
