"""Results that a run must provide: the checks of the catalogue for the groups of a plan. A missing result is unknown, never passed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from rackwright.catalog.checks import CheckSpec, Feature, Kind, Level
from rackwright.inventory.reader import Inventory
from rackwright.report.confinement import why_unconfined
from rackwright.report.verdict import PARTIAL, Evidence, NotRunReason


class Kinds(StrEnum):
    """Kinds of checks that a run includes."""

    PASSIVE = "passive"
    JOB = "job"
    ALL = "all"

    def include(self, kind: Kind) -> bool:
        """Return whether checks of this kind run."""
        return self is Kinds.ALL or self.value == kind.value


@dataclass(frozen=True, slots=True)
class Expected:
    """A result that a run must provide."""

    id: str
    spec: CheckSpec
    node: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NotRun:
    """A check that is not part of the run."""

    id: str
    """Key of the check, or name of the node if the whole node is excluded."""
    reason: NotRunReason
    detail: str = ""


@dataclass(frozen=True)
class CheckPlan:
    """The results that a run must provide, and the checks that it excludes with the reasons."""

    level: Level
    expected: Mapping[str, Expected]
    not_run: tuple[NotRun, ...]
    empty_groups: Mapping[str, str]
    """By check: a group without members although the plan includes the feature. Such a run cannot pass."""

    @property
    def partial(self) -> bool:
        """Return whether the run was limited to some nodes or phases, or excluded passive checks, and so has no verdict on the cluster."""
        return any(item.reason in PARTIAL for item in self.not_run)


def _why_other_gpus(features: Collection[Feature], missing: Collection[Feature]) -> str:
    """Return why jobs do not measure the GPUs that the plan has; empty if it has none."""
    is_about_gpus = not {Feature.WHOLE_GPUS, Feature.SHARED_GPUS}.isdisjoint(missing)
    return "its programs use CUDA, and the plan's GPUs are those of AMD" if is_about_gpus and Feature.AMD_GPUS in features else ""


def plan_checks(
    declared: Inventory,
    catalogue: Mapping[str, CheckSpec],
    level: Level,
    kinds: Kinds = Kinds.ALL,
    nodes: Collection[str] | None = None,
) -> CheckPlan:
    """Return the manifest of a run at this level. A run with passive checks only has the level `checks`, whatever level is requested."""
    claimed = Level.CHECKS if kinds is Kinds.PASSIVE else level
    expected: dict[str, Expected] = {}
    not_run: list[NotRun] = []
    empty: dict[str, str] = {}
    features, simulated = declared.features, declared.simulated
    for key, spec in catalogue.items():
        if not features.issuperset(spec.needs):
            missing = set(spec.needs) - features
            not_run.append(NotRun(key, NotRunReason.NOT_IN_PLAN, why_unconfined(declared, missing) or _why_other_gpus(features, missing)))
        elif not claimed.covers(spec.level):
            not_run.append(NotRun(key, NotRunReason.LEVEL, f"runs from level {spec.level}"))
        elif not kinds.include(spec.kind):
            not_run.append(NotRun(key, NotRunReason.KIND, f"only {kinds} checks were requested"))
        elif not (members := declared.members(spec.group)):
            empty[key] = spec.group
        else:
            evidence = Evidence.SIMULATED if spec.hardware in simulated else Evidence.REAL
            selected = [name for name in members if nodes is None or name in nodes]
            expected |= {spec.id_on(name): Expected(spec.id_on(name), spec, name, evidence) for name in selected}
    return CheckPlan(claimed, expected, tuple(not_run + _excluded(declared, nodes)), empty)


def _excluded(declared: Inventory, nodes: Collection[str] | None) -> list[NotRun]:
    out = [NotRun(name, NotRunReason.NODE_OUT, str(record.get("reason") or "")) for name, record in declared.out.items()]
    others = [] if nodes is None else [name for name in declared.nodes if name not in nodes]
    return out + [NotRun(name, NotRunReason.NODES, "only other nodes were requested") for name in others]
