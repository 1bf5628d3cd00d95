"""Phases that measure: what they send, and what they make of answers that are good, slow, wrong, cut short or missing."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from acceptance.phase import Finding, Job, Output, Part, Scope, Task
from acceptance.phases import cpu, gpu, nccl, rdma, storage_performance
from rackwright.catalog.checks import Level, acceptance
from rackwright.report.declared import Declared
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).with_name("captured")
PASSED, FAILED, UNKNOWN, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED
NODES = ("worker0", "worker1")
RAILS = tuple(f"mlx5_{number}" for number in range(8))


def text(tool: str, name: str) -> str:
    """A captured text."""
    return (CAPTURED / tool / f"{name}.txt").read_text(encoding="utf-8")


def scope(
    nodes: tuple[str, ...] = NODES,
    *,
    fabric: bool = True,
    gpus: int = 8,
    target: str = "hosts",
    baseline: Mapping[str, float] | None = None,
) -> Scope:
    """Nodes with eight H100 on an NDR fabric, and a shared file system."""
    record = {"gpus": {"model": "h100", "count": gpus}, "rails": RAILS if fabric else (), "group": "worker", "cpus": 128}
    declared = Declared(
        stack="test",
        target=target,
        level=Level.FULL,
        cluster={"scheduler": {"nodes": [{"name": node} for node in nodes], "config_overrides": target == "lab"}, "simulated": []},
        nodes={node: {**record, "name": node} for node in nodes},
        out={},
        groups={},
        plan="0",
        fabric={"kind": "infiniband", "speed": "NDR"} if fabric else None,
    )
    return Scope(
        declared=declared,
        nodes=nodes,
        states={},
        run="1",
        submitter="login0",
        user="alice",
        mount="/mnt/sharedfs",
        folder="/mnt/sharedfs/run/09",
        parts=(Part("gpu", nodes),),
        baseline=baseline or {},
    )


def output(job: Job, said: Callable[[Job, str, int], object]) -> Output:
    """How a job went whose tasks printed that; `said` by job, node and rank."""
    places = [
        (node, rank)
        for number, node in enumerate(job.nodes)
        for rank in range(number * job.tasks_per_node, (number + 1) * job.tasks_per_node)
    ]
    found = ((node, rank, said(job, node, rank)) for node, rank in places)
    tasks = tuple(Task(rank, node, node, 1000, json.dumps(answer)) for node, rank, answer in found if answer is not None)
    return Output(job, "17", 0, "", tasks, "", 1.0)


def judged(phase: object, about: Scope, said: Callable[[Job, str, int], object]) -> dict[tuple[str, str], Finding]:
    """All findings, by check and node."""
    outputs = {job.name: output(job, said) for job in phase.PHASE.jobs(about)}
    return {(each.check, each.node): each for each in phase.PHASE.judge(about, outputs)}


def verdicts(found: Mapping[tuple[str, str], Finding], *, without: tuple[Verdict, ...] = (PASSED,)) -> dict[str, Verdict]:
    """Those that did not pass, `check[node]`."""
    return {f"{check}[{node}]": each.verdict for (check, node), each in found.items() if each.verdict not in without}


def checks_of(phase: str) -> set[str]:
    """The rows of the catalogue."""
    return {spec.name for spec in acceptance().values() if spec.subject == phase}


# --- collectives


def nccl_said(
    single: str = "good-1-node", several: str = "good-2-nodes", *, samples: bool = True, rails: tuple[str, ...] = RAILS
) -> Callable[..., object]:
    """Every run prints a captured text; the first rank prints it whole."""
    watched = [{"second": n, "cpu_busy": 0.1, "gpu_busy": [99.0] * 8, "sent_bytes": dict.fromkeys(rails, n * 10**9)} for n in range(5)]

    def said(job: Job, node: str, rank: int) -> object:
        name = "good-1-gpu" if job.gpus_per_node == 1 else several if len(job.nodes) > 1 else single
        answer = text("nccl", name).replace("worker0", node) if len(job.nodes) == 1 else text("nccl", name)
        local = rank % job.tasks_per_node
        return {
            "rc": 0,
            "out": "" if rank else answer,
            "err": "",
            "machine": "",
            "efa": 0,
            "samples": watched if samples and not local else [],
        }

    return said


def test_collectives_are_sent_to_one_gpu_one_node_and_all() -> None:
    """1, 8, 16, 32 GPUs; runs that share links never at the same time."""
    sent = nccl.PHASE.jobs(scope(tuple(f"worker{n}" for n in range(4))))
    sizes = {len(job.nodes) * job.gpus_per_node for job in sent}
    assert sizes == {1, 8, 16, 32}
    assert all(job.arguments[5:] == ("-b", "8", "-e", "16G", "-f", "2", "-c", "1", "-g", job.arguments[-1]) for job in sent)
    several = [job for job in sent if len(job.nodes) > 1]
    assert len({job.round for job in several}) == len(several) and all(job.tasks_per_node == 8 for job in several)
    for round_ in {job.round for job in sent}:
        busy = [node for job in sent if job.round == round_ for node in job.nodes]
        assert len(busy) == len(set(busy))


def test_good_collectives_pass_everywhere() -> None:
    """Each check of the catalogue on each node; what nobody has measured on an H100 is its own baseline from now on."""
    found = judged(nccl, scope(), nccl_said())
    assert {check for check, _ in found} == checks_of("nccl")
    assert verdicts(found) == {}
    figures = {figure.name for figure in found["all_reduce_is_fast", "worker0"].figures}
    assert figures == {"all_reduce-8", "all_reduce-16"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (nccl_said(several="sockets-2-nodes"), {"data_goes_over_the_declared_network": FAILED, "gpudirect_is_on": UNKNOWN}),
        (nccl_said(several="host-memory-2-nodes"), {"gpudirect_is_on": FAILED}),
        (nccl_said(single="slow-1-node"), {"all_reduce_is_fast": FAILED, "data_goes_over_the_declared_network": FAILED}),
        (nccl_said(single="wrong-1-node"), {"results_are_right": FAILED}),
        (nccl_said(samples=False), {"gpus_were_at_work": UNKNOWN, "rails_carried_data": UNKNOWN}),
        (nccl_said(rails=RAILS[:7]), {"rails_carried_data": UNKNOWN}),
        (nccl_said(several="silent-2-nodes"), {"data_goes_over_the_declared_network": UNKNOWN, "gpudirect_is_on": UNKNOWN}),
    ],
)
def test_collectives_that_are_not_as_planned_are_told(said: Callable[..., object], expected: dict[str, Verdict]) -> None:
    """On every node, and nothing else is."""
    found = judged(nccl, scope(), said)
    assert verdicts(found) == {f"{check}[{node}]": verdict for check, verdict in expected.items() for node in NODES}


def test_collectives_that_never_ran_are_unknown() -> None:
    """Cut short, missing, or silent: never green."""
    for said in (
        nccl_said(single="truncated-1-node"),
        lambda job, node, rank: {"rc": 127, "out": "", "err": "not installed", "samples": []},
        lambda *_: None,
    ):
        found = judged(nccl, scope(), said)
        assert {found["results_are_right", node].verdict for node in NODES} == {UNKNOWN}
        assert {found["all_reduce_is_fast", node].verdict for node in NODES} == {UNKNOWN}


def test_one_node_has_no_network_to_show() -> None:
    """Skipped for the reason that the plan has none; one GPU has no peer either."""
    found = judged(nccl, scope(("worker0",)), nccl_said())
    assert verdicts(found) == dict.fromkeys(("gpudirect_is_on[worker0]", "rails_carried_data[worker0]"), SKIPPED)


def test_a_collective_that_got_slower_is_told() -> None:
    """Against the figure of its own first good run, for as many GPUs."""
    before = {"nccl.alltoall_is_fast[worker0] alltoall-16": 500.0}
    found = judged(nccl, scope(baseline=before), nccl_said())
    assert verdicts(found) == {"alltoall_is_fast[worker0]": FAILED}
    assert "its own baseline" in found["alltoall_is_fast", "worker0"].reason


# --- GPUs


def gpu_said(health: str = "good", nvlink: str = "good", diagnosis: str = "good-v4", **changes: object) -> Callable[..., object]:
    """Figures of eight good H100; `changes` replace an answer by the job's first word."""
    speeds = {"matmul-bf16": 770.0, "hbm-copy": 3010.0, "host-to-device": 52.0, "device-to-host": 51.0, "peer-copy": 395.0}

    def said(job: Job, node: str, rank: int) -> object:
        kind = job.name.split("-")[0]
        if kind in changes:
            answer = changes[kind]
            return answer(job, node) if callable(answer) else answer
        if kind == "health":
            tools = {"health": text("nvidia-smi", health), "nvlink": text("nvlink", nvlink), "dcgm": text("dcgm", diagnosis)}
            return {name: {"rc": 0, "out": out, "err": ""} for name, out in tools.items()}
        if kind == "speed":
            figures = [
                {"quantity": name, "gpu": number, "to": None, "value": value} for name, value in speeds.items() for number in range(8)
            ]
            return {"figures": figures, "torch": "2.6", "device": "NVIDIA H100 80GB HBM3"}
        ranks = len(job.nodes) * job.tasks_per_node
        return None if rank else {"mode": kind, "ranks": ranks, "tokens_s": 41_480.0 * ranks * 0.95, "first_loss": 10.4, "last_loss": 3.1}

    return said


