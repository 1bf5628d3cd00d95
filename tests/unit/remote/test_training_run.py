"""The program on the submitting node, with stand-ins for Slurm's commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.remote.programs import training_run

FILES = {"job.sh": "#!/bin/bash\n", "program/rackwright/__init__.py": ""}


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with commands that record their arguments; `squeue` lists the lines of the file `jobs`."""
    for name, text in {"sbatch": "echo '41;cluster'", "squeue": f"cat {tmp_path}/jobs", "scontrol": "true", "scancel": "true"}.items():
        command(tmp_path, name, text)
    (tmp_path / "jobs").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


def command(folder: Path, name: str, text: str) -> None:
    """Write a stand-in for a command."""
    (folder / "bin").mkdir(exist_ok=True)
    file = folder / "bin" / name
    file.write_text(f'#!/bin/sh\necho "$*" >> {folder}/{name}\n{text}\n')
    file.chmod(0o755)


def ask(folder: Path, action: str, **more: Any) -> dict[str, Any]:
    """Return the answer to a request about the run in the folder `a/b/run`."""
    request = {"action": action, "folder": str(folder / "a/b/run"), "name": "rackwright-train-1", **more}
    return json.loads(json.dumps(training_run.main(request)))


def test_begin_writes_files_and_submits_first_attempt(slurm: Path) -> None:
    answer = ask(slurm, "begin", files=FILES, needed_mib=1)
    assert (answer["error"], answer["job"]) == ("", "41")
    assert (slurm / "a/b/run/program/rackwright/__init__.py").exists()
    assert (slurm / "sbatch").read_text().split() == ["--parsable", f"{slurm}/a/b/run/job.sh", "0"]


def test_begin_refuses_full_file_system(slurm: Path) -> None:
    answer = ask(slurm, "begin", files=FILES, needed_mib=10**12)
    assert answer["job"] is None and answer["free_mib"] < 10**12 and not (slurm / "a/b/run").exists()


def test_begin_reports_refused_submission(slurm: Path) -> None:
    command(slurm, "sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1")
    assert ask(slurm, "begin", files=FILES, needed_mib=1)["error"] == "sbatch: error: Invalid account"


def test_follow_returns_complete_new_lines_once(slurm: Path) -> None:
    ask(slurm, "begin", files=FILES, needed_mib=1)
    file = slurm / "a/b/run/events-0.jsonl"
    file.write_text('{"event": "start"}\n{"event": "st')
    first = ask(slurm, "follow", offsets={})
    assert [line["event"] for line in first["lines"]] == ["start"]
    file.write_text(file.read_text() + 'ep"}\n')
    second = ask(slurm, "follow", offsets=first["offsets"])
    assert [line["event"] for line in second["lines"]] == ["step"]
    assert ask(slurm, "follow", offsets=second["offsets"])["lines"] == []


def test_follow_starts_requeued_job_that_waits_for_credential(slurm: Path) -> None:
    ask(slurm, "begin", files=FILES, needed_mib=1)
    (slurm / "jobs").write_text("41|PENDING|BeginTime|\n42|PENDING|Resources|\n43|RUNNING|None|worker[0-1]\n")
    answer = ask(slurm, "follow", offsets={})
    assert answer["released"] == ["41"] and [job["id"] for job in answer["jobs"]] == ["41", "42", "43"]
    assert (slurm / "scontrol").read_text().split() == ["update", "JobId=41", "StartTime=now"]


def test_follow_reports_silent_controller(slurm: Path) -> None:
    command(slurm, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    assert "Unable to contact" in ask(slurm, "follow", offsets={})["error"]


def test_cancel_names_jobs_of_run_only(slurm: Path) -> None:
    assert ask(slurm, "cancel")["error"] == ""
    assert (slurm / "scancel").read_text().split() == ["--quiet", "--me", "--name", "rackwright-train-1"]


def test_output_is_tail_of_job(slurm: Path) -> None:
    ask(slurm, "begin", files=FILES, needed_mib=1)
    assert ask(slurm, "output")["text"] == ""
    (slurm / "a/b/run/output.txt").write_text("x" * 5000 + "\nRuntimeError: end")
    assert ask(slurm, "output")["text"].endswith("RuntimeError: end") and len(ask(slurm, "output")["text"]) == 4000


def test_newest_is_first_folder_with_checkpoint(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("none", "unfinished", "older", "oldest")]
    for folder, name in zip(folders, ("x", ".tmp-00000040", "step-00000040", "step-00000040"), strict=True):
        (folder / name).mkdir(parents=True)
        (folder / name / "manifest.json").write_text("{}")
    request = {"action": "newest", "folders": [*map(str, folders), str(tmp_path / "absent")]}
    assert training_run.main(request) == {"error": "", "found": str(tmp_path / "older")}
    assert training_run.main({**request, "folders": [str(tmp_path / "none")]})["found"] == ""
