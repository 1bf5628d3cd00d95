"""Phases that measure links, storage and memory; and rules for all measuring phases."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import json
from collections.abc import Callable, Mapping

import pytest

from rackwright.checks.acceptance.evaluators.records import record
from rackwright.checks.acceptance.phase import Job
from rackwright.checks.acceptance.phases import cpu, gpu, nccl, rdma, storage_performance
from rackwright.report.verdict import Verdict

from .played import FAILED, FOUR, NODES, PASSED, RAILS, SKIPPED, UNKNOWN, checks_of, judged, output, scope, text, verdicts


def rdma_said(bandwidth: Callable[[str, str, str], str] = lambda *_: "good-bw", latency: str = "good-lat") -> Callable[..., object]:
    """Return captured texts as the output of clients."""

    def said(job: Job, node: str, rank: int) -> object:
        met = json.loads(job.arguments[job.arguments.index("--pairs") + 1])
        mine = next((pair for pair in met if node in pair), None)
        if mine is None or node != mine[1]:
            return {"role": "server", "one": node, "other": "", "meetings": []}
        answers = [
            (rail, tool, name) for rail in RAILS for tool, name in (("ib_write_bw", bandwidth(*mine, rail)), ("ib_write_lat", latency))
        ]
        return {
            "role": "client",
            "meetings": [{"rail": rail, "tool": tool, "rc": 0, "out": text("perftest", name), "err": ""} for rail, tool, name in answers],
        }

    return said


def test_every_pair_is_measured_on_every_rail() -> None:
    """Rounds of disjoint pairs, one job each."""
    sent = rdma.PHASE.jobs(scope(FOUR))
    pairs = [frozenset(pair) for job in sent for pair in json.loads(job.arguments[job.arguments.index("--pairs") + 1])]
    assert len(pairs) == len(set(pairs)) == 6 and len(sent) == len({job.round for job in sent}) == 3
    assert all(job.arguments[1:9] == RAILS and job.whole_nodes for job in sent)


def test_good_links_pass_and_slow_links_are_named() -> None:
    """A rail of one node is slow with all other nodes."""
    found = judged(rdma, scope(FOUR), rdma_said())
    assert {check for check, _ in found} == checks_of("rdma") and verdicts(found, without=(PASSED, SKIPPED)) == {}
    slow = judged(
        rdma, scope(FOUR), rdma_said(lambda one, other, rail: "slow-bw" if "worker2" in (one, other) and rail == "mlx5_3" else "good-bw")
    )
    assert verdicts(slow, without=(PASSED, SKIPPED)) == {"bandwidth_of_all_pairs[worker2]": FAILED}
    assert (
        "3 of 24 links too slow" in slow["bandwidth_of_all_pairs", "worker2"].reason
        and "on mlx5_3 188 Gb/s" in slow["bandwidth_of_all_pairs", "worker2"].reason
    )


def test_figures_name_rail_and_slowest_partner() -> None:
    """The median of a rail shows a slow adapter or cable of a node; the slowest partner shows a slow path between two nodes."""
    pair = {"worker0", "worker1"}
    found = judged(
        rdma, scope(FOUR), rdma_said(lambda one, other, rail: "slow-bw" if {one, other} == pair and rail == "mlx5_3" else "good-bw")
    )
    figures = {
        (node, figure.name): figure.value
        for (check, node), finding in found.items()
        for figure in finding.measurements
        if check == "bandwidth_of_all_pairs" and figure.name.startswith("rdma-write/")
    }
    assert {name for node, name in figures if name.count("/") == 1} == {f"rdma-write/{rail}" for rail in RAILS}
    assert len(figures) == len(FOUR) * len(RAILS) * 2
    slow = {key for key, value in figures.items() if value < 300}
    assert slow == {("worker0", "rdma-write/mlx5_3/worker1"), ("worker1", "rdma-write/mlx5_3/worker0")}


def test_unmeasured_links_are_unknown() -> None:
    """A pair that could not connect, a node without output, Ethernet although InfiniBand is planned."""
    broken = judged(
        rdma, scope(FOUR), rdma_said(lambda one, other, rail: "failed-connect" if (one, rail) == ("worker0", "mlx5_0") else "good-bw")
    )
    assert (
        broken["bandwidth_of_all_pairs", "worker0"].verdict is UNKNOWN
        and "Couldn't connect" in broken["bandwidth_of_all_pairs", "worker0"].reason
    )
    silent = judged(rdma, scope(FOUR), lambda *_: None)
    assert list(verdicts(silent, without=(PASSED, SKIPPED)).values()) == [UNKNOWN] * 12
    wrong = judged(rdma, scope(FOUR), rdma_said(lambda *_: "ethernet-bw"))
    assert wrong["goes_over_the_declared_link", "worker0"].verdict is FAILED
    late = judged(rdma, scope(FOUR), rdma_said(latency="slow-lat"))
    assert verdicts(late, without=(PASSED, SKIPPED)) == {f"latency_of_all_pairs[{node}]": FAILED for node in FOUR}


def test_nodes_without_rails_get_no_jobs() -> None:
    """The checks are skipped, and no job is submitted."""
    bare = scope(fabric=False)
    assert rdma.PHASE.jobs(bare) == []
    assert set(verdicts(judged(rdma, bare, lambda *_: None)).values()) == {SKIPPED}


def storage_said(
    *, safe: int = 40, seen: int = 41, wrong: int = 0, factor: Mapping[str, float] | None = None, **changes: object
) -> Callable[..., object]:
    """Return the output of a healthy file system."""
    values = {
        "storage-write": 2000.0,
        "storage-read": 3000.0,
        "storage-metadata": 9000.0,
        "storage-small-files": 800.0,
        "storage-fsync": 4.0,
    }

    def said(job: Job, node: str, rank: int) -> object:
        kind = job.name.split("-")[0]
        if kind in changes:
            return changes[kind]
        if kind == "kill":
            return {"acknowledged": safe}
        if kind == "look":
            return {"found": dict.fromkeys(job.arguments[2:], seen)}
        share = (factor or {}).get(node, 1.0)
        return {"wrong": wrong, "figures": [{"quantity": name, "value": value * share} for name, value in values.items()]}

    return said


def test_healthy_file_system_passes() -> None:
    """No figure is published: the first passed run is the baseline of later ones."""
    found = judged(storage_performance, scope(), storage_said())
    assert {check for check, _ in found} == checks_of("storage_performance") and verdicts(found) == {}
    assert "no published figure exists" in found["writes_are_fast", "worker0"].expected
    assert found["all_at_once", "login0"].found.endswith("storage-write 4,000 MB/s, storage-read 6,000 MB/s")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (storage_said(seen=39), {"survives_a_killed_writer": FAILED}),
        (storage_said(wrong=1), {"bytes_come_back": FAILED, "all_at_once": FAILED}),
        (storage_said(kill={"unknown": "No space left on device"}), {"survives_a_killed_writer": UNKNOWN}),
        (storage_said(look=None), {"survives_a_killed_writer": UNKNOWN}),
        (
            storage_said(alone={"unknown": "Permission denied"}),
            {**dict.fromkeys(storage_performance.QUANTITIES, UNKNOWN), "bytes_come_back": UNKNOWN},
        ),
    ],
)
def test_lost_or_changed_bytes_are_reported(said: Callable[..., object], expected: dict[str, Verdict]) -> None:
    """On every node; totals on the node that submits jobs."""
    planned = {
        f"{check}[{node}]": verdict for check, verdict in expected.items() for node in (("login0",) if check == "all_at_once" else NODES)
    }
    assert verdicts(judged(storage_performance, scope(), said)) == planned


def test_slow_client_and_slow_file_system_are_named() -> None:
    """The lab's figures are reported and compared with nothing."""
    slow = judged(storage_performance, scope(FOUR), storage_said(factor={"worker3": 0.5}))
    assert set(verdicts(slow)) == {
        f"{check}[worker3]" for check in ("writes_are_fast", "reads_are_fast", "metadata_is_fast", "small_files_are_fast")
    }
    past = {"storage_performance.writes_are_fast[worker0] storage-write": 4000.0}
    assert verdicts(judged(storage_performance, scope(baseline=past), storage_said())) == {"writes_are_fast[worker0]": FAILED}
    lab = judged(storage_performance, scope(FOUR, target="lab", baseline=past), storage_said(factor={"worker3": 0.5}))
    assert verdicts(lab) == {} and lab["writes_are_fast", "worker3"].measurements[0].value == 1000.0