def test_good_gpus_pass_everywhere() -> None:
    """Each check of the catalogue on each node."""
    found = judged(gpu, scope(), gpu_said())
    assert {check for check, _ in found} == checks_of("gpu")
    assert verdicts(found) == {}
    assert {figure.name for figure in found["matmul_is_fast", "worker0"].figures} == {f"matmul-bf16-GPU {number}" for number in range(8)}


def _tokens(sixteen: float) -> Callable[[Job, str], object]:
    """The founding guide's training: 331,842 tokens/s on eight."""
    return lambda job, node: {
        "ranks": 8 * len(job.nodes),
        "tokens_s": sixteen if len(job.nodes) > 1 else 331_842.0,
        "first_loss": 10.0,
        "last_loss": 3.0,
    }


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (gpu_said(health="lost"), {"count_matches_plan": FAILED, "nothing_holds_clocks_down": UNKNOWN, "pcie_links_are_wide": UNKNOWN}),
        (gpu_said(health="failed-ecc"), {"no_memory_errors": FAILED}),
        (gpu_said(health="without-ecc"), {"no_memory_errors": UNKNOWN}),
        (gpu_said(health="slow"), {"nothing_holds_clocks_down": FAILED, "pcie_links_are_wide": FAILED}),
        (
            gpu_said(health="failed"),
            dict.fromkeys(("count_matches_plan", "no_memory_errors", "nothing_holds_clocks_down", "pcie_links_are_wide"), UNKNOWN),
        ),
        (gpu_said(nvlink="slow"), {"nvlinks_are_up": FAILED}),
        (gpu_said(diagnosis="failed-v4"), {"dcgm_passes": FAILED}),
        (gpu_said(diagnosis="truncated-v4"), {"dcgm_passes": UNKNOWN}),
        (gpu_said(speed={"unknown": "PyTorch sees no GPU"}), dict.fromkeys(gpu.SPEEDS, UNKNOWN)),
        (gpu_said(ddp=_tokens(136_970.0)), {"training_scales": FAILED}),
        (gpu_said(ddp=_tokens(640_000.0)), {}),
        (gpu_said(fsdp={"ranks": 8, "tokens_s": 3e5, "first_loss": 10.0, "last_loss": 10.1}), {"training_fsdp_is_fast": FAILED}),
        (gpu_said(fsdp={"ranks": 4, "tokens_s": 3e5, "first_loss": 10.0, "last_loss": 3.0}), {"training_fsdp_is_fast": UNKNOWN}),
    ],
)
def test_gpus_that_are_not_in_order_are_told(said: Callable[..., object], expected: dict[str, Verdict]) -> None:
    """On every node, and nothing else is."""
    assert verdicts(judged(gpu, scope(), said)) == {f"{check}[{node}]": verdict for check, verdict in expected.items() for node in NODES}


