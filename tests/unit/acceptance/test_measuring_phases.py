"""Phases that measure GPUs: their jobs, and their findings from outputs that are good, slow, wrong, truncated or missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jinja2.nativetypes import NativeEnvironment
from support.rows import each_row

from rackwright.checks.acceptance.phase import Job
from rackwright.checks.acceptance.phases import gpu, nccl
from rackwright.report.verdict import Verdict
from rackwright.yaml_loader import load_yaml

from .played import FAILED, NODES, RAILS, SKIPPED, UNKNOWN, checks_of, judged, scope, text, verdicts


def nccl_said(
    single: str = "good-1-node", several: str = "good-2-nodes", *, samples: bool = True, rails: tuple[str, ...] = RAILS
) -> Callable[..., object]:
    """Return a captured text as the output of every run; only the first rank prints all of it."""
    watched = [{"second": n, "cpu_busy": 0.1, "gpu_busy": [99.0] * 8, "sent_bytes": dict.fromkeys(rails, n * 10**9)} for n in range(5)]

    def said(job: Job, node: str, rank: int) -> object:
        if job.name.startswith("topo-"):
            return {"topo": {"rc": 0, "out": text("topo", "good"), "err": ""}}
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


def test_collectives_run_on_gpu_node_and_all() -> None:
    """1, 8, 16, 32 GPUs; runs that share links never run at the same time."""
    everything = nccl.PHASE.jobs(scope(tuple(f"worker{n}" for n in range(4))))
    sent = [job for job in everything if not job.name.startswith("topo-")]
    sizes = {len(job.nodes) * job.gpus_per_node for job in sent}
    assert sizes == {1, 8, 16, 32}
    assert all(job.arguments[5:] == ("-b", "8", "-e", "16G", "-f", "2", "-c", "1", "-g", job.arguments[-1]) for job in sent)
    several = [job for job in sent if len(job.nodes) > 1]
    assert len({job.round for job in several}) == len(several) and all(job.tasks_per_node == 8 for job in several)
    for round_ in {job.round for job in everything}:
        busy = [node for job in everything if job.round == round_ for node in job.nodes]
        assert len(busy) == len(set(busy))


def test_built_and_installed_programs_are_used() -> None:
    """nccl-tests are in a folder per set of versions, PyTorch is on the shared file system: neither is on PATH."""
    versions = {"nccl-tests": "2.19.6", "cuda": "13.0", "nccl": "2.28.3-1"}
    pytorch = {"folder": "/mnt/sharedfs/software/pytorch-2.9.1"}
    plain = scope()
    declared = replace(
        plain.declared, cluster={**plain.declared.cluster, "software": {"versions": versions}}, node_stack={"pytorch": pytorch}
    )
    role = load_yaml((Path(__file__).parents[3] / "roles/nccl/vars/main.yml").read_text())
    built = NativeEnvironment().from_string(role["_nccl_tests"]).render(nccl_versions=versions)
    stack = replace(plain, declared=declared)
    assert {job.arguments[1] for job in nccl.PHASE.jobs(stack) if job.mpi} == {f"{built}/source/build"}
    assert {job.arguments[1] for job in nccl.PHASE.jobs(plain) if job.mpi} == {"/opt/nccl-tests/build"}
    with_pytorch = [job for job in gpu.PHASE.jobs(stack) if not job.name.startswith("health-")]
    assert {job.interpreter for job in with_pytorch} == {"/mnt/sharedfs/software/pytorch-2.9.1/bin/python"}
    assert {job.interpreter for job in gpu.PHASE.jobs(plain)} == {"python3"}


def test_ranks_find_each_other() -> None:
    """A program built with MPI that srun starts without PMIx ends at once, or becomes as many runs of one rank."""
    assert {job.mpi for job in nccl.PHASE.jobs(scope()) if not job.name.startswith("topo-")} == {True}


def test_good_collectives_pass() -> None:
    """Each check of the catalogue on each node; a quantity without a published figure for an H100 starts its own baseline."""
    found = judged(nccl, scope(), nccl_said())
    assert {check for check, _ in found} == checks_of("nccl")
    assert verdicts(found) == {}
    figures = {figure.name for figure in found["all_reduce_is_fast", "worker0"].measurements}
    assert figures == {"all_reduce-8", "all_reduce-16"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (nccl_said(several="sockets-2-nodes"), {"data_goes_over_the_declared_network": FAILED, "gpudirect_is_on": UNKNOWN}),
        (nccl_said(several="host-memory-2-nodes"), {"gpudirect_is_on": FAILED}),
        (nccl_said(single="slow-1-node"), {"all_reduce_is_fast": FAILED, "data_goes_over_the_declared_network": FAILED}),
        (nccl_said(single="wrong-1-node"), {"results_are_right": FAILED}),
        (nccl_said(samples=False), {"gpu_activity_seen": UNKNOWN, "rails_carried_data": UNKNOWN}),
        (nccl_said(rails=RAILS[:7]), {"rails_carried_data": UNKNOWN}),
        (nccl_said(several="silent-2-nodes"), {"data_goes_over_the_declared_network": UNKNOWN, "gpudirect_is_on": UNKNOWN}),
    ],
)
def test_deviating_collectives_are_reported(said: Callable[..., object], expected: dict[str, Verdict]) -> None:
    """On every node; all other checks pass."""
    found = judged(nccl, scope(), said)
    assert verdicts(found) == {f"{check}[{node}]": verdict for check, verdict in expected.items() for node in NODES}


def test_collectives_that_never_ran_are_unknown() -> None:
    """Truncated, missing, or empty output never passes."""
    for said in (
        nccl_said(single="truncated-1-node"),
        lambda job, node, rank: {"rc": 127, "out": "", "err": "not installed", "samples": []},
        lambda *_: None,
    ):
        found = judged(nccl, scope(), said)
        assert {found["results_are_right", node].verdict for node in NODES} == {UNKNOWN}
        assert {found["all_reduce_is_fast", node].verdict for node in NODES} == {UNKNOWN}


def test_single_node_skips_network_checks() -> None:
    """Skipped because the plan has no network; one GPU has no peer either."""
    found = judged(nccl, scope(("worker0",)), nccl_said())
    assert verdicts(found) == dict.fromkeys(("gpudirect_is_on[worker0]", "rails_carried_data[worker0]"), SKIPPED)


def test_slower_collective_is_reported() -> None:
    """Compared with the figure of its own first passed run, for as many GPUs."""
    before = {"nccl.alltoall_is_fast[worker0] alltoall-16": 500.0}
    found = judged(nccl, scope(baseline=before), nccl_said())
    assert verdicts(found) == {"alltoall_is_fast[worker0]": FAILED}
    assert "its own baseline" in found["alltoall_is_fast", "worker0"].reason


def gpu_said(health: str = "good", nvlink: str = "good", diagnosis: str = "good-v4", **changes: object) -> Callable[..., object]:
    """Return figures of eight good H100; `changes` replace an answer by the job's first word."""
    speeds = {"matmul-bf16": 676.0, "hbm-copy": 3010.0, "host-to-device": 52.0, "device-to-host": 51.0, "peer-copy": 395.0}

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


