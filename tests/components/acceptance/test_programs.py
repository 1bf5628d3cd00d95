"""Programs of jobs run here as they run there: from standard input, with nothing of the project; sizes are tiny, tools are played."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS

from rackwright.checks.acceptance.parsers import fio, hpcc
from rackwright.checks.acceptance.phase import PROGRAMS
from rackwright.checks.acceptance.programs import rdma_pairs

CAPTURED = Path(__file__).parents[2] / "unit" / "acceptance" / "captured"

PYTHON = os.environ.get("RACKWRIGHT_PYTORCH") or sys.executable
"""An interpreter that may have PyTorch."""
HAS_PYTORCH = subprocess.run([PYTHON, "-I", "-c", "import torch"], capture_output=True, check=False).returncode == 0
with_pytorch = pytest.mark.skipif(
    not HAS_PYTORCH,
    reason="no PyTorch here, and none in the lock: name an interpreter that has it in RACKWRIGHT_PYTORCH (Debian: python3-torch)",
)
TINY = (
    "--device",
    "cpu",
    "--width",
    "64",
    "--heads",
    "4",
    "--layers",
    "2",
    "--length",
    "32",
    "--batch",
    "2",
    "--words",
    "256",
    "--warm",
    "2",
    "--steps",
    "8",
)


def started(name: str, *words: str, python: str = sys.executable, **environment: str) -> subprocess.Popen[str]:
    """Start the program as srun does."""
    places = {"PATH": os.environ["PATH"], "NODE_NAME": "worker0", "RANK": "0", **environment}
    with (PROGRAMS / name).open(encoding="utf-8") as text:
        return subprocess.Popen(
            [python, "-I", "-", *words], stdin=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=places
        )


def printed(program: subprocess.Popen[str]) -> Any:
    """Return its output: one line of JSON."""
    out, err = program.communicate(timeout=HANG_SECONDS)
    assert program.returncode == 0, err
    return json.loads(out) if out.strip() else None


def played(folder: Path, name: str, text: str) -> None:
    """Install a tool with a given output."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("name", ["gpu_speed.py", "training.py"])
def test_program_reports_no_measurement_without_pytorch_or_gpu(name: str) -> None:
    """The result has no measurement."""
    if HAS_PYTORCH and shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU here")
    answer = printed(started(name, python=PYTHON))
    assert set(answer) == {"unknown"} and "PyTorch" in answer["unknown"]


@with_pytorch
def test_speed_programs_run_on_cpu() -> None:
    """The same code with small sizes; its result on a CPU is no measurement of a GPU."""
    brief = ("--warm-seconds", "0.1", "--seconds", "0.1")
    answer = printed(started("gpu_speed.py", "--device", "cpu", "--matrix", "256", "--copy-mib", "4", *brief, python=PYTHON))
    assert {each["quantity"] for each in answer["figures"]} == {"matmul-bf16", "hbm-copy"}
    assert all(each["value"] > 0 for each in answer["figures"])


