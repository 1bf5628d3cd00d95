"""The scheduler, expanded over the nodes that are in."""

from __future__ import annotations

from collections.abc import Sequence

from rackwright.catalog.mig import mig_profiles
from rackwright.derive.nodes import schedulable_memory
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.model.scheduler.kubernetes import Kubernetes as DeclaredKubernetes
from rackwright.model.scheduler.slurm import Account as DeclaredAccount
from rackwright.model.scheduler.slurm import Partition as Declared
from rackwright.model.scheduler.slurm import PowerSaving as DeclaredSaving
from rackwright.model.scheduler.slurm import Preemption as DeclaredPreemption
from rackwright.model.scheduler.slurm import PreemptionOrder, PreemptMode
from rackwright.model.scheduler.slurm import Qos as DeclaredQos
from rackwright.model.scheduler.slurm import Slurm as DeclaredSlurm
from rackwright.model.targets.bmc import Bmc, BmcKind
from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan.fabric.labels import labels_of
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.slurm import domains_of, topology
from rackwright.plan.kubernetes.cluster import expand_kubernetes
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.plan.schema import PlanNode, Storage
from rackwright.plan.slurm.schema import Account, GpuGres, Partition, PowerSaving, Preemption, Qos, SchedulerNode, Slurm, SwitchingBmc


def expand_scheduler(
    cluster: Cluster, stack: str, nodes: Sequence[PlanNode], fabric: FabricPlan | None, storage: Sequence[Storage]
) -> Slurm | Kubernetes:
    """Return the plan of the declared scheduler."""
    declared = cluster.scheduler
    if isinstance(declared, DeclaredKubernetes):
        return expand_kubernetes(cluster, declared, stack, nodes, labels_of(fabric, nodes), storage)
    return _slurm(cluster, declared, stack, nodes, fabric)


def _slurm(cluster: Cluster, declared: DeclaredSlurm, stack: str, nodes: Sequence[PlanNode], fabric: FabricPlan | None) -> Slurm:
    """Return controllers, workers and queues; nodes that are out are in none of them."""
    workers = with_role(nodes, Role.WORKER)
    accounting = with_role(nodes, Role.ACCOUNTING)
    return Slurm(
        cluster_name=stack,
        controllers=_controllers([node.name for node in with_role(nodes, Role.CONTROLLER)], declared.backup_controllers),
        accounting=accounting[0].name if accounting else None,
        submit_hosts=tuple(node.name for node in with_role(nodes, Role.LOGIN)),
        nodes=tuple(_scheduled(cluster, node) for node in workers),
        partitions=_partitions(declared.partitions, workers),
        accounts=_accounts(declared.accounts),
        qos=tuple(_qos(name, one) for name, one in declared.qos.items()),
        preemption=_preemption(declared),
        drain_timeout_s=declared.drain_timeout,
        health_interval_s=declared.health_check_interval,
        power_saving=_saving(cluster, declared.power_saving, workers),
        topology=topology(fabric, _places(fabric, workers), [node.name for node in workers], domains_of(fabric, workers)),
        constrains=("cores", "memory", "devices") if cluster.target.has_cgroups else (),
        config_overrides=cluster.target.trusts_declared_hardware,
        pam_slurm_adopt=_admitting_by_jobs(cluster, declared, workers),
    )


def _admitting_by_jobs(cluster: Cluster, declared: DeclaredSlurm, workers: Sequence[PlanNode]) -> tuple[str, ...]:
    """Return the workers that admit ordinary users over SSH by their jobs: not those on which users log in to submit jobs."""
    chosen = cluster.target.kind == "vm" if declared.pam_slurm_adopt is None else declared.pam_slurm_adopt
    return tuple(node.name for node in workers if Role.LOGIN not in node.roles) if chosen else ()


def _places(fabric: FabricPlan | None, nodes: Sequence[PlanNode]) -> dict[str, int]:
    """Return node -> its place in the fabric."""
    return {node.name: fabric.places[node.group] + node.index for node in nodes if fabric and node.group in fabric.places}


def with_role(nodes: Sequence[PlanNode], role: Role) -> list[PlanNode]:
    """Return the nodes that are in and have the role."""
    return [node for node in nodes if node.is_in and role in node.roles]


def _controllers(names: Sequence[str], backup: Sequence[str]) -> tuple[str, ...]:
    first = [name for name in names if name not in backup]
    return (*first, *(name for name in backup if name in names))


def _scheduled(cluster: Cluster, node: PlanNode) -> SchedulerNode:
    gres, group = _gres(node), cluster.groups[node.group]
    return SchedulerNode(
        name=node.name,
        cpus=node.cpus,
        threads_per_core=node.threads_per_core,
        sockets=node.sockets,
        memory_mib=schedulable_memory(cluster.target, node.memory_mib),
        gpus=len(gres) or (node.gpus.count if node.gpus else 0),
        gpu_type=node.gpus.model if node.gpus and not gres else None,
        gpu_vendor=node.gpus.vendor if node.gpus else None,
        gres=gres,
        features=group.features,
        weight=group.weight,
    )


