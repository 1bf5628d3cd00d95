"""The batch script of a fine-tuning run, run by a real bash with a stand-in for srun."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from rackwright.workloads.finetune_job import FinetuneJob, finetune_files, finetune_pod_files
from rackwright.workloads.training import corpus


def run_script(folder: Path, status: int, gpus: int = 0) -> tuple[int, list[str], str, str]:
    """Run the script with a program that ends with a status; return the script's status, its events, srun's arguments and the script."""
    job = FinetuneJob(
        "rackwright-finetune-1",
        str(folder / "run"),
        "/mnt/x/train-1/checkpoints",
        "/usr/bin/python3",
        "main",
        gpus,
        steps=20,
        seed=3,
        minutes=60,
    )
    texts = finetune_files(job)
    (folder / "run").mkdir()
    (folder / "run/job.sh").write_text(texts["job.sh"])
    (folder / "srun").write_text(f'#!/bin/sh\necho "$* PYTHONPATH=$PYTHONPATH" > {folder}/arguments\nexit {status}\n')
    (folder / "srun").chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "worker0", "SLURM_CPUS_ON_NODE": "2"}
    ended = subprocess.run(["bash", str(folder / "run/job.sh"), "0"], env=environment, check=False, timeout=60).returncode
    events = [json.loads(line)["event"] for line in (folder / "run/jobs.jsonl").read_text().splitlines()]
    return ended, events, (folder / "arguments").read_text(), texts["job.sh"]


def test_script_runs_program_on_checkpoints(tmp_path: Path) -> None:
    status, events, arguments, script = run_script(tmp_path, 0)
    assert (status, events) == (0, ["begin", "end"])
    assert f"-m rackwright.workloads.training.finetune --run {tmp_path}/run --checkpoints /mnt/x/train-1/checkpoints" in arguments
    assert "--steps=20 --seed=3" in arguments and f"PYTHONPATH={tmp_path}/run/program" in arguments
    assert "#SBATCH --nodes=1" in script and "#SBATCH --no-requeue" in script and "gpus-per-node" not in script
    assert "OMP_NUM_THREADS=1" in script


@pytest.mark.parametrize("failed", [1, 9])
def test_failed_program_gives_up(tmp_path: Path, failed: int) -> None:
    """The command ends when it reads `gave-up`."""
    assert run_script(tmp_path, failed)[:2] == (1, ["begin", "failed", "gave-up"])


def test_gpu_is_requested(tmp_path: Path) -> None:
    script = run_script(tmp_path, 0, gpus=1)[3]
    assert "#SBATCH --gpus-per-node=1" in script and "OMP_NUM_THREADS" not in script


def test_program_is_complete() -> None:
    names = {
        Path(name).name
        for name in finetune_files(FinetuneJob("n", "/r", "/c", "python3", "main", 0, 1, 1, 1))
        if "workloads/training/" in name
    }
    assert names >= {"finetune.py", "lora.py", "events.py", "model.py", "manifest.py", "corpus.py", "batches.py", "compat.py"}


def test_new_text_differs_in_one_word_only() -> None:
    old = corpus.make_text(1, 20_000)
    new = corpus.respell(old)
    assert len(new) == len(old) and new != old and b"the " not in new and b"The " not in new
    assert new.replace(b"teh ", b"the ").replace(b"Teh ", b"The ") == old


@pytest.mark.parametrize(("status", "events"), [(0, ["begin", "end"]), (1, ["begin", "failed"])])
def test_script_of_pod_runs_program_on_checkpoints(tmp_path: Path, status: int, events: list[str]) -> None:
    """A stand-in for Python writes what it got; JobSet and Trainer end a run whose pod fails."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\necho "$* PYTHONPATH=$PYTHONPATH" > {tmp_path}/arguments\necho said\nexit {status}\n')
    (tmp_path / "python3").chmod(0o755)
    job = FinetuneJob("rackwright-finetune-1", str(tmp_path), "/mnt/x/train-1/checkpoints", "python3", "", 0, steps=20, seed=3, minutes=60)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "JOB_COMPLETION_INDEX": "0", "ATTEMPT": "0"}
    ended = subprocess.run(["sh", "-c", finetune_pod_files(job)["pod.sh"]], env=variables, check=False, timeout=60)
    assert ended.returncode == status
    assert [json.loads(line)["event"] for line in (tmp_path / "jobs.jsonl").read_text().splitlines()] == events
    program = f"-m rackwright.workloads.training.finetune --run {tmp_path} --checkpoints /mnt/x/train-1/checkpoints"
    assert (tmp_path / "arguments").read_text() == f"{program} --steps=20 --seed=3 --attempt 0 PYTHONPATH={tmp_path}/program\n"
    assert (tmp_path / "output.txt").read_text() == "said\n"
