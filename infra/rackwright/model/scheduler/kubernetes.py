"""Kubernetes, installed with kubeadm."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Final, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import Address4, Bytes, Label, Network4, Seconds, UserName
from rackwright.model.update_policy import Change

DEFAULT_VERSION: Final = "1.34.1"


class Cni(StrEnum):
    """CNI plugin. `routes` is a bridge on each node and a route to every other node's pods, for nodes on one network segment."""

    ROUTES = "routes"
    FLANNEL = "flannel"
    CALICO = "calico"
    CILIUM = "cilium"


class Encapsulation(StrEnum):
    """Encapsulation of packets between pods of different nodes. `none` requires that all nodes are on one network segment."""

    VXLAN = "vxlan"
    IPIP = "ipip"
    GENEVE = "geneve"
    NONE = "none"


class Source(StrEnum):
    """Source of binaries and images: the vendor's repositories and registry, or the bundle that `tools/kubernetes` builds."""

    AUTO = "auto"
    PACKAGES = "packages"
    BUNDLE = "bundle"


class Addon(StrEnum):
    """Add-ons for users' jobs: queues, sets of jobs, resource usage of pods and nodes."""

    JOBSET = "jobset"
    KUEUE = "kueue"
    METRICS_SERVER = "metrics-server"


class PodSecurity(StrEnum):
    """Pod Security levels (kubernetes.io/docs/concepts/security/pod-security-standards)."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class ObjectsBy(StrEnum):
    """Tool that applies objects in addition to kubeadm's: an Ansible role during the converge, or Pulumi, object by object, after it."""

    ROLE = "role"
    PULUMI = "pulumi"


class Namespace(Part):
    """A namespace with its users and its resource quota."""

    users: Annotated[tuple[UserName, ...], Change.LIVE] = Field(default=(), description="Users of the namespace, bound to the role `edit`.")
    gpus: Annotated[int | None, Change.LIVE] = Field(default=None, ge=0, description="Maximum number of GPUs of all pods together.")
    cpus: Annotated[int | None, Change.LIVE] = Field(default=None, ge=1, description="Maximum CPU requests of all pods together.")
    memory: Annotated[Bytes | None, Change.LIVE] = Field(
        default=None, description="Maximum memory requests of all pods together, for example 64GiB."
    )
    pods: Annotated[int | None, Change.LIVE] = Field(default=None, ge=1, description="Maximum number of pods.")
    pod_security: Annotated[PodSecurity, Change.LIVE] = Field(
        default=PodSecurity.BASELINE, description="Pod Security level of the namespace."
    )
    claim: Annotated[Bytes | None, Change.LIVE] = Field(
        default=None,
        description="Size of the persistent volume claim `shared` on the first shared file system, for example 100GiB. Default: no claim.",
    )


class Manifest(Part):
    """A manifest of the CNI plugin's vendor, applied unchanged. The project downloads none, and applies none without a digest."""

    file: Annotated[str, Change.RUN] = Field(
        min_length=1, pattern=r"^[^/.][^\\]*$", description="Path relative to the project's root, for example site/tigera-operator.yaml."
    )
    sha256: Annotated[str, Change.LIVE] = Field(
        pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, as printed by `sha256sum FILE`."
    )


class Kubernetes(Part):
    """Kubernetes with stacked etcd; nodes with the role controller are the control plane."""

    kind: Annotated[Literal["kubernetes"], Change.FORBIDDEN] = Field(description="Kubernetes, installed with kubeadm.")
    version: Annotated[str, Change.FORBIDDEN] = Field(
        default=DEFAULT_VERSION, pattern=r"^1\.\d+\.\d+$", description="Kubernetes release; it determines the images of kubeadm."
    )
    source: Annotated[Source, Change.NEW] = Field(
        default=Source.AUTO,
        description="Source of binaries and images. Default `auto`: the bundle in the lab, the vendor's packages elsewhere.",
    )
    pods: Annotated[Network4, Change.FORBIDDEN] = Field(default=IPv4Network("10.244.0.0/16"), description="Pod network.")
    services: Annotated[Network4, Change.FORBIDDEN] = Field(default=IPv4Network("10.245.0.0/16"), description="Service network.")
    cni: Annotated[Cni | None, Change.FORBIDDEN] = Field(default=None, description="CNI plugin. Default: `routes`; on AWS `flannel`.")
    encapsulation: Annotated[Encapsulation | None, Change.FORBIDDEN] = Field(
        default=None,
        description="Encapsulation of packets between nodes. Default: vxlan with flannel, calico and cilium; none with routes.",
    )
    manifests: Annotated[tuple[Manifest, ...], Change.LIVE] = Field(
        default=(), description="Manifests that install calico or cilium, in this order; docs/kubernetes.md explains how to get them."
    )
    node_mtu: Annotated[int | None, Change.FORBIDDEN] = Field(
        default=None, ge=576, le=9216, description="MTU of the node network, in bytes. Default: 1500; on AWS 9001."
    )
    endpoint: Annotated[Address4 | None, Change.FORBIDDEN] = Field(
        default=None, description="Virtual IP address of the control plane; required with several controllers."
    )
    objects_by: Annotated[ObjectsBy, Change.FORBIDDEN] = Field(
        default=ObjectsBy.ROLE,
        description="Tool that applies labels, plugins, namespaces and claims: `role`, or `pulumi` as stack resources (needs its plugin).",
    )
    addons: Annotated[tuple[Addon, ...], Change.LIVE] = Field(
        default=(), description="Add-ons to install; `kueue` creates a queue for the GPUs of each namespace."
    )
    drain_timeout: Annotated[Seconds, Change.RUN] = Field(
        default=300, description="Maximum time to wait for the pods of a node that is being removed, for example 5m."
    )
    jobs_image: Annotated[str | None, Change.LIVE] = Field(
        default=None,
        min_length=1,
        description="Image of the acceptance jobs. It requires python3, and PyTorch and nccl-tests for the phases that measure GPUs. "
        "Default: an image that each worker builds from its own python3.",
    )
    namespaces: Annotated[dict[Label, Namespace], Change.LIVE] = Field(default={}, description="User namespaces, by name.")
