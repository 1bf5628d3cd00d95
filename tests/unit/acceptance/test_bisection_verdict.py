"""What the search reports: words for culprits, a finding for each node, the document, and the jobs and figures of both collectives."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console
from support.rows import each_row

from rackwright.catalog.checks import acceptance
from rackwright.checks.acceptance.bisection.collective import Collective, NcclCollective, TcpCollective, choose_collective, figure_of
from rackwright.checks.acceptance.bisection.group_test import (
    Culprit,
    CulpritKind,
    Figure,
    GroupTest,
    Outcome,
    SearchResult,
    SearchSpace,
    state_of,
)
from rackwright.checks.acceptance.bisection.search import search
from rackwright.checks.acceptance.bisection.verdict import CHECK, PHASE, as_document, describe, findings
from rackwright.checks.acceptance.harness.bisection_run import require_slurm
from rackwright.checks.acceptance.parsers import nccl
from rackwright.checks.acceptance.phase import Job, Output, Task, program
from rackwright.errors import InputError
from rackwright.report.bisection_terminal import render_bisection
from rackwright.report.schemas import schema_errors

from .played import FAILED, FOUR, NODES, PASSED, RAILS, UNKNOWN, checks_of, scope, text
from .simulated_groups import EXPECTED, Fault, SimulatedCluster, node, nodes_of, pair, rail_fabric, rail_of_all

LAB = TcpCollective({each: (f"10.77.0.{place}",) for place, each in enumerate(FOUR)}, (), EXPECTED * 8, simulated=True)


def document(space: SearchSpace, *faults: Fault, left_out: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the document of a search."""
    return as_document(search(space, SimulatedCluster(space, faults), EXPECTED), space, LAB, left_out or {}, "lab")


@each_row(
    "culprit, words",
    [
        (Culprit(CulpritKind.NODE, ("a",), ("a",)), "node a"),
        (Culprit(CulpritKind.NODE, ("a", "b", "c"), ("a", "b", "c"), undecided=True), "at least one of node a, b, c"),
        (Culprit(CulpritKind.PAIR, ("a", "b"), ("a", "b"), None, (("a",), ("b",))), "pair a and b"),
        (Culprit(CulpritKind.PAIR, ("a", "b"), ("a", "b"), None, (("a",), ("b",)), True), "a, b or the path between them"),
        (Culprit(CulpritKind.PAIR, ("a", "b", "c"), ("a", "b", "c"), "r1", (("a",), ("b", "c"))), "paths between a and b, c on r1"),
        (Culprit(CulpritKind.LEAF, ("l1", "l2"), ("a", "b", "c"), "r1", (("a",), ("b", "c"))), "paths between l1 and l2 on r1"),
        (Culprit(CulpritKind.LEAF, ("l1",), ("a", "b"), "r1"), "leaf l1 on r1"),
        (Culprit(CulpritKind.RAIL, ("r1",), ("a", "b"), "r1"), "rail r1"),
        (Culprit(CulpritKind.FABRIC, ("all nodes",), ("a", "b")), "fabric all nodes"),
    ],
)
def test_culprit_is_described(culprit: Culprit, words: str) -> None:
    assert describe(culprit) == words


def test_slow_node_fails_and_others_pass() -> None:
    space = SearchSpace(nodes_of(6))
    found = {each.node: each for each in findings(search(space, SimulatedCluster(space, [node("worker4")]), EXPECTED), space, LAB)}
    assert {name: each.verdict for name, each in found.items()} == {name: FAILED if name == "worker4" else PASSED for name in space.nodes}
    assert {each.check for each in found.values()} == {CHECK} == checks_of(PHASE)
    assert (found["worker4"].reason, found["worker4"].found) == ("node worker4 is slow", "8 MB/s: node worker4")
    assert found["worker0"].expected == "at least 32 MB/s" and found["worker0"].measurements[0].value > 32


@each_row(
    "fault, outcome, reason",
    [
        (lambda test: len(test.nodes) == 8, Outcome.ONLY_TOGETHER, "all nodes together are slow, and no smaller group is"),
        (None, Outcome.UNDETERMINED, "no result after 0 rounds"),
    ],
)
def test_search_without_culprit_is_unknown(fault: Fault | None, outcome: Outcome, reason: str) -> None:
    space = SearchSpace(nodes_of(8))
    limit = {"limit": 1} if fault is None else {}
    cluster = SimulatedCluster(space, [fault] if fault else [lambda _: True])
    result = search(space, cluster, EXPECTED, **limit)
    assert result.outcome is outcome
    assert {(each.verdict, each.reason) for each in findings(result, space, LAB)} == {(UNKNOWN, reason.replace("0 rounds", "1 rounds"))}