@with_pytorch
@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_training_loss_falls_on_two_processes(mode: str) -> None:
    """Rank 0 reports for both; the loss falls."""
    port = {"ddp": "29611", "fsdp": "29612"}[mode]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [started("training.py", *TINY, "--mode", mode, python=PYTHON, **{**common, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01"]
    first, second = [printed(rank) for rank in ranks]
    assert second is None
    assert (first["mode"], first["ranks"]) == (mode, 2) and first["tokens_s"] > 0 and first["last_loss"] < first["first_loss"]


def test_storage_measurement_leaves_data_unchanged(tmp_path: Path) -> None:
    """Five measurements, no byte changed, no file left."""
    answer = printed(started("storage_speed.py", str(tmp_path), "--mib", "2", "--files", "10", "--fsyncs", "5"))
    assert {each["quantity"] for each in answer["figures"]} == {
        *("storage-write", "storage-read", "storage-metadata", "storage-small-files", "storage-fsync"),
    }
    assert answer["wrong"] == 0 and all(each["value"] > 0 for each in answer["figures"])
    assert list(tmp_path.iterdir()) == []


def test_storage_reports_failed_write(tmp_path: Path) -> None:
    """The folder is a file."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "unknown" in printed(started("storage_speed.py", str(tmp_path / "file")))
    assert "unknown" in printed(started("storage_kill.py", "write", str(tmp_path / "file")))
    assert "unknown" in printed(started("storage_kill.py", "read", str(tmp_path), "worker9"))


def test_synced_records_survive_killed_writer(tmp_path: Path) -> None:
    """Truncated and changed records are not counted."""
    safe = printed(started("storage_kill.py", "write", str(tmp_path)))["acknowledged"]
    assert safe >= 20
    assert printed(started("storage_kill.py", "read", str(tmp_path), "worker0"))["found"]["worker0"] >= safe
    file = tmp_path / "kill-worker0"
    whole = file.read_bytes()
    file.write_bytes(whole[: 5 * 4096 + 100])
    assert printed(started("storage_kill.py", "read", str(tmp_path), "worker0"))["found"] == {"worker0": 5}
    file.write_bytes(whole[:4096] + b"?" + whole[4097:])
    assert printed(started("storage_kill.py", "read", str(tmp_path), "worker0"))["found"] == {"worker0": 1}


def test_every_cpu_copies_memory() -> None:
    """The copies are compared afterwards."""
    answer = printed(started("memory_copy.py", "--mib", "4", "--seconds", "0.2"))
    assert answer["processes"] == len(os.sched_getaffinity(0)) and answer["wrong"] == 0 and answer["value"] > 0


def test_missing_tool_is_reported(tmp_path: Path) -> None:
    """Status, output, errors, time-outs."""
    played(tmp_path, "good", "echo out; echo err >&2; exit 3")
    played(tmp_path, "slow", f"exec sleep {ENDLESS_SECONDS}")
    asked = [["a", ["good"], HANG_SECONDS], ["b", ["slow"], 0.2], ["c", ["no-such-tool"], HANG_SECONDS]]
    answer = printed(started("tools.py", *map(json.dumps, asked), PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert answer["a"] == {"rc": 3, "out": "out\n", "err": "err\n"}
    assert answer["b"]["rc"] == 124 and answer["c"] == {"rc": 127, "out": "", "err": "no-such-tool is not installed"}


def test_collectives_are_run_and_sampled(tmp_path: Path) -> None:
    """Only the first task of a node samples; the program runs in its folder; one that hangs is killed."""
    played(tmp_path, "nvidia-smi", f"echo look >> {tmp_path}/looks; echo 7")
    played(tmp_path, "all_reduce_perf", f'echo "# nThread 1"; until [ "$(wc -l < {tmp_path}/looks)" -ge 3 ]; do sleep 0.02; done')
    played(tmp_path, "hang_perf", f"exec sleep {ENDLESS_SECONDS}")
    (tmp_path / "looks").touch()
    words = ("--folder", str(tmp_path), "--every", "0.05", "all_reduce_perf", "-b", "8")
    answer = printed(started("collective.py", *words, PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert answer["rc"] == 0 and answer["out"] == "# nThread 1\n" and len(answer["samples"]) >= 3
    assert all(0 <= each["cpu_busy"] <= 1 for each in answer["samples"])
    assert all(each["gpu_busy"] == [7.0] for each in answer["samples"])
    assert printed(started("collective.py", *words, LOCAL_RANK="1"))["samples"] == []
    assert printed(started("collective.py", "--folder", str(tmp_path), "--seconds", "0.2", "hang_perf"))["rc"] == 124
    missing = printed(started("collective.py", "--folder", str(tmp_path), "no_perf"))
    assert missing["rc"] == 127 and "no_perf" in missing["err"]


def test_two_nodes_connect_on_every_rail(tmp_path: Path) -> None:
    """The client reports, also when the server listens late; a node without a partner waits; a node without the tool reports that."""
    for tool in ("ib_write_bw", "ib_write_lat"):
        # The server of the second rail is late: the client is refused once and retries.
        late = f'[ -e {tmp_path}/up-$3 ] || {{ touch {tmp_path}/up-$3; echo "Couldn\'t connect" >&2; exit 1; }}'
        played(tmp_path, tool, f'case "$*" in *worker0*) {late};; esac; echo {tool} "$@"')
    words = ("--rails", "mlx5_0", "mlx5_1", "--pairs", '[["worker0", "worker1"]]', "--seconds", "1")
    path = f"{tmp_path}:{os.environ['PATH']}"
    server, client, rests = [
        printed(started("rdma_pairs.py", *words, NODE_NAME=node, PATH=path)) for node in ("worker0", "worker1", "worker2")
    ]
    assert (server["role"], client["role"], rests["role"]) == ("server", "client", "rests") and server["meetings"] == []
    assert [(each["rail"], each["tool"], each["rc"]) for each in client["meetings"]] == [
        *(("mlx5_0", "ib_write_bw", 0), ("mlx5_0", "ib_write_lat", 0), ("mlx5_1", "ib_write_bw", 0), ("mlx5_1", "ib_write_lat", 0)),
    ]
    assert client["meetings"][0]["out"].startswith("ib_write_bw -d mlx5_0 -F --report_gbits") and client["meetings"][0][
        "out"
    ].strip().endswith("-p 18515 worker0")
    missing = printed(started("rdma_pairs.py", *words, NODE_NAME="worker1"))
    assert {each["rc"] for each in missing["meetings"]} == {127} or shutil.which("ib_write_bw")


def test_client_that_failed_after_it_connected_is_not_repeated(tmp_path: Path) -> None:
    """Its server has ended: a second attempt could only say that nothing listens. The header has the words `Connection type`."""
    failed = CAPTURED / "perftest" / "failed-completion.txt"
    played(tmp_path, "ib_write_bw", f"echo started >> {tmp_path}/starts; cat {failed}; exit 1")
    played(tmp_path, "ib_write_lat", "")
    words = ("--rails", "mlx5_0", "--pairs", '[["worker0", "worker1"]]', "--seconds", "1", "--patience", "3")
    client = printed(started("rdma_pairs.py", *words, NODE_NAME="worker1", PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert (tmp_path / "starts").read_text().count("started") == 1
    assert "Failed status 12" in client["meetings"][0]["out"] and client["meetings"][0]["rc"] == 1


@pytest.mark.parametrize(
    ("tool", "name"), [("ib_write_bw", "perftest/failed-connect"), ("rping", "rping/failed-connect"), ("rping", "rping/failed-rejected")]
)
def test_client_is_repeated_until_its_server_listens(tmp_path: Path, tool: str, name: str) -> None:
    refused = CAPTURED / f"{name}.txt"
    played(tmp_path, tool, f'echo started >> {tmp_path}/starts; [ "$(wc -l < {tmp_path}/starts)" -gt 2 ] || {{ cat {refused}; exit 255; }}')
    status, _, _ = rdma_pairs.meet([str(tmp_path / tool)], 10)
    assert status == 0 and (tmp_path / "starts").read_text().count("started") == 3


def test_server_reports_what_failed(tmp_path: Path) -> None:
    played(tmp_path, "ib_write_bw", 'case "$*" in *mlx5_1*) echo "Couldn\'t allocate MR" >&2; exit 1;; esac')
    played(tmp_path, "ib_write_lat", "")
    words = ("--rails", "mlx5_0", "mlx5_1", "--pairs", '[["worker0", "worker1"]]', "--seconds", "1", "--patience", "1")
    server = printed(started("rdma_pairs.py", *words, NODE_NAME="worker0", PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert [(each["rail"], each["tool"], each["rc"], each["err"].strip()) for each in server["meetings"]] == [
        ("mlx5_1", "ib_write_bw", 1, "Couldn't allocate MR")
    ]


def test_software_rdma_is_tested_by_count_then_by_rping(tmp_path: Path) -> None:
    """The client asks the server's name for bandwidth, and its address of the rail for a connection."""
    for tool in ("ib_write_bw", "rping"):
        played(tmp_path, tool, f'echo {tool} "$@"')
    addresses = json.dumps({"worker0": ["198.18.0.24", "198.18.1.24"], "worker1": ["198.18.0.25", "198.18.1.25"]})
    words = ("--rails", "rxe0", "rxe1", "--pairs", '[["worker0", "worker1"]]', "--count", "100", "--addresses", addresses)
    client = printed(started("rdma_pairs.py", *words, NODE_NAME="worker1", PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert [each["out"].strip() for each in client["meetings"]] == [
        "ib_write_bw -d rxe0 -F --report_gbits -s 65536 -n 100 -t 8 -u 18 -x 1 -p 18515 worker0",
        "rping -c -v -V -a 198.18.0.24 -C 5 -p 18516",
        "ib_write_bw -d rxe1 -F --report_gbits -s 65536 -n 100 -t 8 -u 18 -x 1 -p 18517 worker0",
        "rping -c -v -V -a 198.18.1.24 -C 5 -p 18518",
    ]


def test_gid_of_ipv4_is_found(tmp_path: Path) -> None:
    """Its number differs with the addresses that the card had before; version 1 of RoCE comes first on adapters."""
    rows = {
        "0": ("fe80:0000:0000:0000:0050:13ff:fe54:76aa", "RoCE v2"),
        "2": ("0000:0000:0000:0000:0000:ffff:c612:0018", "IB/RoCE v1"),
        "10": ("0000:0000:0000:0000:0000:ffff:c612:0018", "RoCE v2"),
    }
    for index, (gid, kind) in rows.items():
        for folder, content in (("gids", gid), ("gid_attrs/types", kind)):
            (tmp_path / "rxe0/ports/1" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "rxe0/ports/1" / folder / index).write_text(f"{content}\n")
    assert rdma_pairs.gid_index("rxe0", str(tmp_path)) == "10"
    assert rdma_pairs.gid_index("rxe1", str(tmp_path)) == "1"


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed (Debian: apt install fio)")
def test_file_io_measures_and_removes_its_files(tmp_path: Path) -> None:
    answer = printed(started("file_io.py", str(tmp_path), "--mib", "1", "--seconds", "1"))
    written, read = (fio.parse(answer[name]["out"]) for name in ("write", "read"))
    assert written.operations_s("write") > 0 and read.operations_s("read") > 0 and written.errors == read.errors == {}
    assert list(tmp_path.iterdir()) == []


def test_file_io_reports_missing_tool_and_folder(tmp_path: Path) -> None:
    assert printed(started("file_io.py", str(tmp_path), PATH="/nonexistent")) == {"unknown": "fio is not installed"}
    played(tmp_path, "fio", "exit 1")
    answer = printed(started("file_io.py", str(tmp_path / "fio" / "absent"), PATH=str(tmp_path)))
    assert "Not a directory" in answer["unknown"]
    assert "is not a mount point" in printed(started("file_io.py", str(tmp_path), "--mounted", PATH=str(tmp_path)))["unknown"]


@pytest.mark.skipif(shutil.which("hpcc") is None or os.getuid() == 0, reason="hpcc is not installed (Debian), or mpirun refuses root")
def test_hpcc_runs_on_one_process() -> None:
    assert hpcc.parse(printed(started("hpcc.py", "--processes", "1"))["summary"]).right


def test_hpcc_starts_one_process_per_core_outside_slurm(tmp_path: Path) -> None:
    """Within a job, mpirun would start its processes through srun."""
    played(tmp_path, "hpcc", "exit 1")
    played(tmp_path, "mpirun", 'env > "$HOME/hpccoutf.txt"; echo "$@"; cat hpccinf.txt')
    answer = printed(started("hpcc.py", "--processes", "6", PATH=f"{tmp_path}:{os.environ['PATH']}", SLURM_JOB_ID="7", PMIX_RANK="0"))
    assert answer["out"].splitlines()[0] == "-np 6 --host localhost:6 hpcc" and answer["processes"] == 6
    assert [line.split()[0] for line in answer["out"].splitlines() if line.endswith((" Ns", " Ps", " Qs"))] == ["979", "2", "3"]
    assert "SLURM" not in answer["summary"] and "PMIX" not in answer["summary"]


def test_hpcc_reports_missing_tool() -> None:
    assert printed(started("hpcc.py", PATH="/nonexistent")) == {"unknown": "hpcc is not installed"}


def exchanging(tasks: int, *words: str) -> list[Any]:
    """Return the output of tasks that exchange data between three nodes; fewer tasks leave the other nodes silent."""
    own = os.getpid()
    hosts = {f"worker{number}": [f"127.{1 + own % 250}.{own // 250 % 250}.{101 + number}"] for number in range(3)}
    options = ("--addresses", json.dumps(hosts), *words)
    programs = [started("all_to_all.py", *options, NODE_NAME=f"worker{number}", MASTER_PORT="23456") for number in range(tasks)]
    return [printed(program) for program in programs]


def test_all_to_all_keeps_its_rate() -> None:
    """An upper limit only: a loaded machine is slower."""
    answers = exchanging(3, "--mbit", "40", "--mib", "1")
    assert [answer["error"] for answer in answers] == [""] * 3
    assert all(0 < answer["value"] < 5.5 for answer in answers), answers


def test_all_to_all_names_silent_node() -> None:
    answers = exchanging(2, "--mbit", "40", "--mib", "1", "--seconds", "0.5")
    assert [answer["value"] for answer in answers] == [0.0, 0.0]
    assert all("worker2 does not respond at 127." in answer["error"] for answer in answers)
