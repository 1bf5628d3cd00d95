"""Slurm in the plan: nodes, partitions, accounts, quality of service, and settings of the cluster."""

from __future__ import annotations

from typing import Literal

from rackwright.model.base import ConfigModel
from rackwright.model.scheduler.slurm import Gres
from rackwright.plan.fabric.slurm import Topology


class GpuGres(ConfigModel):
    """A GPU, or an instance of one, as Slurm allocates it on a node with MIG or with GPUs of several models."""

    type: str
    """h100 or h100_3g.40gb."""
    gpu: int
    """Number of the device file."""
    instance: int | None
    """Number of the instance on its GPU; None for a whole GPU."""


class SchedulerNode(ConfigModel):
    """A worker with the values for the scheduler."""

    name: str
    cpus: int
    threads_per_core: int | None = None
    """None where the stack file does not declare it: Slurm then takes each CPU for a core."""
    sockets: int | None = None
    """None where the stack file does not declare it: Slurm then takes each core for a socket."""
    memory_mib: int
    gpus: int
    """GPUs that jobs can request; on a node with MIG, instances and whole GPUs."""
    gpu_type: str | None
    """None on a node with MIG or with GPUs of several models, whose types `gres` lists."""
    gpu_vendor: Literal["nvidia", "amd"] | None = None
    """Decides on the device files of the GPUs and on the variable that tells programs which ones a job has."""
    gres: tuple[GpuGres, ...] = ()
    """Every GPU and instance of a node with MIG or with GPUs of several models; empty on all others."""
    features: tuple[str, ...] = ()
    weight: int = 1


class Partition(ConfigModel):
    """A queue."""

    name: str
    nodes: tuple[str, ...]
    default: bool
    gres: tuple[Gres, ...]
    max_time: int | None
    """Seconds."""
    default_time: int | None = None
    """Seconds; None for `max_time`."""
    max_nodes: int | None = None
    priority_tier: int = 1
    preempt_mode: str | None = None
    """None for the mode of the cluster."""
    grace_time_s: int = 0
    exclusive: bool = False
    allow_accounts: tuple[str, ...] = ()
    """Empty for all."""
    allow_groups: tuple[str, ...] = ()
    """Empty for all."""
    qos: str | None = None
    """QOS whose limits apply to the partition."""
    allow_qos: tuple[str, ...] = ()
    """Empty for all."""


class SwitchingBmc(ConfigModel):
    """BMC of a node as a controller reaches it. The files are on the control machine; their content is in no plan."""

    kind: Literal["redfish", "ipmi"]
    address: str
    port: int
    username: str
    password_file: str
    system: str | None
    certificate: str | None
    ca_file: str | None


class PowerSaving(ConfigModel):
    """Idle time before workers are stopped, and time limits of stopping and starting."""

    idle_s: int
    suspend_timeout_s: int
    resume_timeout_s: int
    nodes: tuple[str, ...] = ()
    """Nodes that may be stopped: workers without another role, on existing machines those with a BMC."""
    bmcs: dict[str, SwitchingBmc] = {}
    """BMCs of these nodes, by node, through which the controllers switch existing machines; otherwise empty."""


class Account(ConfigModel):
    """Account with a share of the cluster; null is no limit."""

    name: str
    parent: str
    users: tuple[str, ...]
    fairshare: int
    gpus: int | None
    running_jobs: int | None
    qos: tuple[str, ...]


class Qos(ConfigModel):
    """A quality of service; null is no limit."""

    name: str
    priority: int
    gpus: int | None = None
    running_jobs: int | None = None
    gpus_per_job: int | None = None
    gpus_per_user: int | None
    running_jobs_per_user: int | None
    max_time_s: int | None
    preempts: tuple[str, ...]
    grace_time_s: int = 0
    usage_factor: float = 1
    flags: tuple[str, ...] = ()


class Preemption(ConfigModel):
    """PreemptType and its settings in slurm.conf."""

    by: Literal["partition_priority", "qos"]
    mode: Literal["requeue", "cancel", "suspend"]
    gang: bool
    """Whether the gang scheduler runs, which resumes suspended jobs."""
    exempt_time_s: int | None


class Slurm(ConfigModel):
    """Slurm; controllers in the order in which they take over."""

    kind: Literal["slurm"] = "slurm"
    cluster_name: str
    controllers: tuple[str, ...]
    accounting: str | None
    submit_hosts: tuple[str, ...]
    nodes: tuple[SchedulerNode, ...]
    partitions: tuple[Partition, ...]
    accounts: tuple[Account, ...]
    """Parents precede their children."""
    qos: tuple[Qos, ...]
    preemption: Preemption | None = None
    """None where no job preempts another."""
    drain_timeout_s: int
    health_interval_s: int | None
    """None where nodes run no health check."""
    power_saving: PowerSaving | None
    topology: Topology | None = None
    """Topology of the nodes; None where all are equally close."""
    constrains: tuple[Literal["cores", "memory", "devices"], ...]
    """Resources that control groups confine a job to; empty where Slurm uses none."""
    config_overrides: bool
    pam_slurm_adopt: tuple[str, ...]
    """Workers that admit ordinary users over SSH only while they have a job there."""
