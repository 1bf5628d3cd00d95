"""Which results a run owes: the catalogue of checks over the groups of a plan. What is missing from the answer is unknown, never green."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from rackwright.catalog.checks import CheckSpec, Kind, Level
from rackwright.report.declared import Declared
from rackwright.report.verdict import PARTIAL, Evidence, NotRunReason


class Kinds(StrEnum):
    """Which kinds of checks a run includes."""

    PASSIVE = "passive"
    JOB = "job"
    ALL = "all"

    def include(self, kind: Kind) -> bool:
        """Whether checks of the kind run."""
        return self is Kinds.ALL or self.value == kind.value


@dataclass(frozen=True, slots=True)
class Expected:
    """One result a run owes."""

    id: str
    spec: CheckSpec
    node: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NotRun:
    """A check that is no part of the run."""

    id: str
    """Key of the check; a node's name where the whole node is left out."""
    reason: NotRunReason
    detail: str = ""


@dataclass(frozen=True)
class Manifest:
    """What a run owes, and what it leaves out and why."""

    level: Level
    expected: Mapping[str, Expected]
    not_run: tuple[NotRun, ...]
    empty_groups: Mapping[str, str]
    """By check: the group that has no member although the plan has the part. Such a run cannot pass."""

    @property
    def partial(self) -> bool:
        """Whether the run was limited to some nodes or phases, or left out passive checks: it says nothing about the cluster as a whole."""
        return any(item.reason in PARTIAL for item in self.not_run)


def manifest(
    declared: Declared,
    catalogue: Mapping[str, CheckSpec],
    level: Level,
    kinds: Kinds = Kinds.ALL,
    nodes: Collection[str] | None = None,
) -> Manifest:
    """What a run at this level owes. Passive checks alone prove no more than level `checks`, whatever level was asked for."""
    claimed = Level.CHECKS if kinds is Kinds.PASSIVE else level
    expected: dict[str, Expected] = {}
    not_run: list[NotRun] = []
    empty: dict[str, str] = {}
    features, simulated = declared.features, declared.simulated
    for key, spec in catalogue.items():
        if not features.issuperset(spec.needs):
            not_run.append(NotRun(key, NotRunReason.NOT_IN_PLAN))
        elif not claimed.covers(spec.level):
            not_run.append(NotRun(key, NotRunReason.LEVEL, f"runs from level {spec.level}"))
        elif not kinds.include(spec.kind):
            not_run.append(NotRun(key, NotRunReason.KIND, f"only {kinds} checks were asked for"))
        elif not (members := declared.members(spec.group)):
            empty[key] = spec.group
        else:
            evidence = Evidence.SIMULATED if spec.hardware in simulated else Evidence.REAL
            asked = [name for name in members if nodes is None or name in nodes]
            expected |= {spec.id_on(name): Expected(spec.id_on(name), spec, name, evidence) for name in asked}
    return Manifest(claimed, expected, tuple(not_run + _left_out(declared, nodes)), empty)


def _left_out(declared: Declared, nodes: Collection[str] | None) -> list[NotRun]:
    out = [NotRun(name, NotRunReason.NODE_OUT, str(record.get("reason") or "")) for name, record in declared.out.items()]
    others = [] if nodes is None else [name for name in declared.nodes if name not in nodes]
    return out + [NotRun(name, NotRunReason.NODES, "only other nodes were asked for") for name in others]