def test_good_gpus_pass() -> None:
    """Each check of the catalogue on each node."""
    found = judged(gpu, scope(), gpu_said())
    assert {check for check, _ in found} == checks_of("gpu")
    assert verdicts(found) == {}
    assert {figure.name for figure in found["matmul_is_fast", "worker0"].measurements} == {
        f"matmul-bf16-GPU {number}" for number in range(8)
    }


def _tokens(sixteen: float) -> Callable[[Job, str], object]:
    """Return the training of the founding guide: 331,842 tokens/s on eight."""
    return lambda job, node: {
        "ranks": 8 * len(job.nodes),
        "tokens_s": sixteen if len(job.nodes) > 1 else 331_842.0,
        "first_loss": 10.0,
        "last_loss": 3.0,
    }


@each_row(
    ("said", "expected"),
    [
        (gpu_said(health="lost"), {"count_matches_plan": FAILED, "not_throttled": UNKNOWN, "pcie_links_are_wide": UNKNOWN}),
        (gpu_said(health="failed-ecc"), {"no_ecc_errors": FAILED}),
        (gpu_said(health="without-ecc"), {"no_ecc_errors": UNKNOWN}),
        (gpu_said(health="busy"), {}),
        (gpu_said(health="slow"), {"not_throttled": FAILED, "pcie_links_are_wide": FAILED}),
        (
            gpu_said(health="failed"),
            {"count_matches_plan": FAILED, **dict.fromkeys(("no_ecc_errors", "not_throttled", "pcie_links_are_wide"), UNKNOWN)},
        ),
        (gpu_said(nvlink="slow"), {"nvlinks_are_up": FAILED}),
        (gpu_said(diagnosis="failed-v4"), {"dcgm_passes": FAILED}),
        (gpu_said(diagnosis="truncated-v4"), {"dcgm_passes": UNKNOWN}),
        (gpu_said(diagnosis="left-out-v4"), {"dcgm_passes": UNKNOWN}),
        (gpu_said(speed={"unknown": "PyTorch sees no GPU"}), dict.fromkeys(gpu.SPEEDS, UNKNOWN)),
        (gpu_said(ddp=_tokens(136_970.0)), {"training_scales": FAILED}),
        (gpu_said(ddp=_tokens(640_000.0)), {}),
        (gpu_said(fsdp={"ranks": 8, "tokens_s": 3e5, "first_loss": 10.0, "last_loss": 10.1}), {"training_fsdp_is_fast": FAILED}),
        (gpu_said(fsdp={"ranks": 4, "tokens_s": 3e5, "first_loss": 10.0, "last_loss": 3.0}), {"training_fsdp_is_fast": UNKNOWN}),
    ],
)
def test_faulty_gpus_are_reported(said: Callable[..., object], expected: dict[str, Verdict]) -> None:
    """On every node; all other checks pass."""
    assert verdicts(judged(gpu, scope(), said)) == {f"{check}[{node}]": verdict for check, verdict in expected.items() for node in NODES}


