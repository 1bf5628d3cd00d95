"""The checks: one row per check function of infra/rackwright/checks/cluster, with its scope, its lowest level and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_name("checks.yml")
_ACCEPTANCE: Final = Path(__file__).with_name("acceptance.yml")


class Kind(StrEnum):
    """Method of a check: `passive` only reads and is safe on a busy cluster, `job` runs through the scheduler on idle nodes."""

    PASSIVE = "passive"
    JOB = "job"


class Level(StrEnum):
    """Verification level."""

    CHECKS = "checks"
    SMOKE = "smoke"
    FULL = "full"

    def covers(self, other: Level) -> bool:
        """Return whether a run at this level includes the checks of the other level.

        >>> Level.SMOKE.covers(Level.CHECKS), Level.CHECKS.covers(Level.SMOKE)
        (True, False)
        """
        order = list(Level)
        return order.index(self) >= order.index(other)


class Feature(StrEnum):
    """A part that a plan may lack. A check may be omitted only because the plan has no such part."""

    ALWAYS = "always"
    MACS = "macs"
    GATEWAY = "gateway"
    NEIGHBOURS = "neighbours"
    USERS = "users"
    EXISTING_MACHINES = "existing-machines"
    """Machines whose network rackwright did not create."""
    OWN_KERNEL = "own-kernel"
    """Nodes that share no kernel with other nodes, as containers do."""
    BONDS = "bonds"
    VLANS = "vlans"
    ENTRY = "entry"
    INSIDERS = "insiders"
    LAB = "lab"
    SLURM = "slurm"
    HEALTH = "health"
    SUBMIT = "submit"
    SACKD = "sackd"
    CONSTRAINED_MEMORY = "constrained-memory"
    CONSTRAINED_CORES = "constrained-cores"
    CONSTRAINED_DEVICES = "constrained-devices"
    PAM_SLURM_ADOPT = "pam-slurm-adopt"
    ACCOUNTING = "accounting"
    ACCOUNTS = "accounts"
    QOS = "qos"
    METADATA_SERVICE = "metadata-service"
    NEURON = "neuron"
    GPUS = "gpus"
    AMD_GPUS = "amd-gpus"
    AMD_XGMI = "amd-xgmi"
    ROCM = "rocm"
    SHARED_GPUS = "shared-gpus"
    WHOLE_GPUS = "whole-gpus"
    MIG = "mig"
    GPU_SOFTWARE = "gpu-software"
    NVSWITCH = "nvswitch"
    NVLINK_RACK = "nvlink-rack"
    NVLINK_DOMAIN = "nvlink-domain"
    NVLINK = "nvlink"
    DCGM = "dcgm"
    FABRIC = "fabric"
    INFINIBAND = "infiniband"
    LINK_RATES = "link-rates"
    SOFTWARE_RDMA = "software-rdma"
    STORAGE = "storage"
    CREATED_STORAGE = "created-storage"
    EXISTING_STORAGE = "existing-storage"
    """With a user of the plan, whose rights on it are verified."""
    NFS = "nfs"
    NFS_SERVER = "nfs-server"
    JOBS_ON_STORAGE = "jobs-on-storage"
    JOBS = "jobs"
    JOBS_SHARE = "jobs-share"
    JOBS_ON_FABRIC = "jobs-on-fabric"
    TUNING = "tuning"
    FIO = "fio"
    HPCC = "hpcc"
    SCRATCH = "scratch"
    ACTIONS_RUNNER = "actions-runner"
    THREADS = "threads"
    USER_GROUPS = "user-groups"
    KUBERNETES = "kubernetes"
    KUBERNETES_GPUS = "kubernetes-gpus"
    WORKLOAD_IMAGES = "workload-images"
    """Images for pods of users that no registry has: the bundle brings them to each worker."""
    NAMESPACES = "namespaces"
    QUOTAS = "quotas"
    CLAIMS = "claims"
    POD_NEIGHBOURS = "pod-neighbours"
    POD_ROUTES = "pod-routes"
    POD_NETWORK = "pod-network"
    FLANNEL = "flannel"
    VXLAN = "vxlan"
    POLICIES = "policies"
    VIRTUAL_ADDRESS = "virtual-address"
    ADDONS = "addons"
    ADDON_HOOKS = "addon-hooks"
    LEADER_WORKER_SETS = "leader-worker-sets"
    PYTORCH_JOBS = "pytorch-jobs"
    LOAD_BALANCERS = "load-balancers"
    AUTOSCALING = "autoscaling"
    DEVICE_CLAIMS = "device-claims"
    QUEUES = "queues"
    MEASUREMENTS = "measurements"
    MONITORING = "monitoring"
    PROMETHEUS = "prometheus"
    SITE_MONITORING = "site-monitoring"
    STACK_CLIENT = "stack-client"
    SITE_API = "site-api"


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A check, as declared in the catalogue."""

    subject: str
    name: str
    kind: Kind
    level: Level
    group: str
    """Group of the inventory (`@entry`, `@insiders`, `@submit` are lists of its `cluster`): one result for each of its nodes."""
    needs: tuple[Feature, ...]
    hardware: str | None
    """Subsystem that determines whether evidence is real: it is simulated if the target simulates the subsystem."""
    health: bool
    """Whether a compute node runs the check itself, and is drained if it fails."""
    limit: float | None
    """Threshold of the check, unless it depends on the plan; checks.yml has its unit and source."""
    remedy: str
    remedy_in_pods: str = ""
    """Remedy if Kubernetes runs the jobs; empty if it is the same."""
    real_only: bool = False
    """Whether to omit the check if its hardware is simulated: the speed of a simulation is no evidence."""

    @property
    def key(self) -> str:
        """Return subject and name: the id without the node."""
        return f"{self.subject}.{self.name}"

    def in_pods(self) -> CheckSpec:
        """Return the check with its remedy on Kubernetes."""
        return replace(self, remedy=self.remedy_in_pods) if self.remedy_in_pods else self

    def id_on(self, node: str) -> str:
        """Return the id of the check's result on a node."""
        return f"{self.key}[{node}]"


