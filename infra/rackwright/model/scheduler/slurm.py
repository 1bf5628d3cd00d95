"""The workload manager: Slurm or Kubernetes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from rackwright.model import limits
from rackwright.model.base import ConfigModel
from rackwright.model.names import Label, PartitionName, UserName
from rackwright.model.scheduler.kubernetes import Kubernetes
from rackwright.model.units import Seconds
from rackwright.model.update_policy import UpdatePolicy

_MAX_PRIORITY_TIER: Final = 65533
"""Maximum of PriorityTier (slurm.conf(5))."""


GpuLimit = Annotated[int, Field(ge=0), limits.SLURM_GPUS]
JobLimit = Annotated[int, Field(ge=0), limits.SLURM_NUMBER]
StateTimeout = Annotated[Seconds, limits.SLURM_TIMEOUT]


class Gres(StrEnum):
    """Generic resources that a partition can require of its nodes."""

    GPU = "gpu"


class PreemptMode(StrEnum):
    """Mechanism that takes the resources of a running job: slurm.conf(5), PreemptMode."""

    REQUEUE = "requeue"
    CANCEL = "cancel"
    SUSPEND = "suspend"


class PartitionPreemptMode(StrEnum):
    """PreemptMode of a partition, which can also exempt its jobs."""

    OFF = "off"
    REQUEUE = "requeue"
    CANCEL = "cancel"
    SUSPEND = "suspend"


class PreemptionOrder(StrEnum):
    """Property that decides which job preempts which: slurm.conf(5), PreemptType."""

    PARTITION_PRIORITY = "partition_priority"
    QOS = "qos"


class QosFlag(StrEnum):
    """Flags of a QOS, as sacctmgr(1) spells them."""

    DENY_ON_LIMIT = "DenyOnLimit"
    NO_RESERVE = "NoReserve"
    OVER_PARTITION_QOS = "OverPartQOS"
    PARTITION_TIME_LIMIT = "PartitionTimeLimit"


class Preemption(ConfigModel):
    """Preemption of running jobs by pending ones."""

    by: Annotated[PreemptionOrder, UpdatePolicy.RESTART] = Field(
        description="Property that decides which job preempts which: `priority_tier` of partitions that share nodes, or `preempt` of QOS."
    )
    mode: Annotated[PreemptMode, UpdatePolicy.RESTART] = Field(
        default=PreemptMode.REQUEUE,
        description="Mechanism: `requeue` restarts the job later, `cancel` ends it, `suspend` stops it until the other job ends "
        "(partitions without GPUs only: a suspended job keeps its GPUs).",
    )
    exempt_time: Annotated[Seconds | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Run time before which no job is preempted, for example 30m. Default: none."
    )


class Partition(ConfigModel):
    """A Slurm partition."""

    groups: Annotated[tuple[Label, ...], UpdatePolicy.RESTART] = Field(default=(), description="Groups of the partition.")
    nodes: Annotated[tuple[Label, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="Single nodes of the partition, in addition to the groups."
    )
    gres: Annotated[tuple[Gres, ...], UpdatePolicy.RUN] = Field(
        default=(), description="Generic resources that every node of the partition must have."
    )
    default: Annotated[bool, UpdatePolicy.RESTART] = Field(
        default=False, description="Default partition of jobs. Without one, the first partition is the default."
    )
    max_time: Annotated[Seconds | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Maximum run time of a job, for example 8h."
    )
    default_time: Annotated[Seconds | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Run time of a job that requests none, for example 1h. Default: `max_time`."
    )
    max_nodes: Annotated[Annotated[int, Field(ge=1), limits.SLURM_NODES] | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Maximum number of nodes of a job."
    )
    priority_tier: Annotated[int, UpdatePolicy.RESTART] = Field(
        default=1,
        ge=1,
        le=_MAX_PRIORITY_TIER,
        description="Order of partitions that share nodes: jobs in a higher tier are scheduled first. "
        "With `preemption: {by: partition_priority}`, they also preempt jobs of lower tiers.",
    )
    preempt_mode: Annotated[PartitionPreemptMode | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Mechanism that preempts jobs of the partition; `off` exempts them. Default: `preemption.mode`."
    )
    grace_time: Annotated[Seconds, UpdatePolicy.RESTART] = Field(
        default=0, description="Time between SIGTERM and the end of a preempted job, for example 2m. Default: none."
    )
    exclusive: Annotated[bool, UpdatePolicy.RESTART] = Field(
        default=False, description="Whether a job gets its nodes whole, with all CPUs and GPUs."
    )
    allow_accounts: Annotated[tuple[Label, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="Accounts whose jobs may run in the partition. Default: all."
    )
    qos: Annotated[Label | None, UpdatePolicy.RESTART] = Field(
        default=None,
        description="QOS whose limits apply to all jobs of the partition, in addition to those of the job's QOS. "
        "Jobs get neither its priority nor its preemption.",
    )
    allow_qos: Annotated[tuple[Label, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="QOS whose jobs may run in the partition. Default: all."
    )
    allow_groups: Annotated[tuple[UserName, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="User groups whose members may submit to the partition. Default: all."
    )


class Account(ConfigModel):
    """A Slurm account: its users, its share and its limits."""

    users: Annotated[tuple[UserName, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Users of the account. The first account that lists a user is the user's default account."
    )
    parent: Annotated[Label | None, UpdatePolicy.LIVE] = Field(default=None, description="Parent account.")
    fairshare: Annotated[int, limits.SLURM_FAIRSHARE, UpdatePolicy.LIVE] = Field(
        default=1, ge=1, description="Fair-share weight relative to sibling accounts."
    )
    grp_gpus: Annotated[GpuLimit | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of GPUs of all running jobs of the account."
    )
    grp_jobs: Annotated[JobLimit | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of running jobs of the account."
    )
    qos: Annotated[tuple[Label, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Allowed QOS; the first one is the default. Default: Slurm's `normal`."
    )


class Qos(ConfigModel):
    """A Slurm QOS: priority and limits that a job can request."""

    priority: Annotated[int, limits.SLURM_NUMBER, UpdatePolicy.LIVE] = Field(default=0, ge=0, description="Priority relative to other QOS.")
    grp_gpus: Annotated[GpuLimit | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of GPUs of all running jobs of the QOS, or of the partition that names it."
    )
    grp_jobs: Annotated[JobLimit | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of running jobs of the QOS, or of the partition that names it."
    )
    max_gpus_per_job: Annotated[GpuLimit | None, UpdatePolicy.LIVE] = Field(default=None, description="Maximum number of GPUs of a job.")
    max_gpus_per_user: Annotated[GpuLimit | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of GPUs of a user's running jobs."
    )
    max_jobs_per_user: Annotated[JobLimit | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum number of running jobs per user."
    )
    max_wall: Annotated[Seconds | None, UpdatePolicy.LIVE] = Field(
        default=None, description="Maximum run time of a job in whole minutes, for example 8h."
    )
    preempt: Annotated[tuple[Label, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="QOS whose running jobs may be preempted; needs no `preemption`, whose default is then by QOS with requeue."
    )
    grace_time: Annotated[Seconds, UpdatePolicy.LIVE] = Field(
        default=0, description="Time between SIGTERM and the end of a preempted job of the QOS, for example 2m. Default: none."
    )
    usage_factor: Annotated[float, UpdatePolicy.LIVE] = Field(
        default=1,
        ge=0,
        allow_inf_nan=False,
        description="Factor of the usage that fair share charges for jobs of the QOS; 0 charges nothing.",
    )
    flags: Annotated[tuple[QosFlag, ...], UpdatePolicy.LIVE] = Field(
        default=(),
        description="`DenyOnLimit` refuses jobs that exceed a limit at submission; `NoReserve` excludes jobs from backfill reservations; "
        "`OverPartQOS` overrides limits of the partition's QOS; `PartitionTimeLimit` overrides `max_time` of the partition.",
    )


class PowerSaving(ConfigModel):
    """Power saving: idle workers are stopped and started when jobs need them."""

    suspend_time: Annotated[Seconds, UpdatePolicy.RESTART] = Field(
        description="Idle time after which a worker is stopped, for example 10m."
    )
    suspend_timeout: Annotated[StateTimeout, UpdatePolicy.RESTART] = Field(default=30, description="Maximum time to stop a worker.")
    resume_timeout: Annotated[StateTimeout, UpdatePolicy.RESTART] = Field(
        default=60, description="Maximum time from starting a worker until it is ready."
    )


class Slurm(ConfigModel):
    """Slurm with MUNGE, accounting and configless workers."""

    kind: Annotated[Literal["slurm"], UpdatePolicy.FORBIDDEN] = Field(description="Slurm workload manager.")
    partitions: Annotated[dict[PartitionName, Partition], UpdatePolicy.RESTART] = Field(
        default={}, description="Partitions, by name. Default: one partition with all workers."
    )
    accounts: Annotated[dict[Label, Account], UpdatePolicy.RESTART] = Field(
        default={}, description="Accounts, by name; users without an account belong to `default`."
    )
    qos: Annotated[dict[Label, Qos], UpdatePolicy.RESTART] = Field(default={}, description="QOS, by name, in addition to Slurm's `normal`.")
    preemption: Annotated[Preemption | None, UpdatePolicy.RESTART] = Field(
        default=None, description="Preemption of running jobs. Default: by QOS with requeue if a QOS has `preempt`, otherwise none."
    )
    pam_slurm_adopt: Annotated[bool | None, UpdatePolicy.LIVE] = Field(
        default=None,
        description="Whether workers admit ordinary users over SSH only while they have a job there; the session joins the control group "
        "of the job (pam_slurm_adopt). Administrators and workers with the role login are exempt. Default: on target vm yes, otherwise no.",
    )
    drain_timeout: Annotated[Seconds, UpdatePolicy.RUN] = Field(
        default=300, description="Maximum time to wait for the jobs of a node that is being removed, for example 5m."
    )
    health_check_interval: Annotated[Seconds | None, UpdatePolicy.RESTART] = Field(
        default=60,
        description="Interval of the node health check, which drains a worker that does not match the stack file; "
        "it also runs before each job. null disables it.",
    )
    power_saving: Annotated[PowerSaving | None, UpdatePolicy.RESTART] = Field(default=None, description="Power saving: stop idle workers.")
    backup_controllers: Annotated[tuple[Label, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="Backup controllers, in order of takeover."
    )


Scheduler = Annotated[Slurm | Kubernetes, Field(discriminator="kind")]
