"""Kubernetes, installed with kubeadm."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Final, Literal

from pydantic import Field

from rackwright.model import limits
from rackwright.model.address_range import AddressRange4
from rackwright.model.addresses import Address4, Network4
from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, UserName
from rackwright.model.units import Bytes, Seconds
from rackwright.model.update_policy import UpdatePolicy

DEFAULT_VERSION: Final = "1.36.2"
QuotaCount = Annotated[int, Field(ge=1), limits.KUBERNETES_COUNT]


class Cni(StrEnum):
    """CNI plugin. `bridge` is a bridge on each node and a route to every other node's pods, for nodes on one network segment."""

    BRIDGE = "bridge"
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
    """Add-ons for users' jobs in the order of their installation: sets of jobs, training jobs (Trainer 2, training operator 1), groups of
    pods, simulated devices that pods claim, queues, resource usage, addresses of load balancers, autoscaling by the length of a queue."""

    JOBSET = "jobset"
    TRAINER = "trainer"
    TRAINING_OPERATOR = "training-operator"
    LEADERWORKERSET = "leaderworkerset"
    DRA_EXAMPLE_DRIVER = "dra-example-driver"
    KUEUE = "kueue"
    METRICS_SERVER = "metrics-server"
    METALLB = "metallb"
    KEDA = "keda"


BUNDLED_IMAGE: Final = "bundle"
"""Value of `training_image` for the image that the bundle builds."""


class PodSecurity(StrEnum):
    """Pod Security levels (kubernetes.io/docs/concepts/security/pod-security-standards)."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class ObjectApplier(StrEnum):
    """Tool that applies objects in addition to kubeadm's: an Ansible role during the converge, or Pulumi, object by object, after it."""

    ANSIBLE = "ansible"
    PULUMI = "pulumi"


class Namespace(ConfigModel):
    """A namespace with its users and its resource quota."""

    users: Annotated[tuple[UserName, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Users of the namespace, bound to the role `edit`."
    )
    gpus: Annotated[Annotated[int, Field(ge=0), limits.KUBERNETES_COUNT] | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of GPUs of all pods together."
    )
    cpus: Annotated[QuotaCount | None, UpdatePolicy.LIVE] = Field(default=None, description="Maximum CPU requests of all pods together.")
    memory: Annotated[Bytes | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum memory requests of all pods together, for example 64GiB."
    )
    pods: Annotated[QuotaCount | None, UpdatePolicy.LIVE] = Field(default=None, description="Maximum number of pods.")
    pod_security: Annotated[PodSecurity, UpdatePolicy.LIVE] = Field(
        default=PodSecurity.BASELINE, description="Pod Security level of the namespace."
    )
    shared_volume: Annotated[Bytes | None, UpdatePolicy.LIVE] = Field(
        default=None,
        description="Size of the persistent volume claim `shared` on the first shared file system, for example 100GiB. Default: no claim.",
    )


class Manifest(ConfigModel):
    """A manifest of the CNI plugin's vendor, applied unchanged. The project downloads none, and applies none without a digest."""

    file: Annotated[str, UpdatePolicy.RUN] = Field(
        min_length=1, pattern=r"^[^/.][^\\]*$", description="Path relative to the project's root, for example site/tigera-operator.yaml."
    )
    sha256: Annotated[str, UpdatePolicy.LIVE] = Field(
        pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, as printed by `sha256sum FILE`."
    )


class Kubernetes(ConfigModel):
    """Kubernetes with stacked etcd; nodes with the role controller are the control plane."""

    kind: Annotated[Literal["kubernetes"], UpdatePolicy.FORBIDDEN] = Field(description="Kubernetes, installed with kubeadm.")
    version: Annotated[str, UpdatePolicy.FORBIDDEN] = Field(
        default=DEFAULT_VERSION, pattern=r"^1\.\d+\.\d+$", description="Kubernetes release; it determines the images of kubeadm."
    )
    install_from: Annotated[Source, UpdatePolicy.NEW] = Field(
        default=Source.AUTO,
        description="Source of binaries and images. Default `auto`: the bundle in the lab, the vendor's packages elsewhere.",
    )
    pod_cidr: Annotated[Network4, UpdatePolicy.FORBIDDEN] = Field(default=IPv4Network("10.244.0.0/16"), description="Pod network.")
    service_cidr: Annotated[Network4, UpdatePolicy.FORBIDDEN] = Field(default=IPv4Network("10.245.0.0/16"), description="Service network.")
    cni: Annotated[Cni | None, UpdatePolicy.FORBIDDEN] = Field(default=None, description="CNI plugin. Default: `bridge`; on AWS `flannel`.")
    encapsulation: Annotated[Encapsulation | None, UpdatePolicy.FORBIDDEN] = Field(
        default=None,
        description="Encapsulation of packets between nodes. Default: vxlan with flannel, calico and cilium; none with bridge.",
    )
    cni_manifests: Annotated[tuple[Manifest, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Manifests that install calico or cilium, in this order; docs/kubernetes.md explains how to get them."
    )
    node_mtu: Annotated[int | None, UpdatePolicy.FORBIDDEN] = Field(
        default=None, ge=576, le=9216, description="MTU of the node network, in bytes. Default: 1500; on AWS 9001."
    )
    control_plane_vip: Annotated[Address4 | None, UpdatePolicy.FORBIDDEN] = Field(
        default=None, description="Virtual IP address of the control plane; required with several controllers."
    )
    apply_with: Annotated[ObjectApplier, UpdatePolicy.FORBIDDEN] = Field(
        default=ObjectApplier.ANSIBLE,
        description="Tool that applies labels, plugins, namespaces and claims: "
        "`ansible`, or `pulumi` as stack resources (needs its plugin).",
    )
    addons: Annotated[tuple[Addon, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Add-ons to install; `kueue` creates a queue for the GPUs of each namespace."
    )
    load_balancer_addresses: Annotated[tuple[AddressRange4, ...], UpdatePolicy.LIVE] = Field(
        default=(),
        description="Addresses that `metallb` assigns to Services of type LoadBalancer: free ranges of network.cidr, "
        "for example 10.77.0.8-10.77.0.15. Default: the last four addresses below those of the groups.",
    )
    drain_timeout: Annotated[Seconds, UpdatePolicy.RUN] = Field(
        default=300, description="Maximum time to wait for the pods of a node that is being removed, for example 5m."
    )
    acceptance_image: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None,
        min_length=1,
        description="Image of the acceptance jobs. It requires python3, and PyTorch and nccl-tests for the phases that measure GPUs. "
        "Default: an image that each worker builds from its own python3.",
    )
    training_image: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None,
        min_length=1,
        description="Image of the pods of `rackwright demo`, with sh, python3 and PyTorch. `bundle`: Debian's PyTorch for CPUs (2.6), "
        "which the bundle builds (1.1 GB on each worker). Default: none.",
    )
    namespaces: Annotated[dict[Label, Namespace], UpdatePolicy.LIVE] = Field(default={}, description="User namespaces, by name.")
