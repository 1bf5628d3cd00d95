"""The training program with a real PyTorch on CPUs: kills, other numbers of ranks, DDP beside FSDP2, damaged checkpoints.

Needs PyTorch and about 20 s on an idle machine for each run of two ranks; RACKWRIGHT_PYTORCH names an interpreter that has it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackwright.report.finetuning import LIMIT
from rackwright.workloads.training import manifest
from rackwright.workloads.training_job import PACKAGE, program_files

PYTHON = os.environ.get("RACKWRIGHT_PYTORCH") or sys.executable
HAS_PYTORCH = subprocess.run([PYTHON, "-I", "-c", "import torch"], capture_output=True, check=False).returncode == 0
pytestmark = pytest.mark.skipif(
    not HAS_PYTORCH,
    reason="no PyTorch here, and none in the lock: name an interpreter that has it in RACKWRIGHT_PYTORCH (Debian: python3-torch)",
)
STEPS, EVERY = 24, 8
_MOMENTS = """
import json, sys, torch
import torch.distributed.checkpoint as sharded
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
reader = sharded.FileSystemReader(sys.argv[1])
about = {key: one for key, one in reader.read_metadata().state_dict_metadata.items() if "exp_avg" in key and "exp_avg_sq" not in key}
state = {key: torch.empty(one.size) for key, one in about.items() if isinstance(one, TensorStorageMetadata)}
sharded.load(state, storage_reader=reader)
print(json.dumps({key: float(one.norm()) for key, one in state.items()}))
"""


class Program:
    """The program's files in a folder, as on the shared file system, and runs of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path, text in program_files().items():
            (folder / "program" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "program" / path).write_text(text)

    def run(
        self, name: str, ranks: int = 2, mode: str = "ddp", *, during: Callable[[Path], None] | None = None, nodes: int = 1
    ) -> list[dict[str, Any]]:
        """Train to the last step; return the events. `during`: called while it runs. Each of the nodes has a launcher of its own."""
        run = self.folder / name
        run.mkdir(exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        launcher = [f"--nnodes={nodes}", f"--nproc-per-node={ranks // nodes}", "--max-restarts=3", "--rdzv-backend=c10d"]
        launcher += [f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id={name}"]
        options = ["--run", str(run), "--mode", mode, f"--steps={STEPS}", f"--every={EVERY}", "--timeout=300"]
        command = [PYTHON, "-m", f"{PACKAGE}.launch", *launcher, "-m", f"{PACKAGE}.train", *options]
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "program"), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{name}.log").open("w") as log:
            launchers = [subprocess.Popen(command, env=environment, cwd=run, stdout=log, stderr=log) for _ in range(nodes)]
            if during:
                during(run)
            status = [child.wait() for child in launchers]
        assert not any(status), (self.folder / f"{name}.log").read_text()[-4000:]
        return events(run)

    def moments(self, name: str) -> dict[str, float]:
        """Return the norm of each first moment of AdamW in the last checkpoint: gradients that are N times too large show here."""
        checkpoint = self.folder / name / "checkpoints" / manifest.name_of(STEPS)
        done = subprocess.run([PYTHON, "-c", _MOMENTS, str(checkpoint)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found


def events(run: Path) -> list[dict[str, Any]]:
    """Return the events of rank 0."""
    file = run / "events-0.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def last(found: list[dict[str, Any]]) -> tuple[int, str]:
    """Return the number and the bits of the last step."""
    steps = [one for one in found if one["event"] == "step"]
    return steps[-1]["step"], steps[-1]["bits"]


def kill_rank_after(step: int) -> Callable[[Path], None]:
    """Return a function that kills rank 1 as soon as the step has been trained."""

    def kill(run: Path) -> None:
        while max([one.get("step", 0) for one in events(run)], default=0) < step:
            time.sleep(0.1)
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                inside = (folder / "environ").read_bytes().split(b"\0")
                if b"RANK=1" in inside and str(run).encode() in (folder / "cmdline").read_bytes():
                    os.kill(int(folder.name), signal.SIGKILL)

    return kill


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return the program."""
    return Program(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def undisturbed(program: Program) -> list[dict[str, Any]]:
    """Return the events of an undisturbed run on two ranks."""
    return program.run("undisturbed")


def test_run_writes_intact_checkpoints(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    root = program.folder / "undisturbed/checkpoints"
    assert [path.name for path in manifest.checkpoints(root)] == [manifest.name_of(step) for step in (24, 16, 8)]
    assert [manifest.find_damage(path) for path in manifest.checkpoints(root)] == [[], [], []]
    assert undisturbed[0]["parameters"] == 875_264 and undisturbed[-1]["event"] == "end"


def test_killed_rank_ends_in_identical_loss(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    found = program.run("killed", during=kill_rank_after(13))
    assert [one["step"] for one in found if one["event"] == "resume"] == [0, 8]
    assert last(found) == last(undisturbed)


def test_checkpoints_after_a_killed_rank_have_the_shards_of_all_nodes(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    """Only the launcher of the killed rank counts a restart, so that the ranks of two nodes know different numbers."""
    found = program.run("two-nodes", during=kill_rank_after(9), nodes=2)
    assert last(found) == last(undisturbed)
    for path in manifest.checkpoints(program.folder / "two-nodes/checkpoints"):
        assert {"__0_0.distcp", "__1_0.distcp"} <= set(manifest.read_manifest(path)["shards"]), path.name


def test_resume_on_more_ranks_continues(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    copy_without_last(program, "more")
    found = program.run("more", 4)
    assert [one["step"] for one in found if one["event"] == "resume"][-1] == 16
    expected = [one["loss"] for one in undisturbed if one["event"] == "step"][-1]
    assert [one["loss"] for one in found if one["event"] == "step"][-1] == pytest.approx(expected, rel=1e-4)


def test_damaged_checkpoint_is_passed_over(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    """PyTorch loads the shard without a word."""
    copy_without_last(program, "damaged")
    shard = program.folder / "damaged/checkpoints" / manifest.name_of(16) / "__1_0.distcp"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(content)
    found = program.run("damaged")
    resume = [one for one in found if one["event"] == "resume"][-1]
    assert (resume["step"], resume["damaged"]) == (8, [manifest.name_of(16)])
    assert last(found) == last(undisturbed)


def test_fsdp2_has_gradients_of_ddp(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    program.run("sharded", mode="fsdp2")
    replicated, sharded = program.moments("undisturbed"), program.moments("sharded")
    assert len(replicated) == len(sharded) > 40
    assert list(sharded.values()) == pytest.approx(list(replicated.values()), rel=1e-3)


_TUNED = """
import json, sys, torch
from rackwright.workloads.training import finetune, lora
from pathlib import Path
run, checkpoint = Path(sys.argv[1]), Path(sys.argv[2])
base, adapted = (finetune.load_base(checkpoint, torch.device("cpu")) for _ in range(2))
lora.load_adapter(run / "adapter", adapted)
tokens = torch.randint(0, 256, (2, 128), generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    expected, plain = adapted(tokens), base(tokens)
    lora.merge(adapted)
    merged = adapted(tokens)
print(json.dumps({"merged": float((merged - expected).abs().max()), "plain": float((plain - expected).abs().max()),
                  "keys": sorted(torch.load(run / "adapter/adapter_model.bin", weights_only=True))[:2]}))
"""


def test_adapters_change_model_and_merge_into_it(program: Program, undisturbed: list[dict[str, Any]]) -> None:
    run = program.folder / "tuned"
    run.mkdir()
    checkpoints = program.folder / "undisturbed/checkpoints"
    environment = {**os.environ, "PYTHONPATH": str(program.folder / "program"), "OMP_NUM_THREADS": "1"}
    command = [PYTHON, "-m", f"{PACKAGE}.finetune", "--run", str(run), "--checkpoints", str(checkpoints), "--steps=30"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = next(one for one in events(run) if one["event"] == "evaluation")
    assert found["new"]["after"] < found["new"]["before"] and found["merged_difference"] <= LIMIT
    assert [manifest.find_damage(run / name) for name in ("adapter", "merged")] == [[], []]
    check = [PYTHON, "-c", _TUNED, str(run), str(checkpoints / manifest.name_of(STEPS))]
    done = subprocess.run(check, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    scores = json.loads(done.stdout.splitlines()[-1])
    assert scores["plain"] > 0.01 > 100 * scores["merged"], "the adapters have an effect, and merging keeps it"
    assert scores["keys"][0] == "base_model.model.blocks.0.narrow.lora_A.weight", "PEFT's name"


def test_fine_tuning_refuses_damaged_checkpoints(program: Program) -> None:
    run = program.folder / "refused"
    (run / "checkpoints" / manifest.name_of(8)).mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(program.folder / "program")}
    command = [PYTHON, "-m", f"{PACKAGE}.finetune", "--run", str(run), "--checkpoints", str(run / "checkpoints")]
    assert subprocess.run(command, env=environment, check=False).returncode == 1
    assert [(one["event"], one["damaged"]) for one in events(run)] == [("refused", [manifest.name_of(8)])]


def copy_without_last(program: Program, name: str) -> None:
    """Copy the undisturbed run as it was before its last checkpoint."""
    shutil.copytree(program.folder / "undisturbed", program.folder / name)
    shutil.rmtree(program.folder / name / "checkpoints" / manifest.name_of(STEPS))
