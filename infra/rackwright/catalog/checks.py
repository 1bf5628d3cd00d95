"""What can be checked: one row per check function of infra/rackwright/checks/cluster: where it applies, from which level, what now."""

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
    """How a check finds out: `passive` looks only and is safe on a busy cluster, `job` runs through the scheduler on idle nodes."""

    PASSIVE = "passive"
    JOB = "job"


class Level(StrEnum):
    """How far a stack is proven."""

    CHECKS = "checks"
    SMOKE = "smoke"
    FULL = "full"

    def covers(self, other: Level) -> bool:
        """Whether a run at this level includes the other's checks.

        >>> Level.SMOKE.covers(Level.CHECKS), Level.CHECKS.covers(Level.SMOKE)
        (True, False)
        """
        order = list(Level)
        return order.index(self) >= order.index(other)


class Feature(StrEnum):
    """A part a plan may have or not; a check may be absent only because the plan has no such part."""

    ALWAYS = "always"
    MACS = "macs"
    GATEWAY = "gateway"
    NEIGHBOURS = "neighbours"
    USERS = "users"
    ENTRY = "entry"
    INSIDERS = "insiders"
    LAB = "lab"
    SLURM = "slurm"
    HEALTH = "health"
    SUBMIT = "submit"
    CONSTRAINED_MEMORY = "constrained-memory"
    CONSTRAINED_CORES = "constrained-cores"
    CONSTRAINED_DEVICES = "constrained-devices"
    ACCOUNTING = "accounting"
    ACCOUNTS = "accounts"
    QOS = "qos"
    METADATA_SERVICE = "metadata-service"
    NEURON = "neuron"
    GPUS = "gpus"
    SHARED_GPUS = "shared-gpus"
    WHOLE_GPUS = "whole-gpus"
    MIG = "mig"
    GPU_SOFTWARE = "gpu-software"
    NVSWITCH = "nvswitch"
    DCGM = "dcgm"
    FABRIC = "fabric"
    INFINIBAND = "infiniband"
    STORAGE = "storage"
    NFS = "nfs"
    JOBS_ON_STORAGE = "jobs-on-storage"
    JOBS = "jobs"
    JOBS_SHARE = "jobs-share"
    JOBS_ON_FABRIC = "jobs-on-fabric"
    TUNING = "tuning"
    THREADS = "threads"
    USER_GROUPS = "user-groups"
    KUBERNETES = "kubernetes"
    KUBERNETES_GPUS = "kubernetes-gpus"
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
    QUEUES = "queues"
    MEASUREMENTS = "measurements"


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """One check as the catalogue has it."""

    subject: str
    name: str
    kind: Kind
    level: Level
    group: str
    """Group of the inventory (`@entry`, `@insiders`, `@submit` are lists of its `cluster`): one result for each of its nodes."""
    needs: tuple[Feature, ...]
    hardware: str | None
    """Subsystem that decides whether evidence is real: simulated where the target simulates it."""
    health: bool
    """Whether a compute node asks it of itself, and is drained where it fails."""
    limit: float | None
    """The number it compares with where that is no matter of the plan; its unit and source stand in checks.yml."""
    remedy: str
    remedy_in_pods: str = ""
    """The same where Kubernetes runs the jobs; empty where it is the same."""
    real_only: bool = False
    """Whether it is left out where its hardware is simulated: a figure of a stand-in's speed is none."""

    @property
    def key(self) -> str:
        """Subject and name, the id without its node."""
        return f"{self.subject}.{self.name}"

    def in_pods(self) -> CheckSpec:
        """The check where Kubernetes runs the jobs."""
        return replace(self, remedy=self.remedy_in_pods) if self.remedy_in_pods else self

    def id_on(self, node: str) -> str:
        """The id of its result on a node."""
        return f"{self.key}[{node}]"


@cache
def checks() -> Mapping[str, CheckSpec]:
    """All checks by key, in the order in which they are reported."""
    return _read(_FILE)


@cache
def acceptance() -> Mapping[str, CheckSpec]:
    """All checks of the acceptance by key; their subjects are its phases."""
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
    """A row over the defaults of its subject. An unknown key is a typing error and raises."""
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
