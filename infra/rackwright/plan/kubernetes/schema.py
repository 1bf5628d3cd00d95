"""Kubernetes, expanded: the plan's data for roles and checks."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.scheduler.kubernetes import Cni, Encapsulation, ObjectApplier, PodSecurity


class KubernetesNode(ConfigModel):
    """A node in the form of its kubelet's configuration."""

    name: str
    address: str
    is_control_plane: bool
    """Whether the node belongs to the control plane."""
    runs_workloads: bool
    """Whether users' pods may run on it."""
    gpus: int
    pods: str | None
    """Range of its pods' addresses; None where the network plugin assigns it."""
    labels: dict[str, str]
    taints: tuple[str, ...]
    """`key=value:Effect`, as kubectl writes them."""


class Namespace(ConfigModel):
    """A namespace of users; null is no limit."""

    name: str
    users: tuple[str, ...]
    gpus: int | None
    cpus: int | None
    memory_mib: int | None
    pods: int | None
    pod_security: PodSecurity
    claim_mib: int | None


class Addon(ConfigModel):
    """Add-on for users' jobs, from its own part of the bundle."""

    name: str
    version: str
    image: str
    namespace: str
    deployment: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Name of the Deployment on the control plane."""
    daemon_set: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Name of the DaemonSet on every node, which imports its image. An add-on has a Deployment, a DaemonSet, or both."""
    metrics_deployment: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Name of a second Deployment on the control plane, which serves metrics to autoscalers."""


class Folder(ConfigModel):
    """Folder of the shared file system behind a claim."""

    path: str
    mode: str


class Manifest(ConfigModel):
    """A file from which the network is installed, on the machine that runs Ansible."""

    file: str
    """Path from the project's root."""
    sha256: str


class PodNetwork(ConfigModel):
    """Network between pods of two nodes."""

    encapsulation: Encapsulation
    version: str | None
    """Release of the network's schemas; None for plain routes."""
    nodes: str
    """Addresses of the nodes."""
    node_mtu: int
    """MTU between nodes, in bytes."""
    mtu: int
    """MTU between pods: without the encapsulation."""
    required_ports: tuple[str, ...]
    """Ports between nodes that must be open, as `udp/8472`."""
    enforces_network_policy: bool
    """Whether NetworkPolicies are enforced."""
    manifests: tuple[Manifest, ...]


class Kubernetes(ConfigModel):
    """The cluster's control plane and its nodes; controllers in the order of their setup."""

    kind: Literal["kubernetes"] = "kubernetes"
    cluster_name: str
    version: str
    pause_image: str
    """Image that holds a pod's namespaces, which containerd must name."""
    bundled: bool
    """Whether binaries and images come from the bundle rather than from the vendor's repository and registry."""
    controllers: tuple[str, ...]
    submit_hosts: tuple[str, ...]
    """Nodes with kubectl for users."""
    endpoint: str
    """Endpoint of the API, `address:port`."""
    virtual_address: str | None
    pods: str
    services: str
    dns_address: str
    cni: Cni
    network: PodNetwork
    nodes: tuple[KubernetesNode, ...]
    namespaces: tuple[Namespace, ...]
    drain_timeout_s: int
    probe_image: str | None
    """Image of the checks' pods; None without the bundle, the only source of it."""
    jobs: str
    """Image of the acceptance's jobs."""
    builds_acceptance_image: bool
    """Whether workers build the image themselves."""
    training_image: str | None = Field(default=None, exclude_if=lambda image: image is None)
    """Image of the training pods of `rackwright demo`; None if the stack declares none."""
    bundles_training_image: bool = Field(default=False, exclude_if=lambda bundled: not bundled)
    """Whether the bundle contains that image, and workers import it."""
    objects: tuple[dict[str, Any], ...] = ()
    """Objects applied to the cluster beyond kubeadm's own, in this order: the one source for the roles and for Pulumi."""
    apply_with: ObjectApplier = ObjectApplier.ANSIBLE
    """Tool that applies the objects."""
    addons: tuple[Addon, ...] = ()
    """In the order of their installation."""
    load_balancer_addresses: tuple[str, ...] = Field(default=(), exclude_if=lambda ranges: not ranges)
    """Ranges, as `first-last`, that MetalLB assigns to Services; empty without it."""
    folders: tuple[Folder, ...] = ()
    """Folders of the shared file system for claims."""
    scraped: bool = Field(default=False, exclude_if=lambda scraped: not scraped)
    """Whether a Prometheus of the cluster reads kubelets and API servers."""

    @property
    def power_saving(self) -> None:
        """Return None: only Slurm stops and starts nodes."""