def test_the_slow_gpu_is_named() -> None:
    """GPU 5 of worker1: below the threshold, and below its 15 peers."""

    def speeds(job: Job, node: str) -> object:
        figures = [
            {
                "quantity": name,
                "gpu": number,
                "to": None,
                "value": value * (0.8 if (node, number) == ("worker1", 5) and name == "matmul-bf16" else 1),
            }
            for name, value in {
                "matmul-bf16": 770.0,
                "hbm-copy": 3010.0,
                "host-to-device": 52.0,
                "device-to-host": 51.0,
                "peer-copy": 395.0,
            }.items()
            for number in range(8)
        ]
        return {"figures": figures}

    found = judged(gpu, scope(), gpu_said(speed=speeds))
    assert verdicts(found) == {"matmul_is_fast[worker1]": FAILED}
    assert found["matmul_is_fast", "worker1"].reason.startswith("GPU 5: 616 TFLOPS; expected at least 716 TFLOPS")


# --- RDMA


def rdma_said(bandwidth: Callable[[str, str, str], str] = lambda *_: "good-bw", latency: str = "good-lat") -> Callable[..., object]:
    """Clients print captured texts."""

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


FOUR = tuple(f"worker{number}" for number in range(4))


def test_every_two_nodes_meet_on_every_rail() -> None:
    """Rounds of disjoint pairs, one job each."""
    sent = rdma.PHASE.jobs(scope(FOUR))
    met = [frozenset(pair) for job in sent for pair in json.loads(job.arguments[job.arguments.index("--pairs") + 1])]
    assert len(met) == len(set(met)) == 6 and len(sent) == len({job.round for job in sent}) == 3
    assert all(job.arguments[1:9] == RAILS and job.whole_nodes for job in sent)