def test_memory_compares_with_peers_and_copies() -> None:
    """Figures of simulated capacity are reported and compared with nothing."""

    def said(job: Job, node: str, rank: int) -> object:
        return {"processes": 128, "value": 200.0 if node == "worker3" else 400.0, "wrong": int(node == "worker1")}

    found = judged(cpu, scope(FOUR), said)
    assert {check for check, _ in found} == checks_of("cpu")
    assert verdicts(found) == {"memory_is_fast[worker3]": FAILED, "memory_copies_are_right[worker1]": FAILED}
    assert verdicts(judged(cpu, scope(FOUR, target="lab"), said)) == {"memory_copies_are_right[worker1]": FAILED}
    assert set(verdicts(judged(cpu, scope(FOUR), lambda *_: None)).values()) == {UNKNOWN}


@pytest.mark.parametrize("phase", [nccl, gpu, rdma, storage_performance, cpu])
def test_missing_output_never_passes(phase: object) -> None:
    """Jobs that were not submitted, jobs without output, jobs with other output."""
    about = scope()
    assert not [each for each in phase.PHASE.evaluate(about, {}) if each.verdict is PASSED]
    for said in (lambda *_: None, lambda *_: {}, lambda *_: {"unknown": "it could not tell"}):
        found = judged(phase, about, said)
        assert not [each for each in found.values() if each.verdict in (PASSED, FAILED)]


@pytest.mark.parametrize("phase", [nccl, gpu, rdma, storage_performance, cpu])
def test_job_names_are_valid(phase: object) -> None:
    """Lower case, digits and hyphens, unique in a phase; arguments are words."""
    sent = phase.PHASE.jobs(scope(FOUR))
    assert sent and len({job.name for job in sent}) == len(sent)
    assert all(set(job.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for job in sent)
    assert all(isinstance(word, str) for job in sent for word in job.arguments)
    assert all(len(job.program.text) < 120_000 and set(job.nodes) <= set(FOUR) for job in sent)


def test_docstring_examples_hold() -> None:
    """Run the `>>>` lines of phases."""
    assert not doctest.testmod(importlib.import_module("rackwright.checks.acceptance.phases.nccl")).failed


def test_long_cut_answers_are_joined() -> None:
    """Slurm cuts lines after 1,024 bytes and labels the pieces."""
    job = cpu.PHASE.jobs(scope())[0]
    whole = output(job, lambda *_: {"value": "x" * 3000})
    cut = "\n".join(whole.tasks[0].out[start : start + 1024] for start in range(0, 4000, 1024))
    assert record(dataclasses.replace(whole, tasks=(dataclasses.replace(whole.tasks[0], out=cut),)), "worker0") == {"value": "x" * 3000}