@cache
def checks() -> Mapping[str, CheckSpec]:
    """Return all checks by key, in the order in which they are reported."""
    return _read(_FILE)


@cache
def acceptance() -> Mapping[str, CheckSpec]:
    """Return all checks of the acceptance by key; their subjects are its phases."""
    return {key: replace(spec, kind=Kind.JOB) for key, spec in _read(_ACCEPTANCE).items()}


def _read(path: Path) -> dict[str, CheckSpec]:
    subjects: dict[str, dict[str, Any]] = load_yaml(path.read_text(encoding="utf-8"))
    return {
        spec.key: spec
        for subject, defaults in subjects.items()
        for name, row in defaults["checks"].items()
        for spec in [_spec(f"{path.name}: {subject}.{name}", subject, name, defaults, row)]
    }


def _spec(where: str, subject: str, name: str, defaults: Mapping[str, Any], row: Mapping[str, Any]) -> CheckSpec:
    """Return a row merged with the defaults of its subject. Raise for an unknown key."""
    unknown = (set(row) - _KEYS) | (set(defaults) - _KEYS - {"checks"})
    if unknown:
        raise ValueError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    both = {"kind": "passive", "level": "checks", **{key: value for key, value in defaults.items() if key != "checks"}, **row}
    return CheckSpec(
        subject=subject,
        name=name,
        kind=Kind(both["kind"]),
        level=Level(both["level"]),
        group=both["group"],
        needs=tuple(Feature(need) for need in both.get("needs", ())),
        hardware=both.get("hardware"),
        health=both.get("health", False),
        limit=both.get("limit"),
        remedy=" ".join(both["remedy"].split()),
        remedy_in_pods=" ".join(both.get("remedy_in_pods", "").split()),
        real_only=both.get("real_only", False),
    )


_KEYS: Final = {"kind", "level", "group", "needs", "hardware", "health", "limit", "remedy", "remedy_in_pods", "real_only"}
