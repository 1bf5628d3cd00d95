"""The plans of the committed stacks, whole. `UPDATE_GOLDEN=1 pytest tests/unit/plan` writes them anew; the diff is the review."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

import pytest

from rackwright import rules
from rackwright.handover import paths
from rackwright.model import Severity, load_stack
from rackwright.plan import Plan, expand

GOLDEN = Path(__file__).parents[2] / "golden" / "plan"
STACKS = sorted(paths.stacks().glob("Pulumi.*.yaml"))


def planned(file: Path) -> Plan:
    """The plan of a stack file nobody has anything to say about, but for what only its user can fill in and `up` asks for."""
    loaded = load_stack(file)
    found = rules.check(loaded, date(2026, 12, 1))
    assert all(rules.RULES[finding.rule].at_up is Severity.ERROR for finding in found), "\n".join(map(str, found))
    assert loaded.cluster is not None
    return expand(loaded.cluster, loaded.stack)


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.name)
def test_the_plan_is_as_it_was(file: Path) -> None:
    """A renumbered node is a replaced node: it must not happen by the way."""
    text = json.dumps(planned(file).to_data(), indent=2) + "\n"
    golden = GOLDEN / f"{file.name.removeprefix('Pulumi.').removesuffix('.yaml')}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_there_are_three_labs_that_can_be_up_together() -> None:
    """Each with a network and a port of its own."""
    plans = [planned(file) for file in STACKS if load_stack(file).stack in {"lab", "lab-small", "lab-large"}]
    assert len({plan.network.cidr for plan in plans}) == 3
    assert len({plan.access.port for plan in plans}) == 3


def test_the_lab_is_the_one_of_the_founding_documents() -> None:
    """One login node, two workers with eight GPUs, one storage node, one shared file system."""
    plan = planned(paths.stack_file("lab"))
    assert [(node.name, node.address) for node in plan.nodes] == [
        ("login0", "10.77.0.16"),
        ("worker0", "10.77.0.24"),
        ("worker1", "10.77.0.25"),
        ("storage0", "10.77.0.88"),
    ]
    assert [(node.name, node.gpus, node.gpu_type) for node in plan.scheduler.nodes] == [("worker0", 8, "h100"), ("worker1", 8, "h100")]
    assert [(fs.mount, len(fs.clients)) for fs in plan.storage] == [("/mnt/sharedfs", 4)]


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.name)
def test_a_stack_file_says_what_it_is_for_and_where_its_schema_is(file: Path) -> None:
    """The first line is for people, the second for their editors."""
    first, second = file.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert first.endswith(".")
    prefix = "# yaml-language-server: $schema="
    assert second.startswith(prefix)
    assert (file.parent / second.removeprefix(prefix)).resolve().is_file()