def test_good_links_pass_and_slow_ones_are_named() -> None:
    """A rail of one node, slow with all the others."""
    found = judged(rdma, scope(FOUR), rdma_said())
    assert {check for check, _ in found} == checks_of("rdma") and verdicts(found) == {}
    slow = judged(
        rdma, scope(FOUR), rdma_said(lambda one, other, rail: "slow-bw" if "worker2" in (one, other) and rail == "mlx5_3" else "good-bw")
    )
    assert verdicts(slow) == {"bandwidth_of_all_pairs[worker2]": FAILED}
    assert (
        "3 of 24 links too slow" in slow["bandwidth_of_all_pairs", "worker2"].reason
        and "on mlx5_3 188 Gb/s" in slow["bandwidth_of_all_pairs", "worker2"].reason
    )


def test_links_that_were_not_measured_are_unknown() -> None:
    """A pair that could not connect, a node that said nothing, Ethernet where InfiniBand is planned."""
    broken = judged(
        rdma, scope(FOUR), rdma_said(lambda one, other, rail: "failed-connect" if (one, rail) == ("worker0", "mlx5_0") else "good-bw")
    )
    assert (
        broken["bandwidth_of_all_pairs", "worker0"].verdict is UNKNOWN
        and "Couldn't connect" in broken["bandwidth_of_all_pairs", "worker0"].reason
    )
    silent = judged(rdma, scope(FOUR), lambda *_: None)
    assert set(verdicts(silent).values()) == {UNKNOWN} and len(silent) == 12
    wrong = judged(rdma, scope(FOUR), rdma_said(lambda *_: "ethernet-bw"))
    assert wrong["goes_over_the_declared_link", "worker0"].verdict is FAILED
    assert verdicts(judged(rdma, scope(FOUR), rdma_said(latency="slow-lat"))) == {f"latency_of_all_pairs[{node}]": FAILED for node in FOUR}


def test_without_rails_there_is_nothing_to_meet_on() -> None:
    """Skipped, and nothing is sent."""
    bare = scope(fabric=False)
    assert rdma.PHASE.jobs(bare) == []
    assert set(verdicts(judged(rdma, bare, lambda *_: None)).values()) == {SKIPPED}


# --- storage and memory


def storage_said(
    *, safe: int = 40, seen: int = 41, wrong: int = 0, factor: Mapping[str, float] | None = None, **changes: object
) -> Callable[..., object]:
    """A file system in order."""
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