@each_row(
    "space, fault",
    [
        (SearchSpace(nodes_of(6)), node("worker4")),
        (SearchSpace(nodes_of(6)), pair("worker1", "worker4")),
        (SearchSpace(nodes_of(6)), lambda _: False),
        (rail_fabric(8, 4, 2), rail_of_all("mlx5_1")),
        (rail_fabric(8, 4, 2), node("worker1", "mlx5_1")),
    ],
)
def test_document_satisfies_its_schema(space: SearchSpace, fault: Fault) -> None:
    errors = schema_errors("acceptance", {"bisection": document(space, fault, left_out={"worker9": "node-busy"})})
    assert [error for error in errors if "bisection" in error] == []


def test_document_has_evidence_of_both_kinds() -> None:
    (culprit,) = document(SearchSpace(nodes_of(6)), pair("worker1", "worker4"))["culprits"]
    assert (culprit["kind"], culprit["names"], culprit["measured"], culprit["expected"]) == ("pair", ["worker1", "worker4"], 8, 40)
    assert culprit["slow"][0] == {"nodes": ["worker1", "worker4"], "rail": None, "value": 8}
    assert all({"worker1", "worker4"} - set(group["nodes"]) for group in culprit["as_planned"])
    for groups in (culprit["slow"], culprit["as_planned"]):
        assert len({tuple(group["nodes"]) for group in groups}) == len(groups) == 3
    assert culprit["next"].startswith("compare the routes between worker1 and worker4")


def test_evidence_of_rail_has_its_own_expected_figure() -> None:
    (culprit,) = document(rail_fabric(8, 4, 2), node("worker1", "mlx5_1"))["culprits"]
    assert (culprit["text"], culprit["measured"], culprit["expected"]) == ("node worker1 on mlx5_1", 4, 20)
    assert {group["rail"] for group in culprit["slow"]} == {"mlx5_1"}


def test_best_figure_of_node_is_over_all_rails() -> None:
    """A figure of one rail that exceeds that of all together is no figure of the node."""
    space = rail_fabric(4, 4, 2)
    figures = (Figure(GroupTest(space.nodes), 30.0), Figure(GroupTest(space.nodes, "mlx5_0"), 99.0))
    result = SearchResult(Outcome.AS_PLANNED, (), EXPECTED, (figures,))
    assert {each.measurements[0].value for each in findings(result, space, LAB)} == {30.0}


def test_failed_group_is_told_from_slow_one() -> None:
    states = [state_of(Figure(GroupTest(NODES), value), EXPECTED).value for value in (0.0, 1.0, 40.0, None)]
    assert states == ["failed", "slow", "as-planned", "not-measured"]


def printed(found: dict[str, Any]) -> str:
    """Return the text of a search in 80 columns."""
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(render_bisection(found))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def test_rounds_and_culprit_are_printed() -> None:
    said = printed(document(SearchSpace(FOUR), node("worker3"), left_out={"worker9": "node-busy"}))
    for words in (
        "    1  worker0, worker1, worker2, worker3     8  slow",
        "       worker2, worker3                       8  slow",
        "6 rounds, 9 jobs; as planned from 32 of 40 MB/s",
        "✗ node worker3\n  measured   8 MB/s\n  expected   40 MB/s\n",
        "  slow       worker2, worker3: 8; worker1, worker3: 8; worker0, worker3: 8",
        "  next       drain worker3; `rackwright hardware lab`",
        "not measured: worker9 (node-busy)",
        "(simulated fabric)",
    ):
        assert words in said, said


@each_row(
    "outcome, reason, words",
    [
        ("as-planned", "", "nothing found: all nodes together are as planned"),
        ("not-reproduced", "", "not reproduced: a group was slow, and as planned in its second measurement"),
        ("only-together", "", "no smaller group is"),
        ("undetermined", "login0 stopped responding", "no result: login0 stopped responding"),
    ],
)
def test_outcome_without_culprit_is_printed(outcome: str, reason: str, words: str) -> None:
    assert words in printed({**document(SearchSpace(FOUR)), "outcome": outcome, "reason": reason})


def test_large_group_is_shortened() -> None:
    assert "worker0 … worker63 (64 nodes)" in printed(document(SearchSpace(nodes_of(64))))


def test_lab_measures_its_network_and_says_so() -> None:
    about = scope(FOUR)
    for place, name in enumerate(FOUR):
        about.declared.nodes[name]["address"] = f"10.77.0.{place}"  # type: ignore[index]
    about.declared.cluster["simulated"].append("fabric")
    collective, space = choose_collective(about)
    assert (space.nodes, space.rails, space.leaf("worker0", None)) == (FOUR, (), "")
    assert "simulated" in collective.title and collective.expected == 5
    job = collective.job(GroupTest(("worker1", "worker3")), "r01-g1")
    assert json.loads(job.arguments[1]) == {"worker1": ["10.77.0.1"], "worker3": ["10.77.0.3"]}
    assert job.whole_nodes and job.nodes == ("worker1", "worker3")


