"""The hardware report as data in the format of the contract `rackwright.hardware/4` (hardware.schema.json)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from rackwright.inventory.reader import Inventory
from rackwright.report.hardware.changes import Comparison
from rackwright.report.hardware.compare import Difference, differences, planned, simulated_parts, unread_identities, unread_sizes
from rackwright.report.hardware.facts import Facts, Part
from rackwright.report.verdict import Verdict, worst

SCHEMA: Final = "rackwright.hardware/4"


class Section(StrEnum):
    """Section of the report."""

    SUMMARY = "summary"
    GPU = "gpu"
    IB = "ib"
    STORAGE = "storage"

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of a node that the section shows."""
        return _PARTS[self]


_PARTS: Final = {
    Section.SUMMARY: tuple(Part),
    Section.GPU: (Part.GPUS, Part.GPU_LINKS, Part.NUMA),
    Section.IB: (Part.RDMA, Part.INTERFACES, Part.NUMA),
    Section.STORAGE: (Part.DISKS, Part.MOUNTS),
}


@dataclass(frozen=True)
class CollectedFacts:
    """Result of a query of a node: its facts, or the reason why there are none."""

    facts: Facts = field(default_factory=Facts)
    unreachable: str = ""


def document(
    declared: Inventory, section: Section, seen: Mapping[str, CollectedFacts], *, started: datetime, seconds: float, collected_via: str
) -> dict[str, Any]:
    """Return the report of the queried nodes. A node that is unreachable or has an unreadable part is unknown."""
    simulated = simulated_parts(declared)
    nodes = [_node(declared, name, section, seen[name], simulated) for name in declared.nodes if name in seen]
    return {
        "schema": SCHEMA,
        "stack": declared.stack,
        "plan": declared.plan,
        "target": declared.target,
        "section": section.value,
        "collected_via": collected_via,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "simulated": sorted(simulated.intersection(section.parts)),
        "nodes": nodes,
        "out": [{"name": name, "reason": str(record.get("reason") or "")} for name, record in declared.out.items()],
        "totals": _totals(nodes, simulated),
        "compared": None,
        "verdict": worst(Verdict(node["verdict"]) for node in nodes).value,
    }


def with_changes(report: dict[str, Any], comparison: Comparison) -> dict[str, Any]:
    """Return a report with its comparison with an earlier one; the verdict is the worse of both."""
    verdict = worst((Verdict(report["verdict"]), comparison.verdict))
    return {**report, "compared": comparison.data(), "verdict": verdict.value}


def _node(declared: Inventory, name: str, section: Section, seen: CollectedFacts, simulated: frozenset[Part]) -> dict[str, Any]:
    plan = planned(declared, name)
    found = () if seen.unreachable else differences(plan, seen.facts, simulated)
    unknown = seen.facts.unknown | unread_identities(plan, seen.facts) | unread_sizes(plan, seen.facts)
    facts = asdict(seen.facts)
    return {
        "name": name,
        "verdict": _verdict(seen.unreachable or unknown, found).value,
        "reason": seen.unreachable,
        "planned": plan,
        "facts": {part.value: facts[part] for part in section.parts},
        "unknown": {part.value: why for part, why in unknown.items()},
        "differences": [asdict(one) for one in found],
    }


def _verdict(unknown: str | Mapping[Part, str], found: Collection[Difference]) -> Verdict:
    if unknown:
        return Verdict.UNKNOWN
    return Verdict.FAILED if found else Verdict.PASSED


def _totals(nodes: Collection[Mapping[str, Any]], simulated: frozenset[Part]) -> dict[str, dict[str, int | None]]:
    """Return planned and found totals of all nodes. Found is None if a node did not report, or if nodes share one machine."""
    gpus = [(node["planned"]["gpus"] or {}) for node in nodes]
    return {
        "nodes": {"planned": len(nodes), "found": sum(not node["reason"] for node in nodes)},
        "cpus": {"planned": sum(node["planned"]["cpus"] for node in nodes), "found": _sum(nodes, Part.CPUS, simulated, _cpus)},
        "memory_mib": {
            "planned": sum(node["planned"]["memory_mib"] for node in nodes),
            "found": _sum(nodes, Part.MEMORY, simulated, lambda facts: int(facts)),
        },
        "gpus": {"planned": sum(one.get("count", 0) for one in gpus), "found": _sum(nodes, Part.GPUS, frozenset(), len)},
        "gpu_memory_mib": {
            "planned": sum(_planned_memory(one) for one in gpus),
            "found": _sum(nodes, Part.GPUS, frozenset(), _gpu_memory),
        },
        "rdma_ports": {"planned": sum(len(node["planned"]["rails"]) for node in nodes), "found": _sum(nodes, Part.RDMA, frozenset(), len)},
    }


def _planned_memory(gpus: Mapping[str, Any]) -> int:
    """Return the planned memory of all GPUs of a node in MiB; those that share the memory of their CPU have none."""
    others = gpus.get("others", ())
    alike = gpus.get("count", 0) - sum(len(one["devices"]) for one in others)
    memory = alike * (gpus.get("memory_mib") or 0) + sum(len(one["devices"]) * (one["memory_mib"] or 0) for one in others)
    return int(memory)


def _gpu_memory(gpus: Collection[Mapping[str, Any]]) -> int | None:
    sizes = [gpu["memory_mib"] for gpu in gpus]
    return None if None in sizes else sum(sizes)


def _cpus(facts: Mapping[str, Any]) -> int:
    return int(facts["total"])


def _sum(nodes: Collection[Mapping[str, Any]], part: Part, simulated: frozenset[Part], count: Any) -> int | None:
    """Return the sum over the nodes that have the part, or None if one of them did not report."""
    if part in simulated:
        return None
    relevant = [node for node in nodes if part is not Part.GPUS or node["planned"]["gpus"]]
    facts = [node["facts"].get(part.value) for node in relevant]
    counts = [None if one is None else count(one) for one in facts]
    return None if None in counts else sum(one for one in counts if one is not None)