def test_nvlinks_are_skipped_for_models_without_them() -> None:
    """nvidia-smi reports all links of such cards as inactive, as it does for an H100 whose links are down."""
    none = "".join(f"GPU {gpu}: x\nNVML: Unable to retrieve NVLink information as all links are inActive\n" for gpu in range(8))

    def said(job: Job, node: str, rank: int) -> object:
        answer = gpu_said()(job, node, rank)
        return {**answer, "nvlink": {"rc": 0, "out": none, "err": ""}} if isinstance(answer, dict) and "nvlink" in answer else answer

    about = scope()
    assert judged(gpu, about, said)["nvlinks_are_up", "worker0"].verdict is FAILED
    for node in about.declared.nodes.values():
        node["gpus"]["model"] = "l40s"
    found = judged(gpu, about, said)["nvlinks_are_up", "worker0"]
    assert (found.verdict, found.reason) == (SKIPPED, "not-in-plan")


def test_gpu_named_on_stderr_does_not_respond() -> None:
    """Releases of nvidia-smi name it in different places."""

    def said(job: Job, node: str, rank: int) -> object:
        answer = gpu_said(health="lost")(job, node, rank)
        if isinstance(answer, dict) and "health" in answer:
            answer["health"]["err"] = "Unable to determine the device handle for GPU7: 0000:D9:00.0: Unknown Error\n"
        return answer

    found = judged(gpu, scope(), said)["count_matches_plan", "worker1"]
    assert (found.verdict, found.reason) == (FAILED, "expected 8, found 7 of 8 GPUs respond; 0000:d9:00.0 does not")


def test_slow_gpu_is_named() -> None:
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
                "matmul-bf16": 676.0,
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
    assert found["matmul_is_fast", "worker1"].reason.startswith("GPU 5: 541 TFLOPS; expected at least 608 TFLOPS")
