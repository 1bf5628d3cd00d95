"""Replayed phases: a plan, jobs with given output, and the findings of the phase."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from rackwright.catalog.checks import Level, acceptance
from rackwright.checks.acceptance.phase import Finding, Job, Output, Part, PhaseScope, Task
from rackwright.inventory.reader import Inventory
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).with_name("captured")
PASSED, FAILED, UNKNOWN, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED
FOUR = tuple(f"worker{number}" for number in range(4))
NODES = ("worker0", "worker1")
SOFTWARE_FABRIC = {"kind": "roce", "rate": "100MbE", "rate_gbps": 0.1}
RAILS = tuple(f"mlx5_{number}" for number in range(8))


def text(tool: str, name: str) -> str:
    """Return a captured text."""
    return (CAPTURED / tool / f"{name}.txt").read_text(encoding="utf-8")


def scope(
    nodes: tuple[str, ...] = NODES,
    *,
    fabric: bool = True,
    gpus: int = 8,
    target: str = "hosts",
    baseline: Mapping[str, float] | None = None,
    tools: tuple[str, ...] = (),
    scratch: str = "",
    software_rdma: bool = False,
) -> PhaseScope:
    """Return nodes with eight H100 on an NDR fabric, and a shared file system.

    `scratch`: where it is mounted; `software_rdma`: with two rails of virtual machines in place of the fabric.
    """
    declared = _declared(nodes, fabric, gpus, target, tools, scratch, software_rdma)
    return PhaseScope(
        declared=declared,
        nodes=nodes,
        states={},
        busy=frozenset(),
        run="1",
        submitter="login0",
        user="alice",
        mount="/mnt/sharedfs",
        folder="/mnt/sharedfs/run/09",
        parts=(Part("gpu", nodes),),
        baseline=baseline or {},
    )


def _declared(
    nodes: tuple[str, ...], fabric: bool, gpus: int, target: str, tools: tuple[str, ...], scratch: str, software_rdma: bool
) -> Inventory:
    """Return the inventory of a scope."""
    features = [name for name, wanted in (("tools", tools), ("scratch", scratch)) if wanted]
    record = {
        "gpus": {"model": "h100", "count": gpus},
        "rails": RAILS if fabric else (),
        "group": "worker",
        "cpus": 128,
        "features": features,
    }
    rails = {node: _software_rails(place) for place, node in enumerate(nodes)} if software_rdma else {}
    return Inventory(
        stack="test",
        target=target,
        level=Level.FULL,
        cluster={"scheduler": {"nodes": [{"name": node} for node in nodes], "config_overrides": target == "lab"}, "simulated": []},
        nodes={node: {**record, "name": node, **rails.get(node, {})} for node in nodes},
        out={},
        groups={},
        plan="0",
        fabric=SOFTWARE_FABRIC if software_rdma else {"kind": "infiniband", "rate": "NDR"} if fabric else None,
        node_stack={"tools": list(tools), "scratch": {"mount": scratch} if scratch else None},
    )


def _software_rails(place: int) -> dict[str, object]:
    """Return the rails of a virtual machine."""
    interfaces = [{"name": f"eth{rail + 1}", "device": f"rxe{rail}", "address": f"198.18.{rail}.{24 + place}"} for rail in range(2)]
    return {"rails": ("rxe0", "rxe1"), "rail_interfaces": interfaces}


def output(job: Job, said: Callable[[Job, str, int], object]) -> Output:
    """Return the outcome of a job whose tasks printed a text; `said` by job, node and rank."""
    places = [
        (node, rank)
        for number, node in enumerate(job.nodes)
        for rank in range(number * job.tasks_per_node, (number + 1) * job.tasks_per_node)
    ]
    found = ((node, rank, said(job, node, rank)) for node, rank in places)
    tasks = tuple(Task(rank, node, node, 1000, json.dumps(answer)) for node, rank, answer in found if answer is not None)
    return Output(job, "17", 0, "", tasks, "", 1.0)


def judged(phase: object, about: PhaseScope, said: Callable[[Job, str, int], object]) -> dict[tuple[str, str], Finding]:
    """Return all findings, by check and node."""
    outputs = {job.name: output(job, said) for job in phase.PHASE.jobs(about)}
    return {(each.check, each.node): each for each in phase.PHASE.evaluate(about, outputs)}


def verdicts(found: Mapping[tuple[str, str], Finding], *, without: tuple[Verdict, ...] = (PASSED,)) -> dict[str, Verdict]:
    """Return the findings that did not pass, by `check[node]`."""
    return {f"{check}[{node}]": each.verdict for (check, node), each in found.items() if each.verdict not in without}


def checks_of(phase: str) -> set[str]:
    """Return the rows of the catalogue."""
    return {spec.name for spec in acceptance().values() if spec.subject == phase}
