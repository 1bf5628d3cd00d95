"""The alerts of monitoring: one row per rule, with its threshold, its source and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_name("alerts.yml")
_KEYS: Final = frozenset({"severity", "for", "expr", "power_saving", "limit", "source", "needs", "event", "summary", "remedy"})
RESULTS: Final = "results"
"""Group of the alerts about results of rackwright's own runs."""
JOBS: Final = "jobs"
"""Group of the alerts about jobs of users, which are no state of the cluster."""
PAGE: Final = "docs/reference/alerts.md"
"""Page with a section for each alert."""


class AlertSeverity(StrEnum):
    """Urgency of an alert."""

    CRITICAL = "critical"
    WARNING = "warning"
    NONE = "none"
    """Sent to no receiver."""


class Part(StrEnum):
    """A part that a plan may lack; rules that read its metrics are then left out."""

    PROMETHEUS = "prometheus"
    """The cluster has its own Prometheus and Alertmanager, which these rules are about."""
    REMOTE_WRITE = "remote-write"
    POWER_SAVING = "power-saving"
    OWN_KERNEL = "own-kernel"
    """Nodes have a kernel of their own: memory, clock and kills in a container are those of its machine."""
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    GPUS = "gpus"
    ACCOUNTING = "accounting"
    STORAGE = "storage"
    FABRIC = "fabric"
    INFINIBAND = "infiniband"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """A rule, as declared in the catalogue."""

    name: str
    group: str
    severity: AlertSeverity
    hold: str
    """Time for which the expression must hold, in the notation of Prometheus."""
    expression: str
    power_saving: str
    """Expression where Slurm stops idle nodes, which are not lost; empty if it is the same."""
    source: str
    """Why this threshold and this time."""
    needs: frozenset[Part]
    event: bool
    """Whether it tells of something that has happened, and not of a state that lasts."""
    summary: str
    remedy: str

    @property
    def is_checked(self) -> bool:
        """Return whether it fails a verification: not if it always fires, tells of a past event, of a verification, or of a job."""
        return self.severity is not AlertSeverity.NONE and not self.event and self.group not in (RESULTS, JOBS)

    @property
    def runbook(self) -> str:
        """Return the section of the documentation about the alert."""
        return f"{PAGE}#{self.name.lower()}"


@cache
def alerts() -> Mapping[str, AlertRule]:
    """Return all rules by name, in the order of the table."""
    groups: dict[str, dict[str, Any]] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return {name: _rule(group, name, row) for group, rows in groups.items() for name, row in rows.items()}


def _rule(group: str, name: str, row: Mapping[str, Any]) -> AlertRule:
    """Return a row as a rule. Raise ValueError for an unknown key, or a limit that the expression does not use."""
    where = f"{_FILE.name}: {group}.{name}"
    if unknown := set(row) - _KEYS:
        raise ValueError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    if ("limit" in row) != ("{limit}" in row["expr"]):
        raise ValueError(f"{where}: `limit` and {{limit}} belong together")
    return AlertRule(
        name=name,
        group=group,
        severity=AlertSeverity(row["severity"]),
        hold=row["for"],
        expression=" ".join(row["expr"].replace("{limit}", str(row.get("limit", ""))).split()),
        power_saving=" ".join(row.get("power_saving", "").split()),
        source=" ".join(row["source"].split()),
        needs=frozenset(Part(need) for need in row.get("needs", ())),
        event=row.get("event", False),
        summary=" ".join(row["summary"].split()),
        remedy=" ".join(row["remedy"].split()),
    )
