"""Forms of the output of nccl-tests, rccl-tests and NCCL's log, and the verdicts on them."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
from support.rows import each_row

from rackwright.checks.acceptance.parsers import nccl, nccl_log
from rackwright.checks.acceptance.phase import Finding, Job
from rackwright.checks.acceptance.phases import nccl as phase
from rackwright.errors import UndeterminedError

from .played import FAILED, NODES, PASSED, RAILS, SKIPPED, UNKNOWN, judged, output, scope
from .played import text as captured

ANNOUNCED = (
    "# nThread 1 nGpus 1 minBytes 4294967296 maxBytes 17179869184 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1\n"
)
HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
ROW = " {size} {count} float sum -1 {time} 272.1 {busbw} {wrong} {time} 271.9 {busbw} {wrong}\n"
SIZES = (2**32, 2**33, 2**34)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 470.1 \n#\n# Collective test concluded: all_reduce_perf\n#\n"


def devices(hosts: tuple[str, ...] = ("worker0",), product: str = "NVIDIA H100 80GB HBM3") -> str:
    """Return the list of eight devices on each host."""
    return "# Using devices\n" + "".join(
        f"#  Rank {8 * number + gpu:2d} Group  0 Pid   4{gpu}00 on    {host} device {gpu:2d} [0000:{gpu:02x}:00] {product}\n"
        for number, host in enumerate(hosts)
        for gpu in range(8)
    )


def rows(busbw: str = "476.2", wrong: str = "0") -> str:
    return "".join(ROW.format(size=size, count=size // 4, time=size // 272_000, busbw=busbw, wrong=wrong) for size in SIZES)


def said(message: str, host: str = "worker0", gpu: int = 0) -> str:
    return f"{host}:41{gpu}:42{gpu} [{gpu}] NCCL INFO {message}\n"


def paths(inside: str = "P2P/CUMEM/read", hosts: tuple[str, ...] = ("worker0",), between: str = "") -> str:
    """Return the connections of all hosts."""
    text = ""
    for host in hosts:
        text += "".join(said(f"Channel 0{gpu}/0 : {gpu}[{gpu}] -> {gpu + 1}[{gpu + 1}] via {inside}", host, gpu) for gpu in range(3))
        if between:
            text += said(f"Channel 00/0 : 7[7] -> 8[0] [send] via {between}", host) + said(
                f"Channel 00/0 : 15[7] -> 0[0] [receive] via {between}", host
            )
    return text


ONE = ANNOUNCED + devices() + paths() + HEADER + rows() + END
TWO = ANNOUNCED + devices(NODES) + paths(hosts=NODES, between="NET/IB/0/GDRDMA") + HEADER + rows("385.0") + END


def found_in(
    single: str = ONE,
    several: str = TWO,
    *,
    gpu: str = "h100",
    fabric: bool = True,
    machine: str = "",
    efa: int = 0,
    on_all: bool = False,
    matrix: str = "",
) -> dict[tuple[str, str], Finding]:
    """Return the findings of two nodes whose runs printed the texts; `on_all`: as many times as there are tasks."""
    about = scope(fabric=fabric)
    for node in about.declared.nodes.values():
        node["gpus"]["model"] = gpu
    samples = [{"second": n, "cpu_busy": 0.1, "gpu_busy": [99.0] * 8, "sent_bytes": dict.fromkeys(RAILS, n * 10**9)} for n in range(5)]

    def answer(job: Job, node: str, rank: int) -> object:
        if job.name.startswith("topo-"):
            return {"topo": {"rc": 0, "out": matrix or captured("topo", "good"), "err": ""}}
        text = several if len(job.nodes) > 1 else single.replace("worker0", node)
        if job.gpus_per_node == 1:
            text = ANNOUNCED + devices().partition("#  Rank  1")[0] + HEADER + rows("0.00") + END
        local = rank % job.tasks_per_node
        printed = "" if rank and not on_all else text
        return {"rc": 0, "out": printed, "err": "", "machine": machine, "efa": efa, "samples": [] if local else samples}

    return judged(phase, about, answer)


def verdict(check: str, **given: object) -> object:
    return found_in(**given)[check, "worker0"].verdict


def changed(text: str, *, old: str, new: str, times: int = 1) -> str:
    assert old in text
    return text.replace(old, new, times)


def prefixed(text: str, prefix: Callable[[int], str]) -> str:
    return "".join(f"{prefix(number % 3)}{line}" for number, line in enumerate(text.splitlines(keepends=True)))


WITHOUT_ROOT = HEADER.replace("    root", "").replace("#wrong", " error")
ROWS_WITHOUT_ROOT = rows(wrong="2e-07").replace(" -1 ", " ")
WARN = "\n[2026-11-26 10:00:00] worker0:41:42 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n"
GLUED = "worker0:41:42 [0] NCCL INFO Connected all trees\n"
GOOD_FORMS = {
    "label of srun": prefixed(ONE, lambda rank: f"{rank}: "),
    "padded label of srun": prefixed(ONE, lambda rank: f" {rank}: "),
    "tag of Open MPI 4": prefixed(ONE, lambda rank: f"[1,{rank}]<stdout>:"),
    "tag of Open MPI 5": prefixed(ONE, lambda rank: f"[prterun-worker0-77@1,{rank}]<stdout>: "),
    "tag and time of Open MPI": prefixed(ONE, lambda rank: f"Mon Jan 12 11:12:13 2026[1,{rank}]<stdout>:"),
    "label of MPICH": prefixed(ONE, lambda rank: f"[{rank}] "),
    "CRLF": ONE.replace("\n", "\r\n"),
    "warning between rows": changed(ONE, old=f" {2**34} ", new=f"{WARN} {2**34} "),
    "warning inside a row": ONE.replace(" float sum -1 ", f" float sum -1{WARN} "),
    "warning of a plugin": changed(
        ONE,
        old=HEADER,
        new="[2026-01-01 10:00:00] worker0:4:5 [0] int create(plugin_t**):352 NCCL WARN NET/OFI initialization failed\n" + HEADER,
    ),
    "matrix of algorithms": changed(
        ONE,
        old=HEADER,
        new=said("Enabled NCCL Func/Proto/Algo Matrix:") + "     Function |  LL  Simple  |  Tree\n  Reduce |  0  1  |  1\n" + HEADER,
    ),
    "log inside a row": ONE.replace(" float sum -1 ", f" float sum -1{GLUED} "),
    "log between the halves of a row": ONE.replace(" 476.2 0 ", f" 476.2 0{GLUED} ", 2),
    "host that begins with a digit": ONE.replace(" float sum -1 ", " float sum -18gpu-2:41:42 [0] NCCL INFO Connected all trees\n "),
    "large counts": ONE.replace("4294967296 float", "4.29497e+09 float"),
    "decimal comma": ONE.replace("476.2", "476,25"),
    "release without root and with error": changed(ONE, old=HEADER, new=WITHOUT_ROOT).replace(rows(), ROWS_WITHOUT_ROOT),
    "release without groups": ONE.replace(" Group  0", ""),
    "bus id of old releases": ONE.replace("[0000:01:00]", "[0x07]"),
    "several types per size": ONE.replace(END, rows("470.1").replace("float sum", "bfloat16 max") + END),
    "columns per iteration": changed(ONE, old=HEADER, new=HEADER.replace("#wrong", "#wrong i_min i_max i_p99 i_cv")).replace(
        " 476.2 0", " 476.2 0 1.0 2.0 2.0 0.1"
    ),
    "average without a number": ONE.replace("470.1 ", "-nan "),
    "in place not checked": ONE.replace(" 0\n", " N/A\n"),
    "rounded sizes of 6 ranks": ONE.replace(f" {2**34} ", f" {2**34 - 64} "),
    "log of a run without rank 0 first": paths() + ONE,
    "RCCL": ONE.replace("NCCL INFO", "RCCL INFO").replace(
        END, "# Errors with asterisks indicate errors that have exceeded the maximum.\n" + END
    ),
    "time before the host": ONE.replace("worker0:41", "[2026-11-26 10:00:00] worker0:41"),
    "old channel": ONE.replace("Channel 00/0 : 0[0] -> 1[1]", "Ring 00 : 0[1b000] -> 1[1c000]"),
    "colours": ONE.replace("# Out", "\x1b[32m# Out"),
}


@each_row("form", GOOD_FORMS)
def test_form_of_a_good_run_passes(form: str) -> None:
    found = found_in(single=GOOD_FORMS[form])
    checks = ("results_are_right", "data_goes_over_the_declared_network", "all_reduce_is_fast")
    assert {check: found[check, "worker0"].verdict for check in checks} == dict.fromkeys(checks, PASSED), found[
        "results_are_right", "worker0"
    ]


OLD_ALLTOALL = (
    ANNOUNCED + devices() + WITHOUT_ROOT + "".join(
        f" {size} {size // 32} float           520935 0.52 48.1 0e+00   519562 0.52 48.6  {{place}}\n" for size in SIZES
    ) + END
)  # fmt: skip
"""Releases before 2.13 have a title `redop` above a row without one, and count no errors in place."""


@each_row(("place", "wrong"), [("1e+00", 0), ("N/A", 0)])
def test_row_without_reduction_is_read_by_column(place: str, wrong: int) -> None:
    run = nccl.parse(OLD_ALLTOALL.format(place=place))
    assert (run.bandwidth_gb_s, run.wrong) == (48.6, wrong)


SICK_FORMS = {
    "out of bounds of an old release": changed(GOOD_FORMS["release without root and with error"], old="0 OK", new="248 FAILED"),
    "out of bounds without a count": changed(ONE, old="0 OK", new="3 FAILED"),
    "out of bounds and not checked": changed(ONE, old="0 OK", new="3 FAILED").replace("476.2 0", "476.2 N/A"),
    "wrong in place": ONE.replace(rows(), rows().replace("0\n", "1\n")),
    "millions wrong": ONE.replace(rows(), rows(wrong="3.35544e+07")),
    "wrong before the log inside a row": ONE.replace(" 476.2 0 ", f" 476.2 3{GLUED} ", 1),
    "wrong in a row of a strange type": ONE.replace(rows(), rows(wrong="7")).replace("float sum", "f4e2m1x2 sum"),
    "wrong beside an unread count": ONE.replace(rows(), changed(rows(wrong="7"), old="476.2 7", new="476.2 ERR!")),
}


@pytest.mark.parametrize("form", SICK_FORMS)
def test_form_of_a_wrong_run_fails(form: str) -> None:
    assert verdict("results_are_right", single=SICK_FORMS[form]) is FAILED


UNCHECKED_FORMS = {
    "not checked": ONE.replace("476.2 0", "476.2 N/A"),
    "out of place not checked": changed(ONE, old="476.2 0", new="476.2 N/A"),
    "one row lost": ONE.replace(f" {2**33} ", " # "),
    "row cut by the log and never continued": ONE.replace(" float sum -1 ", f" float sum -1{GLUED}# "),
    "groups": ONE.replace("Rank  7 Group  0", "Rank  7 Group  1"),
    "a rank missing": ONE.replace("#  Rank  7", "#  Rank  6"),
}


@pytest.mark.parametrize("form", UNCHECKED_FORMS)
def test_unchecked_results_are_unknown(form: str) -> None:
    assert verdict("results_are_right", single=UNCHECKED_FORMS[form]) is UNKNOWN


def test_output_without_line_end_is_not_joined_with_the_next() -> None:
    """A task that ends without a line end must not spoil the first line of the next task."""
    own = paths(hosts=("worker0",), between="NET/IB/0/GDRDMA")
    other = said("Channel 00/0 : 15[7] -> 0[0] [send] via NET/IB/0/GDRDMA", "worker1") + paths(hosts=("worker1",))
    texts = {0: ANNOUNCED + devices(NODES) + own + HEADER + rows("385.0") + END, 8: other}

    def answer(job: Job, node: str, rank: int) -> object:
        return {"rc": 0, "out": texts.get(rank, "library loaded").removesuffix("\n"), "err": "", "efa": 0, "samples": []}

    about = scope()
    outputs = {job.name: output(job, answer) for job in phase.PHASE.jobs(about) if len(job.nodes) > 1}
    found = [each for each in phase.PHASE.evaluate(about, outputs) if each.check == "data_goes_over_the_declared_network"]
    assert {each.verdict for each in found} == {PASSED}


def test_tasks_without_mpi_are_unknown() -> None:
    """Each of 16 tasks runs by itself, as rank 0 of one."""
    alone = ANNOUNCED + devices().partition("#  Rank  1")[0] + HEADER + rows() + END
    found = found_in(several=alone, on_all=True)["results_are_right", "worker1"]
    assert found.verdict is UNKNOWN and "ran with 1 ranks, not 16" in found.reason


@each_row(
    ("gpu", "inside", "expected"),
    [
        ("h100", "P2P/CUMEM/read", PASSED),
        ("h100", "P2P/direct pointer", PASSED),
        ("h100", "P2P/IPC comm 0x55aa nRanks 08", PASSED),
        ("h100", "SHM/direct/direct", FAILED),
        ("h100", "direct shared memory", FAILED),
        ("h100", "NET/Socket/0", FAILED),
        ("h100", "WARP/0", UNKNOWN),
        ("l40s", "SHM/direct/direct", PASSED),
        ("rtx4090", "SHM/direct/direct", PASSED),
        ("rtx4090", "P2P/CUMEM", PASSED),
        ("h100-pcie", "direct shared memory", PASSED),
        ("l4", "NET/Socket/0", FAILED),
        ("v100", "SHM/direct/direct", FAILED),
        ("v100", "P2P/indirect/2[2]", PASSED),
        ("gb200", "P2P/MNNVL", PASSED),
    ],
)
def test_path_inside_a_node_follows_the_model(gpu: str, inside: str, expected: object) -> None:
    """GPUs without NVLink exchange data through main memory by design; others do not."""
    text = ANNOUNCED + devices() + paths(inside) + HEADER + rows() + END
    assert verdict("data_goes_over_the_declared_network", single=text, several=TWO, gpu=gpu) is expected


MATRIX = captured("topo", "good")
MATRICES = {
    "all connected": (MATRIX, PASSED),
    "a pair over PCIe": (captured("topo", "slow"), FAILED),
    "a pair with fewer links": (MATRIX.replace("NV18", "NV17", 1), FAILED),
    "no links": (MATRIX.replace("NV18", "SYS"), FAILED),
    "links of an A100": (MATRIX.replace("NV18", "NV12"), PASSED),
    "an unread pair": (MATRIX.replace("NV18", "ERR!", 1), UNKNOWN),
    "an unread pair beside a bad one": (MATRIX.replace("NV18", "ERR!", 1).replace("NV18", "PHB", 1), FAILED),
    "a GPU missing": ("".join(line for line in MATRIX.splitlines(keepends=True) if not line.startswith("GPU7")), UNKNOWN),
    "driver does not answer": (captured("topo", "failed"), UNKNOWN),
}


@pytest.mark.parametrize("case", MATRICES)
def test_links_between_gpus_are_judged(case: str) -> None:
    matrix, expected = MATRICES[case]
    assert verdict("gpus_are_connected", matrix=matrix) is expected


@pytest.mark.parametrize("gpu", ["l40s", "rtx4090", "h100-pcie", "v100"])
def test_models_without_links_between_all_are_skipped(gpu: str) -> None:
    """A V100 has links to some of its peers only."""
    assert verdict("gpus_are_connected", gpu=gpu, matrix=captured("topo", "slow")) is SKIPPED


@each_row(
    ("gpu", "between", "network", "gpudirect"),
    [
        ("h100", "NET/IB/0/GDRDMA", PASSED, PASSED),
        ("h100", "NET/IB/0(8)/GDRDMA/Shared", PASSED, PASSED),
        ("b200", "NET/IB/3/GDRDMA(PCI)", PASSED, PASSED),
        ("h100", "NET/IBext_v10/7/GDRDMA", PASSED, PASSED),
        ("h200", "NET/gIB/0/GDRDMA", PASSED, PASSED),
        ("h100", "NET/IB/0", PASSED, FAILED),
        ("h100", "NET/Socket/0", FAILED, UNKNOWN),
        ("h100", "NET/FastSocket/0", FAILED, UNKNOWN),
        ("h100", "NET/UCX/0/GDRDMA", FAILED, UNKNOWN),
        ("h100", "P2P/MNNVL", FAILED, SKIPPED),
        ("gb200", "P2P/MNNVL", PASSED, SKIPPED),
        ("gb300", "NET/IB/0/GDRDMA", PASSED, PASSED),
        ("gb200", "NET/Socket/0", FAILED, UNKNOWN),
        ("rtx4090", "NET/IB/0", PASSED, SKIPPED),
        ("rtx4090", "NET/IB/0/GDRDMA", PASSED, PASSED),
    ],
)
def test_path_between_nodes_follows_plan_and_model(gpu: str, between: str, network: object, gpudirect: object) -> None:
    several = ANNOUNCED + devices(NODES) + paths(hosts=NODES, between=between) + HEADER + rows("385.0") + END
    found = found_in(several=several, gpu=gpu)
    assert found["data_goes_over_the_declared_network", "worker1"].verdict is network
    assert found["gpudirect_is_on", "worker1"].verdict is gpudirect


def test_sends_of_old_pcie_cards_need_no_gpudirect() -> None:
    """NCCL reads the memory of a T4 through the host, and writes it directly."""
    half = TWO.replace("[send] via NET/IB/0/GDRDMA", "[send] via NET/IB/0")
    assert verdict("gpudirect_is_on", several=half, gpu="t4") is PASSED
    assert verdict("gpudirect_is_on", several=half, gpu="a30") is FAILED
    none = TWO.replace("NET/IB/0/GDRDMA", "NET/IB/0")
    assert verdict("gpudirect_is_on", several=none, gpu="t4") is FAILED


@pytest.mark.parametrize(
    ("provider", "machine", "path", "network", "gpudirect"),
    [
        ("Selected Provider is efa (found 4 nics)", "p5.48xlarge", "NET/AWS Libfabric/0/GDRDMA", PASSED, PASSED),
        ("Selected provider is efa, fabric is efa-direct (found 16 nics)", "p5.48xlarge", "NET/Libfabric/0/GDRDMA", PASSED, PASSED),
        ("Selected Provider is efa", "g6e.48xlarge", "NET/AWS Libfabric/0", PASSED, SKIPPED),
        ("Selected Provider is efa", "p4d.24xlarge", "NET/AWS Libfabric/0", PASSED, FAILED),
        ("Selected Provider is tcp;ofi_rxm", "p5.48xlarge", "NET/AWS Libfabric/0", FAILED, FAILED),
        ("Selected provider is sockets, fabric is 10.0.0.0/16", "p5.48xlarge", "NET/Libfabric/0", FAILED, FAILED),
        ("Using aws-ofi-nccl 1.17.0", "p5.48xlarge", "NET/Socket/0", FAILED, UNKNOWN),
    ],
)
def test_provider_of_libfabric_is_judged(provider: str, machine: str, path: str, network: object, gpudirect: object) -> None:
    """The plugin is called Libfabric over TCP, too."""
    log = "".join(said(f"NET/OFI {provider}", host) + said("Using network Libfabric", host) for host in NODES)
    several = ANNOUNCED + devices(NODES) + log + paths(hosts=NODES, between=path) + HEADER + rows("450.0") + END
    found = found_in(several=several, fabric=False, efa=32, machine=machine)
    assert found["data_goes_over_the_declared_network", "worker0"].verdict is network
    assert found["gpudirect_is_on", "worker0"].verdict is gpudirect


def test_small_gpu_is_judged_by_its_largest_message() -> None:
    """The program lowers the size that its memory holds, and never prints the larger rows."""
    smaller = (
        ANNOUNCED.replace("minBytes 4294967296", "minBytes 1073741824")
        + devices()
        + "# Reducing maxBytes to 2505397589 due to memory limitation\n"
    )
    reduced = "".join(ROW.format(size=2**power, count=2**power // 4, time=99, busbw="9.1", wrong=0) for power in (30, 31))
    found = found_in(single=smaller + paths("SHM/direct/direct") + HEADER + reduced + END, gpu="rtx3070")
    assert {found[check, "worker0"].verdict for check in ("results_are_right", "all_gather_is_fast")} == {PASSED}
    unread = ANNOUNCED + devices() + paths() + HEADER + "".join(rows().splitlines(keepends=True)[:2]) + END
    assert verdict("all_reduce_is_fast", single=unread) is UNKNOWN


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "worker0:4:5 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
            "Duplicate GPU detected",
        ),
        (
            "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file",
            "libnccl.so.2: cannot open",
        ),
        (
            "worker0:4:5 [0] ras/client_support.cc:159 NCCL WARN Call to bind failed: Address already in use\n"
            "worker0:4:5 [0] net_ib.cc:9 NCCL WARN NET/IB : Unable to open device mlx5_3",
            "Unable to open device mlx5_3",
        ),
        ("Invalid number of GPUs: 8 requested but only 7 were found.", "8 requested but only 7"),
        ("worker0: Test CUDA failure common.cu:1200 'out of memory'", "out of memory"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0", "oom_kill"),
        ("[worker0:4] *** Signal: Segmentation fault (11)", "Segmentation fault"),
    ],
)
def test_reason_of_an_aborted_run_is_quoted(line: str, reason: str) -> None:
    with pytest.raises(UndeterminedError, match="did not finish") as caught:
        nccl.parse(ANNOUNCED + devices() + line + "\n")
    assert reason in str(caught.value)


def test_docstring_examples_hold() -> None:
    assert not doctest.testmod(nccl_log).failed