def _gres(node: PlanNode) -> tuple[GpuGres, ...]:
    """Return what Slurm allocates of GPUs with MIG, each instance and each GPU that is whole, and of GPUs of several models."""
    gpus = node.gpus
    if gpus is not None and gpus.others:
        return tuple(GpuGres(type=model, gpu=gpu, instance=None) for gpu, model in enumerate(gpus.models))
    if gpus is None or not any(gpus.mig):
        return ()
    profiles = mig_profiles(gpus.model)
    return tuple(
        GpuGres(type=gpus.model if one is None else profiles[one.profile].gres_type(gpus.model), gpu=gpu, instance=number)
        for gpu, instances in enumerate(gpus.mig)
        for number, one in (enumerate(instances) if instances else ((None, None),))
    )


def _partitions(declared: dict[str, Declared], workers: Sequence[PlanNode]) -> tuple[Partition, ...]:
    chosen = declared or _usual(workers)
    first_default = next((name for name, partition in chosen.items() if partition.default), next(iter(chosen), None))
    return tuple(
        Partition(
            name=name,
            nodes=_inside(partition, workers),
            default=name == first_default,
            gres=partition.gres,
            max_time=partition.max_time,
            default_time=partition.default_time,
            max_nodes=partition.max_nodes,
            priority_tier=partition.priority_tier,
            preempt_mode=partition.preempt_mode,
            grace_time_s=partition.grace_time,
            exclusive=partition.exclusive,
            allow_accounts=partition.allow_accounts,
            allow_groups=partition.allow_groups,
            qos=partition.qos,
            allow_qos=partition.allow_qos,
        )
        for name, partition in chosen.items()
    )


def _inside(partition: Declared, workers: Sequence[PlanNode]) -> tuple[str, ...]:
    """Return the queue's workers, by group or by name."""
    groups, names = frozenset(partition.groups), frozenset(partition.nodes)
    return tuple(node.name for node in workers if node.group in groups or node.name in names)


def _usual(workers: Sequence[PlanNode]) -> dict[str, Declared]:
    """Return the default queues: one over all workers, or one each for those with and those without GPUs."""
    split = {
        "gpu": tuple(node.name for node in workers if node.gpus),
        "cpu": tuple(node.name for node in workers if not node.gpus),
    }
    return {name: Declared(nodes=nodes) for name, nodes in split.items() if nodes}


def _accounts(declared: dict[str, DeclaredAccount]) -> tuple[Account, ...]:
    """Return accounts, parents first, otherwise as declared; a rule refuses one without a path to the root."""
    placed: dict[str, Account] = {}
    while True:
        ready = [(name, one) for name, one in declared.items() if name not in placed and (one.parent is None or one.parent in placed)]
        if not ready:
            return tuple(placed.values())
        for name, one in ready:
            placed[name] = Account(
                name=name,
                parent=one.parent or "root",
                users=one.users,
                fairshare=one.fairshare,
                gpus=one.grp_gpus,
                running_jobs=one.grp_jobs,
                qos=one.qos,
            )


def _qos(name: str, declared: DeclaredQos) -> Qos:
    return Qos(
        name=name,
        priority=declared.priority,
        gpus=declared.grp_gpus,
        running_jobs=declared.grp_jobs,
        gpus_per_job=declared.max_gpus_per_job,
        gpus_per_user=declared.max_gpus_per_user,
        running_jobs_per_user=declared.max_jobs_per_user,
        max_time_s=declared.max_wall,
        preempts=declared.preempt,
        grace_time_s=declared.grace_time,
        usage_factor=declared.usage_factor,
        flags=tuple(sorted(set(declared.flags))),
    )


def _preemption(declared: DeclaredSlurm) -> Preemption | None:
    """Return the declared preemption, or that by QOS of which one has a list."""
    chosen = declared.preemption
    if chosen is None:
        chosen = DeclaredPreemption(by=PreemptionOrder.QOS) if any(one.preempt for one in declared.qos.values()) else None
    if chosen is None:
        return None
    modes = {chosen.mode.value, *(one.preempt_mode for one in declared.partitions.values())}
    return Preemption(by=chosen.by.value, mode=chosen.mode.value, gang=PreemptMode.SUSPEND in modes, exempt_time_s=chosen.exempt_time)


def _saving(cluster: Cluster, declared: DeclaredSaving | None, workers: Sequence[PlanNode]) -> PowerSaving | None:
    if declared is None:
        return None
    names = [node.name for node in workers if set(node.roles) == {Role.WORKER}]
    target = cluster.target
    bmcs = {name: _switching(bmc) for name in names if isinstance(target, HostsTarget) and (bmc := target.bmc_of(name))}
    return PowerSaving(
        idle_s=declared.suspend_time,
        suspend_timeout_s=declared.suspend_timeout,
        resume_timeout_s=declared.resume_timeout,
        nodes=tuple(name for name in names if name in bmcs or not isinstance(target, HostsTarget)),
        bmcs=bmcs,
    )


def _switching(bmc: Bmc) -> SwitchingBmc:
    assert bmc.kind and bmc.address and bmc.username and bmc.password_file  # Rule bmc-incomplete.
    redfish = bmc.kind is BmcKind.REDFISH
    return SwitchingBmc(
        kind=bmc.kind.value,
        address=bmc.address,
        port=bmc.own_port,
        username=bmc.username,
        password_file=bmc.password_file,
        system=bmc.system if redfish else None,
        certificate=bmc.certificate if redfish else None,
        ca_file=bmc.ca_file if redfish and not bmc.certificate else None,
    )
