"""Features of nodes beside the cluster's own services, and their nodes: one inventory group for each feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rackwright.derive.fabric import groups_of
from rackwright.derive.nodes import DeclaredNode
from rackwright.model.cluster import Cluster
from rackwright.model.fabric.rdma import Rdma
from rackwright.model.groups import Role, State
from rackwright.model.node.pytorch import PytorchSource
from rackwright.model.targets.vm import VmTarget
from rackwright.plan.actions_runner import expand_runner
from rackwright.plan.schema import NodeStack, PlannedPytorch

PARTS: Final = ("directory", "tuning", "scratch", "doca", "efa", "roce", "containers", "tools", "pytorch")
"""Every feature that can be requested; its group is `with_<feature>`."""


def expand_node_stack(cluster: Cluster) -> NodeStack:
    """Return the requested features, without those that the target does not allow."""
    manage_kernel, software = cluster.target.manage_kernel, cluster.software
    return NodeStack(
        directory=cluster.directory,
        tuning=cluster.tuning if manage_kernel else None,
        scratch=cluster.scratch if manage_kernel else None,
        rdma=(cluster.rdma or _of_rails(cluster)) if manage_kernel else None,
        containers=software.containers if software else (),
        tools=software.tools if software else (),
        pytorch=_pytorch(cluster),
        runner=expand_runner(cluster),
    )


def _of_rails(cluster: Cluster) -> Rdma | None:
    """Return RDMA settings without any of its own for virtual machines on a fabric, whose devices the role `roce` creates."""
    return Rdma() if _has_software_rdma(cluster) else None


def _has_software_rdma(cluster: Cluster) -> bool:
    return cluster.fabric is not None and isinstance(cluster.target, VmTarget)


def _pytorch(cluster: Cluster) -> PlannedPytorch | None:
    wanted = cluster.software.pytorch if cluster.software else None
    if wanted is not None and wanted.source is PytorchSource.DEBIAN:
        return PlannedPytorch(source=wanted.source, version=None, folder=None, index=None, wheelhouse=None, packages=())
    name = wanted.storage or next(iter(cluster.storage), None) if wanted else None
    if wanted is None or name not in cluster.storage:
        return None
    folder = f"{cluster.storage[name].mount}/software/pytorch-{wanted.version}"
    return PlannedPytorch(
        version=wanted.version,
        folder=folder,
        index=wanted.index,
        wheelhouse=wanted.wheelhouse,
        packages=wanted.packages,
    )


def nodes_by_feature(cluster: Cluster, stack: NodeStack, everybody: Sequence[DeclaredNode]) -> Mapping[str, frozenset[str]]:
    """Return the names of the declared nodes that have each requested feature."""
    rdma = _of(everybody, stack.rdma.groups) if stack.rdma else frozenset()
    used = _of(everybody, (), Role.WORKER, Role.LOGIN, Role.RUNNER)
    return {
        "directory": frozenset(member.name for member in everybody) if stack.directory else frozenset(),
        "tuning": _of(everybody, stack.tuning.groups) if stack.tuning else frozenset(),
        "scratch": _of(everybody, stack.scratch.groups) if stack.scratch else frozenset(),
        "doca": rdma if stack.rdma and stack.rdma.doca else frozenset(),
        "efa": rdma if stack.rdma and stack.rdma.efa else frozenset(),
        "roce": _with_roce(cluster, stack, everybody, rdma),
        # Slurm's controller distributes the list of plugins that contains enroot's.
        "containers": used | _of(everybody, (), Role.CONTROLLER) if stack.containers else frozenset(),
        "tools": used if stack.tools else frozenset(),
        "pytorch": _with_pytorch(cluster, everybody, stack),
    }


def _with_roce(cluster: Cluster, stack: NodeStack, everybody: Sequence[DeclaredNode], rdma: frozenset[str]) -> frozenset[str]:
    """Return the nodes with settings of RDMA devices, or with software RDMA devices: all on the fabric."""
    if cluster.fabric is not None and _has_software_rdma(cluster):
        connected = groups_of(cluster, cluster.fabric)
        return frozenset(member.name for member in everybody if member.group in connected)
    return rdma if stack.rdma and (stack.rdma.roce or stack.rdma.virtual_functions or stack.rdma.ipoib) else frozenset()


def _of(everybody: Iterable[DeclaredNode], groups: tuple[str, ...], *roles: Role) -> frozenset[str]:
    """Return the nodes of these groups, or without groups those with one of the roles; without roles, those that run jobs."""
    asked = frozenset(roles or (Role.WORKER, Role.RUNNER))
    return frozenset(member.name for member in everybody if (member.group in groups if groups else not asked.isdisjoint(member.roles)))


def _with_pytorch(cluster: Cluster, everybody: Iterable[DeclaredNode], stack: NodeStack) -> frozenset[str]:
    """Return the nodes on which the role runs: every worker installs Debian's package, one worker the wheels for all."""
    if stack.pytorch is None:
        return frozenset()
    return _of(everybody, (), Role.WORKER) if stack.pytorch.source is PytorchSource.DEBIAN else _installer(cluster, everybody)


def _installer(cluster: Cluster, everybody: Iterable[DeclaredNode]) -> frozenset[str]:
    """Return the one node that writes to the shared file system for all: the first that runs jobs and mounts it."""
    wanted = cluster.software.pytorch if cluster.software else None
    shared = cluster.storage[(wanted.storage if wanted else None) or next(iter(cluster.storage))]
    fit = [
        member.name for member in everybody if Role.WORKER in member.roles and member.state is State.IN and _mounts(shared.clients, member)
    ]
    return frozenset(fit[:1])


def _mounts(clients: tuple[str, ...], member: DeclaredNode) -> bool:
    return not clients or member.group in clients
