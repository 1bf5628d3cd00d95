"""Shared file systems and the volumes under them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.model.storage.existing import ExistingFileSystem, ExistingLustre, ExistingNfs
from rackwright.model.storage.exports import Nfs
from rackwright.model.storage.exports import Storage as Declared
from rackwright.model.storage.fsx import FsxLustre
from rackwright.model.units import mebibytes
from rackwright.plan.kubernetes.cluster import CARRIES
from rackwright.plan.schema import ExistingMount, PlanNode, Storage, Volume

DATA_PATH = "/srv/rackwright"
METADATA_PATH = "/var/lib/mfs"
ACCOUNTING_PATH = "/var/lib/mysql"
SCHEDULER_PATH = "/var/lib/slurm"
ETCD_PATHS = {"etcd": "/var/lib/etcd", "authority": "/etc/kubernetes/pki"}
CONTAINER_PATHS = {"containerd": "/var/lib/containerd", "kubelet": "/var/lib/kubelet"}


def expand_storage(cluster: Cluster, nodes: Sequence[PlanNode]) -> tuple[Storage, ...]:
    """Return every shared file system with its servers and clients; nodes that are out are neither."""
    return tuple(_storage(name, declared, nodes) for name, declared in cluster.storage.items())


def _storage(name: str, declared: Declared, nodes: Sequence[PlanNode]) -> Storage:
    taking_part = [node for node in nodes if node.is_in]
    size, mode = (None, None) if isinstance(declared, ExistingFileSystem) else (mebibytes(declared.size), declared.mode)
    nfs = declared if isinstance(declared, Nfs | ExistingNfs) else None
    return Storage(
        name=name,
        kind=declared.kind,
        mount=declared.mount,
        servers=_names(node for node in taking_part if serves(node, declared)),
        clients=_names(node for node in taking_part if not declared.clients or node.group in declared.clients),
        folder=folder_of(name, declared) if isinstance(declared, Nfs) else None,
        size_mib=size,
        mode=mode,
        simulated=False,
        rdma=nfs is not None and nfs.rdma,
        nconnect=nfs.nconnect if nfs and not nfs.rdma else None,
        fsx=declared if isinstance(declared, FsxLustre) else None,
        existing=_existing_mount(declared) if isinstance(declared, ExistingNfs | ExistingLustre) else None,
    )


def _existing_mount(declared: ExistingNfs | ExistingLustre) -> ExistingMount:
    common = {"source": declared.source, "read_only": declared.read_only, "user_folder": declared.user_folder}
    if isinstance(declared, ExistingNfs):
        return ExistingMount(**common, version=declared.version.value, sec=declared.sec.value)
    return ExistingMount(**common, flock=declared.flock)


def folder_of(name: str, declared: Declared) -> str:
    """Return the server's data folder: over NFS, one server may export several file systems."""
    return f"{DATA_PATH}/{name}" if isinstance(declared, Nfs) else DATA_PATH


def serves(node: PlanNode, declared: Declared) -> bool:
    """Return whether the node is one of the file system's servers."""
    if not declared.served_by_nodes:
        return False
    return node.group in declared.servers if declared.servers else Role.STORAGE in node.roles


def _names(nodes: Iterable[PlanNode]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def expand_volumes(cluster: Cluster, nodes: Sequence[PlanNode]) -> tuple[Volume, ...]:
    """Return volumes that must outlive their node, also of nodes that are out, which lose no data."""
    return tuple(volume for node in nodes for volume in _volumes(cluster, node))


def _volumes(cluster: Cluster, node: PlanNode) -> Iterator[Volume]:
    served = [
        (name, declared)
        for name, declared in cluster.storage.items()
        if not isinstance(declared, ExistingFileSystem) and serves(node, declared)
    ]
    for name, declared in served:
        size = mebibytes(declared.size)
        yield Volume(name=f"{node.name}-{name}", node=node.name, mount=folder_of(name, declared), size_mib=size, purpose="storage")
    if any(declared.kind == "moosefs" for _, declared in served):
        yield Volume(name=f"{node.name}-metadata", node=node.name, mount=METADATA_PATH, size_mib=None, purpose="metadata")
    if Role.ACCOUNTING in node.roles:
        yield Volume(name=f"{node.name}-accounting", node=node.name, mount=ACCOUNTING_PATH, size_mib=None, purpose="accounting")
    yield from _of_kubernetes(cluster, node) if cluster.scheduler.kind == "kubernetes" else _of_slurm(node)


def _of_slurm(node: PlanNode) -> Iterator[Volume]:
    if Role.CONTROLLER in node.roles:
        yield Volume(name=f"{node.name}-scheduler", node=node.name, mount=SCHEDULER_PATH, size_mib=None, purpose="scheduler")


def _of_kubernetes(cluster: Cluster, node: PlanNode) -> Iterator[Volume]:
    """Yield the volumes of etcd's data and its certificate authority. Nested containers need a volume for their file systems."""
    if Role.CONTROLLER in node.roles:
        for what, mount in ETCD_PATHS.items():
            yield Volume(name=f"{node.name}-{what}", node=node.name, mount=mount, size_mib=None, purpose="etcd")
    if CARRIES.intersection(node.roles) and cluster.target.nests_containers:
        for what, mount in CONTAINER_PATHS.items():
            yield Volume(name=f"{node.name}-{what}", node=node.name, mount=mount, size_mib=None, purpose="containers")
