"""One round to every node, over the harness of the checks: each answer becomes a part of the node's facts, or the reason why not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.checks.hardware.partial_reading import PartialValue
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.hardware.document import CollectedFacts
from rackwright.report.hardware.facts import Facts, Part


def probes_of(declared: Inventory, name: str, parts: Collection[Part]) -> list[Probe[Any]]:
    """Return the questions for a node: about GPUs if it has some of NVIDIA, about their links if they are not simulated."""
    gpus = declared.nodes[name].get("gpus")
    left_out = {Part.GPUS, Part.GPU_LINKS} if not gpus or gpus.get("vendor") == "amd" else {Part.GPU_LINKS} if gpus["simulated"] else set()
    return [HARDWARE_PROBES[part] for part in parts if part not in left_out]


def collect(declared: Inventory, ssh_config: Path, parts: Collection[Part]) -> dict[str, CollectedFacts]:
    """Query all nodes at once, and wait."""
    runner = ProbeRunner(declared, ssh_config, [HARDWARE_PROBES[part] for part in parts])
    runner.start()
    return {
        name: facts_of({question.name: runner.raw(question, name) for question in probes_of(declared, name, parts)})
        for name in declared.nodes
    }


def facts_of(answers: Mapping[str, CommandOutput]) -> CollectedFacts:
    """Return a node's answers as facts. A node without any answer does not respond."""
    facts: dict[str, Any] = {}
    unknown: dict[Part, str] = {}
    for name, raw in answers.items():
        try:
            fact = HARDWARE_PROBES[Part(name)].read(raw)
            facts[name] = fact.value if isinstance(fact, PartialValue) else fact
            if getattr(fact, "why", ""):
                unknown[Part(name)] = fact.why
            if getattr(fact, "lost", ()):
                facts["gpus_lost"] = fact.lost
        except UndeterminedError as error:
            unknown[Part(name)] = str(error)
    if answers and not facts and len({raw.error for raw in answers.values()}) == 1:
        return CollectedFacts(unreachable=next(iter(answers.values())).error or "it answered no query")
    return CollectedFacts(Facts(**facts, unknown=unknown))
