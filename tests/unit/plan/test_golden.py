"""The plans of the committed stacks: four of them whole, of the others who their nodes are and a digest of each section."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from goldens import FOLDER, Goldens, compact, digest
from support.rows import each_row

from rackwright import rules
from rackwright.inventory import paths
from rackwright.model import Severity
from rackwright.plan import Plan, PlanNode, expand
from rackwright.stackfile.load import load_stack
from rackwright.yaml_loader import load_yaml

STACKS = {file.name.removeprefix("Pulumi.").removesuffix(".yaml"): file for file in sorted(paths.stacks().glob("Pulumi.*.yaml"))}
WHOLE = ("lab", "lab-k8s", "aws-p5", "onprem-gpu")
"""One of each kind of target and of scheduler, with file systems of three kinds."""


def planned(stack: str) -> Plan:
    """The plan of a stack file without findings, except for what only its user can fill in and `up` requests."""
    loaded = load_stack(STACKS[stack])
    found = rules.check(loaded, date(2026, 12, 1))
    assert all(rules.RULES[finding.rule].level_on_deploy is Severity.ERROR for finding in found), "\n".join(map(str, found))
    assert loaded.cluster is not None
    return expand(loaded.cluster, loaded.stack)


def shortened(nodes: list[PlanNode]) -> Iterator[str]:
    """Name and address of nodes; a run of both, counted upwards, by its ends."""
    numbered = [(node, *node.address.rsplit(".", 1)) for node in nodes]
    for _, run in itertools.groupby(enumerate(numbered), lambda one: (one[1][1], int(one[1][2]) - one[0], one[1][0].index - one[0])):
        first, *_, last = [node for _, (node, *_) in run] * 2
        ends = [first, last] if first != last else [first]
        yield f"{' to '.join(node.name for node in ends)} at {' to '.join(node.address for node in ends)}"


def summary(plan: Plan) -> dict[str, Any]:
    """Who is there, and a digest of each section of the plan."""
    data = plan.to_data()
    groups = {node.group: [one for one in plan.nodes if one.group == node.group] for node in plan.nodes}
    slurm = plan.scheduler.kind == "slurm"
    queues = {one.name: len(one.nodes) for one in plan.scheduler.partitions} if slurm else [one.name for one in plan.scheduler.namespaces]
    return {
        "target": plan.target.kind,
        "network": plan.network.cidr,
        "nodes": {group: [len(nodes), *shortened(nodes)] for group, nodes in groups.items()},
        "groups": {group: len(nodes) for group, nodes in plan.groups.items() if nodes},
        "scheduler": {"kind": plan.scheduler.kind, "controllers": list(plan.scheduler.controllers), "queues": queues},
        "storage": {one.name: f"{one.kind} at {one.mount}, {len(one.clients)} clients" for one in plan.storage},
        "volumes": len(plan.volumes),
        **({"software": data["software"]} if plan.software else {}),  # No whole plan has it.
        "digests": {name: digest(section) for name, section in data.items() if isinstance(section, dict | list) and section},
        "values": {name: section for name, section in data.items() if not (isinstance(section, dict | list) and section)},
    }


def changed_sections(summary: dict[str, Any], file: Path) -> list[str]:
    """Top-level keys of the plan whose digest or value is not what a golden file says."""
    kept = load_yaml(file.read_text()) if file.is_file() else {}
    return [
        name
        for part in ("digests", "values")
        for name in {**kept.get(part, {}), **summary[part]}
        if kept.get(part, {}).get(name, "absent") != summary[part].get(name, "absent")
    ]


@pytest.mark.parametrize("stack", WHOLE)
def test_whole_plan_is_unchanged(stack: str, goldens: Goldens) -> None:
    """A renumbered node is a replaced node: it must not happen by the way."""
    goldens.check(f"plan/{stack}.json", compact(planned(stack).to_data()) + "\n")


@pytest.mark.parametrize("stack", [stack for stack in STACKS if stack not in WHOLE])
def test_summary_of_the_plan_is_unchanged(stack: str, goldens: Goldens) -> None:
    name, told = f"plan/{stack}.yml", summary(planned(stack))
    if changed := [] if goldens.update else changed_sections(told, FOLDER / name):
        pytest.fail(
            f"the plan of {stack} changed in: {', '.join(changed)}. `rackwright plan {stack} --json`, run here and on the commit "
            "before and compared with diff, shows how; where it is intended, --update-golden writes the summary again"
        )
    goldens.check(name, yaml.safe_dump(told, sort_keys=False, default_flow_style=None, width=140))


def test_each_golden_plan_is_of_a_committed_stack(goldens: Goldens) -> None:
    goldens.check_names("plan", [f"{stack}.json" if stack in WHOLE else f"{stack}.yml" for stack in STACKS])


def test_there_are_three_labs_that_can_be_up_together() -> None:
    """Each with a network and a port of its own."""
    plans = [planned(stack) for stack in ("lab", "lab-small", "lab-large")]
    assert len({plan.network.cidr for plan in plans}) == 3
    assert len({plan.access.port for plan in plans}) == 3


def test_the_lab_is_the_one_of_the_founding_documents() -> None:
    """One login node, two workers with eight GPUs, one storage node, one shared file system."""
    plan = planned("lab")
    assert [(node.name, node.address) for node in plan.nodes] == [
        ("login0", "10.77.0.16"),
        ("worker0", "10.77.0.24"),
        ("worker1", "10.77.0.25"),
        ("storage0", "10.77.0.88"),
    ]
    assert [(node.name, node.gpus, node.gpu_type) for node in plan.scheduler.nodes] == [("worker0", 8, "h100"), ("worker1", 8, "h100")]
    assert [(fs.mount, len(fs.clients)) for fs in plan.storage] == [("/mnt/sharedfs", 4)]


@each_row("file", STACKS.values(), ids=lambda file: file.name)
def test_a_stack_file_says_what_it_is_for_and_where_its_schema_is(file: Path) -> None:
    """The first line is for people, the second for their editors."""
    first, second = file.read_text().splitlines()[:2]
    assert first.startswith("# ")
    assert first.endswith(".")
    prefix = "# yaml-language-server: $schema="
    assert second.startswith(prefix)
    assert (file.parent / second.removeprefix(prefix)).resolve().is_file()
