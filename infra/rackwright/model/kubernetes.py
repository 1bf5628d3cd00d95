"""Kubernetes, set up by kubeadm."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Final, Literal

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Address4, Bytes, Label, Network4, Seconds, UserName

DEFAULT_VERSION: Final = "1.34.1"


class Cni(StrEnum):
    """Who carries packets between pods. `routes` is a bridge on each node and a route to every other node's: for one network segment."""

    ROUTES = "routes"
    FLANNEL = "flannel"
    CALICO = "calico"
    CILIUM = "cilium"


class Encapsulation(StrEnum):
    """What a packet between pods of two nodes is wrapped in. `none` leaves it as it is: for nodes on one network segment."""

    VXLAN = "vxlan"
    IPIP = "ipip"
    GENEVE = "geneve"
    NONE = "none"


class Source(StrEnum):
    """Where binaries and images come from: the vendor's repositories and registry, or the bundle that `tools/kubernetes` builds."""

    AUTO = "auto"
    PACKAGES = "packages"
    BUNDLE = "bundle"


class Addon(StrEnum):
    """What runs on the cluster for its users' jobs: queues, sets of jobs, what pods and nodes use."""

    JOBSET = "jobset"
    KUEUE = "kueue"
    METRICS_SERVER = "metrics-server"


class PodSecurity(StrEnum):
    """Pod Security levels (kubernetes.io/docs/concepts/security/pod-security-standards)."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


class ObjectsBy(StrEnum):
    """Who applies what the cluster holds beyond kubeadm's own: a role while it converges, or Pulumi, object by object, after it."""

    ROLE = "role"
    PULUMI = "pulumi"


class Namespace(Part):
    """Where some users work, and how much of the cluster they may use at a time."""

    users: Annotated[tuple[UserName, ...], Change.LIVE] = Field(default=(), description="Who may work in it: they get its role `edit`.")
    gpus: Annotated[int | None, Change.LIVE] = Field(default=None, ge=0, description="GPUs that its pods may hold together.")
    cpus: Annotated[int | None, Change.LIVE] = Field(default=None, ge=1, description="CPUs that its pods may request together.")
    memory: Annotated[Bytes | None, Change.LIVE] = Field(default=None, description="Memory that its pods may request together, like 64GiB.")
    pods: Annotated[int | None, Change.LIVE] = Field(default=None, ge=1, description="Pods it may have.")
    pod_security: Annotated[PodSecurity, Change.LIVE] = Field(
        default=PodSecurity.BASELINE, description="What its pods may ask of their nodes."
    )
    claim: Annotated[Bytes | None, Change.LIVE] = Field(
        default=None, description="Size of the claim `shared` on the cluster's first shared file system, like 100GiB; none when left out."
    )


class Manifest(Part):
    """A file of the network's maker, applied as it is: the project can fetch none, and applies none whose digest nobody wrote down."""

    file: Annotated[str, Change.RUN] = Field(
        min_length=1, pattern=r"^[^/.][^\\]*$", description="Path below the project's root, like site/tigera-operator.yaml."
    )
    sha256: Annotated[str, Change.LIVE] = Field(pattern=r"^[0-9a-f]{64}$", description="Its SHA-256, as `sha256sum FILE` prints it.")


class Kubernetes(Part):
    """Kubernetes with stacked etcd; controllers are its control plane."""

    kind: Annotated[Literal["kubernetes"], Change.FORBIDDEN] = Field(description="The container orchestrator, set up by kubeadm.")
    version: Annotated[str, Change.FORBIDDEN] = Field(
        default=DEFAULT_VERSION, pattern=r"^1\.\d+\.\d+$", description="Its release; kubeadm's own images follow from it."
    )
    source: Annotated[Source, Change.NEW] = Field(
        default=Source.AUTO, description="Where binaries and images come from: the bundle in the lab, the vendor's packages elsewhere."
    )
    pods: Annotated[Network4, Change.FORBIDDEN] = Field(default=IPv4Network("10.244.0.0/16"), description="Addresses of pods.")
    services: Annotated[Network4, Change.FORBIDDEN] = Field(default=IPv4Network("10.245.0.0/16"), description="Addresses of services.")
    cni: Annotated[Cni | None, Change.FORBIDDEN] = Field(
        default=None, description="Who carries packets between pods: plain routes, on AWS flannel."
    )
    encapsulation: Annotated[Encapsulation | None, Change.FORBIDDEN] = Field(
        default=None, description="What packets between nodes are wrapped in: vxlan with flannel, calico and cilium; nothing with routes."
    )
    manifests: Annotated[tuple[Manifest, ...], Change.LIVE] = Field(
        default=(), description="What calico or cilium is installed from, in this order (docs/kubernetes.md says how to get it)."
    )
    node_mtu: Annotated[int | None, Change.FORBIDDEN] = Field(
        default=None, ge=576, le=9216, description="Largest packet, in bytes, of the network between nodes: 1500, on AWS 9001."
    )
    endpoint: Annotated[Address4 | None, Change.FORBIDDEN] = Field(
        default=None, description="Virtual address of the control plane, which several controllers need."
    )
    objects_by: Annotated[ObjectsBy, Change.FORBIDDEN] = Field(
        default=ObjectsBy.ROLE,
        description="Who applies labels, plugins, namespaces and claims: `role`, or `pulumi` as resources of the stack (needs its plugin).",
    )
    addons: Annotated[tuple[Addon, ...], Change.LIVE] = Field(
        default=(), description="What is installed for users' jobs; `kueue` gives each namespace a queue for its GPUs."
    )
    drain_timeout: Annotated[Seconds, Change.RUN] = Field(default=300, description="How long a leaving node waits for its pods to end.")
    jobs_image: Annotated[str | None, Change.LIVE] = Field(
        default=None,
        min_length=1,
        description="Image of the acceptance's jobs: one with python3, and with PyTorch and nccl-tests for the phases that measure GPUs. "
        "When left out, one that each worker makes of its own python3.",
    )
    namespaces: Annotated[dict[Label, Namespace], Change.LIVE] = Field(default={}, description="Namespaces of users, by name.")