def test_virtual_machines_measure_rail_by_rail() -> None:
    collective, space = choose_collective(scope(FOUR, software_rdma=True))
    assert (space.rails, collective.expected) == (("rxe0", "rxe1"), 25)
    every = json.loads(collective.job(GroupTest(NODES), "g").arguments[1])
    assert every == {"worker0": ["198.18.0.24", "198.18.1.24"], "worker1": ["198.18.0.25", "198.18.1.25"]}
    one = json.loads(collective.job(GroupTest(NODES, "rxe1"), "g").arguments[1])
    assert one == {"worker0": ["198.18.1.24"], "worker1": ["198.18.1.25"]}


def test_gpus_run_alltoall_on_one_rail() -> None:
    about = scope(FOUR)
    about.declared.fabric["cables"] = [f"{name}/{rail}:1 leaf-su1-r{place}:1" for name in FOUR for place, rail in enumerate(RAILS)]  # type: ignore[index]
    collective, space = choose_collective(about)
    assert isinstance(collective, NcclCollective) and collective.expected is None
    assert (space.rails, space.leaf("worker2", "mlx5_3"), space.leaf("worker2", None)) == (
        RAILS,
        "leaf-su1-r3",
        "leaf-su1-r0 … leaf-su1-r7",
    )
    job = collective.job(GroupTest(NODES, "mlx5_3"), "g")
    assert (job.environment["NCCL_IB_HCA"], job.tasks_per_node, job.mpi) == ("=mlx5_3", 8, True)
    assert "alltoall_perf" in job.arguments and "NCCL_IB_HCA" not in collective.job(GroupTest(NODES), "g").environment


@pytest.mark.parametrize("count", [0, 1])
def test_nodes_without_gpus_or_fabric_cannot_be_searched(count: int) -> None:
    _, space = choose_collective(scope(NODES[:count], gpus=0))
    assert space.nodes == ()


def said_by(collective: Collective, answers: dict[str, Any], status: int = 0, error: str = "") -> Figure:
    """Return the figure of a job whose tasks printed these answers."""
    test = GroupTest(tuple(answers) or NODES)
    job = Job("g", test.nodes, program("all_to_all.py"))
    tasks = tuple(Task(rank, name, name, 1000, json.dumps(answer)) for rank, (name, answer) in enumerate(answers.items()))
    return figure_of(collective, test, Output(job, "17", status, error, tasks, "", 1.0))


def test_slowest_task_is_the_figure() -> None:
    assert said_by(LAB, {"worker0": {"value": 4.5, "error": ""}, "worker1": {"value": 4.2, "error": ""}}).value == 4.2
    failed = said_by(LAB, {"worker0": {"value": 4.5, "error": ""}, "worker1": {"value": 0.0, "error": "worker0 sent nothing"}})
    assert (failed.value, failed.error, failed.job) == (0.0, "worker0 sent nothing", "g")


@each_row(
    "status, error, value",
    [(124, "no end after 75 s", None), (130, "cancelled", None), (1, "srun: error: task launch failed", 0.0)],
)
def test_job_without_output_failed_or_never_ran(status: int, error: str, value: float | None) -> None:
    assert said_by(LAB, {}, status, error).value == value


GPUS = NcclCollective("/opt/nccl-tests/build", 8)


def test_bus_bandwidth_is_converted_to_data_of_node() -> None:
    """The share of the other node's 8 GPUs among the 15 other ranks, times 8 GPUs."""
    run = nccl.parse(text("nccl", "good-2-nodes"))
    figure = said_by(GPUS, {"worker0": {"rc": 0, "out": text("nccl", "good-2-nodes"), "err": ""}})
    assert figure.value == 0  # A group of one node sends nothing.
    two = {"worker0": {"rc": 0, "out": text("nccl", "good-2-nodes"), "err": ""}, "worker1": {"rc": 0, "out": "", "err": ""}}
    assert said_by(GPUS, two).value == pytest.approx(run.bandwidth_gb_s * 8 * 8 / 15)


@each_row(
    "captured, rc, status, error",
    [
        ("good-2-nodes", 124, 0, "alltoall_perf ended with status 124"),
        ("wrong-1-node", 0, 0, "wrong elements"),
        ("good-2-nodes", 0, 1, "no reason"),
    ],
)
def test_failed_collective_is_no_figure(captured: str, rc: int, status: int, error: str) -> None:
    answers = {name: {"rc": rc, "out": text("nccl", captured) if name == "worker0" else "", "err": ""} for name in NODES}
    figure = said_by(GPUS, answers, status, "no reason" if status else "")
    assert figure.value == 0.0 and error in figure.error


def test_output_that_cannot_be_read_is_no_figure() -> None:
    figure = said_by(GPUS, {name: {"rc": 127, "out": "", "err": "alltoall_perf is neither on PATH nor in /opt"} for name in NODES})
    assert figure.value == 0.0 and figure.error


def test_kubernetes_is_refused() -> None:
    about = scope(NODES)
    require_slurm(about.declared)
    about.declared.cluster["scheduler"]["kind"] = "kubernetes"
    with pytest.raises(InputError, match="with Slurm only"):
        require_slurm(about.declared)


def test_remedy_names_the_command() -> None:
    assert "--bisect" in acceptance()[f"{PHASE}.{CHECK}"].remedy