def test_a_file_system_in_order_passes() -> None:
    """Nobody has published a figure: its first good run is what later ones are held against."""
    found = judged(storage_performance, scope(), storage_said())
    assert {check for check, _ in found} == checks_of("storage_performance") and verdicts(found) == {}
    assert "nobody has published a figure" in found["writes_are_fast", "worker0"].expected
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
def test_a_file_system_that_loses_or_changes_bytes_is_told(said: Callable[..., object], expected: dict[str, Verdict]) -> None:
    """On every node; the sum on the one that sends jobs."""
    planned = {
        f"{check}[{node}]": verdict for check, verdict in expected.items() for node in (("login0",) if check == "all_at_once" else NODES)
    }
    assert verdicts(judged(storage_performance, scope(), said)) == planned


def test_a_slow_client_is_named_against_its_peers_and_a_slow_file_system_against_its_past() -> None:
    """The lab's figures are told and held against nothing."""
    slow = judged(storage_performance, scope(FOUR), storage_said(factor={"worker3": 0.5}))
    assert set(verdicts(slow)) == {
        f"{check}[worker3]" for check in ("writes_are_fast", "reads_are_fast", "metadata_is_fast", "small_files_are_fast")
    }
    past = {"storage_performance.writes_are_fast[worker0] storage-write": 4000.0}
    assert verdicts(judged(storage_performance, scope(baseline=past), storage_said())) == {"writes_are_fast[worker0]": FAILED}
    lab = judged(storage_performance, scope(FOUR, target="lab", baseline=past), storage_said(factor={"worker3": 0.5}))
    assert verdicts(lab) == {} and lab["writes_are_fast", "worker3"].figures[0].value == 1000.0


def test_memory_is_compared_with_peers_and_copies_with_what_was_copied() -> None:
    """Where capacity is simulated it is told and held against nothing."""

    def said(job: Job, node: str, rank: int) -> object:
        return {"processes": 128, "value": 200.0 if node == "worker3" else 400.0, "wrong": int(node == "worker1")}

    found = judged(cpu, scope(FOUR), said)
    assert {check for check, _ in found} == checks_of("cpu")
    assert verdicts(found) == {"memory_is_fast[worker3]": FAILED, "memory_copies_are_right[worker1]": FAILED}
    assert verdicts(judged(cpu, scope(FOUR, target="lab"), said)) == {"memory_copies_are_right[worker1]": FAILED}
    assert set(verdicts(judged(cpu, scope(FOUR), lambda *_: None)).values()) == {UNKNOWN}


# --- all of them


@pytest.mark.parametrize("phase", [nccl, gpu, rdma, storage_performance, cpu])
def test_without_an_answer_nothing_passes(phase: object) -> None:
    """Jobs that were not sent, jobs that said nothing, jobs that printed something else."""
    about = scope()
    assert not [each for each in phase.PHASE.judge(about, {}) if each.verdict is PASSED]
    for said in (lambda *_: None, lambda *_: {}, lambda *_: {"unknown": "it could not tell"}):
        found = judged(phase, about, said)
        assert not [each for each in found.values() if each.verdict in (PASSED, FAILED)]


@pytest.mark.parametrize("phase", [nccl, gpu, rdma, storage_performance, cpu])
def test_names_of_jobs_are_names(phase: object) -> None:
    """Lower case, digits and hyphens, once in a phase; arguments are words."""
    sent = phase.PHASE.jobs(scope(FOUR))
    assert sent and len({job.name for job in sent}) == len(sent)
    assert all(set(job.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for job in sent)
    assert all(isinstance(word, str) for job in sent for word in job.arguments)
    assert all(len(job.program.text) < 120_000 and set(job.nodes) <= set(FOUR) for job in sent)


def test_examples_in_docstrings_hold() -> None:
    """The `>>>` lines of phases."""
    assert not doctest.testmod(importlib.import_module("acceptance.phases.nccl")).failed


def test_long_answers_that_were_cut_into_lines_are_whole() -> None:
    """Slurm cuts lines after 1,024 bytes and labels the pieces."""
    from acceptance.judges.records import record

    job = cpu.PHASE.jobs(scope())[0]
    whole = output(job, lambda *_: {"value": "x" * 3000})
    cut = "\n".join(whole.tasks[0].out[start : start + 1024] for start in range(0, 4000, 1024))
    assert record(dataclasses.replace(whole, tasks=(dataclasses.replace(whole.tasks[0], out=cut),)), "worker0") == {"value": "x" * 3000}
