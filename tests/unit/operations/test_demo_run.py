"""A training run followed to its end: the submitting node is replaced by answers in order, and nodes by a record of kills and starts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.demo_cluster import Cluster, answer, job, run, slurm_cluster, steps, tune, undisturbed

from rackwright.cli.render.demo import text
from rackwright.drivers import node_kill
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations.demo import following, training
from rackwright.operations.demo.finetuning import FinetuneOptions
from rackwright.operations.demo.training import TrainingOptions


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack like lab-train that is up."""
    return slurm_cluster(tmp_path, monkeypatch)


def test_newest_checkpoint_is_fine_tuned_as_one_job(cluster: Cluster) -> None:
    run(cluster, undisturbed(), seed=5)
    newest = run(cluster, undisturbed(), seed=6)
    document = tune(cluster, [answer(job("begin", 0, 1)), answer(job("failed", 0, 9), job("gave-up", 0, 9), jobs=0)])
    begin = next(one for one in reversed(cluster.asked) if one["action"] == "begin")
    script = begin["files"]["job.sh"]
    assert f"--checkpoints {newest['folder']}/checkpoints" in script and "--seed=6" in script and "#SBATCH --nodes=1" in script
    assert begin["needed_mib"] == 64 * (5 + len([text for text in begin["files"].values() if text])) and begin["folder"].startswith(
        "/mnt/sharedfs/validation/results/finetune-"
    )
    assert document["verdict"]["result"] == "failed" and document["error"] == "srun: error: worker1: task 1: Exited"
    recorded = json.loads((paths.demos("lab-train") / f"{document['run']}.json").read_text())
    assert recorded == document, "a failed run is recorded, too"


def test_fine_tuning_needs_recorded_run(cluster: Cluster) -> None:
    with pytest.raises(InputError, match=r"no training run is on record.*\n.*run train first: `rackwright demo lab-train train`"):
        tune(cluster, [])


def test_fine_tuning_needs_checkpoint_on_cluster(cluster: Cluster) -> None:
    """The stack may have been created again since, without its files."""
    run(cluster, undisturbed())
    cluster.checkpoints = False
    with pytest.raises(InputError, match=r"none of 1 recorded training runs has a checkpoint on /mnt/sharedfs\n.*run train first"):
        tune(cluster, [])
    assert cluster.asked[-1]["action"] == "newest", "no job is submitted"


def test_interrupted_fine_tuning_cancels_its_job(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    with pytest.raises(UndeterminedError, match="interrupted after step 0 of 10; its jobs are cancelled"):
        tune(cluster, [answer(job("begin", 0, 1)), {"interrupt": True}, answer(jobs=0)])
    assert [one["action"] for one in cluster.asked[-2:]] == ["cancel", "follow"]


def test_options_of_training_are_refused_for_fine_tuning() -> None:
    given: dict[str, Any] = {"mode": None, "nodes": None, "seed": None, "kill_worker": None}
    assert (FinetuneOptions.of(steps=None, **given).steps, FinetuneOptions.of(steps=20, **given).steps) == (150, 20)
    with pytest.raises(InputError, match="--kill-worker: is an option of train"):
        FinetuneOptions.of(steps=None, **{**given, "kill_worker": True})
    assert TrainingOptions.of(steps=None, **given) == TrainingOptions()


def test_undisturbed_run_is_recorded_and_compared_with_next(cluster: Cluster) -> None:
    first = run(cluster, undisturbed())
    recorded = json.loads((paths.demos("lab-train") / f"{first['run']}.json").read_text())
    assert recorded == first and first["verdict"]["rule"] == "baseline"
    second = run(cluster, undisturbed())
    assert (second["verdict"]["result"], second["verdict"]["reference"]) == ("passed", first["run"])
    assert set(second["evidence"]) >= {"CPU, gloo, PyTorch 2.6.0", "simulated: gpu", "figures do not apply to GPUs"}


def test_job_has_values_of_plan(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    begin = cluster.asked[0]
    script = begin["files"]["job.sh"]
    assert begin["needed_mib"] == 1024 and begin["folder"].startswith("/mnt/sharedfs/validation/results/train-")
    assert "#SBATCH --nodes=2" in script and "10.87.0.0/24" in script and "/usr/bin/python3 -m" in script


def test_killed_worker_is_started_again(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    answers = [answer(job("begin", 0, 1)), answer(*steps(0, 1, 7)), *[answer() for _ in range(40)], answer(job("failed", 0, 20), jobs=2)]
    answers += [answer(job("begin", 1, 22), *steps(1, 7, 10)), answer(job("end", 1, 130), now=130)]
    document = run(cluster, answers, kill_worker=True)
    assert cluster.done == [("kill", "worker1"), ("start", "worker1")]
    assert document["injected"][0]["node"] == "worker1" and document["injected"][0]["undone"] is not None
    assert document["verdict"]["result"] == "passed" and [one["resumed_from"] for one in document["failures"]] == [6]
    shown = text(document)
    assert "passed: the last loss is bit-identical" in shown and "failure after step 7" in shown and "simulated: gpu" in shown


def rank_killed_run() -> list[dict[str, Any]]:
    """Return the answers of a run in which torchrun starts the ranks again."""
    sessions = [answer(*steps(0, 1, 7)), *[answer() for _ in range(40)], answer(*steps(0, 7, 10))]
    return [answer(job("begin", 0, 1)), *sessions, answer(job("end", 0, 30), now=30)]


def test_rank_is_killed_on_last_worker(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    document = run(cluster, rank_killed_run(), kill_rank=True)
    assert cluster.done == [("kill-rank", "worker1")], "no node is killed, and none started"
    assert [(one["kind"], one["node"]) for one in document["injected"]] == [("kill-rank", "worker1")]
    assert (document["verdict"]["rule"], document["failures"][0]["restarted_by"]) == ("identical", "torchrun")


@pytest.mark.parametrize(("rank", "cause"), [(None, "no rank of the run is there"), (False, "no answer")])
def test_rank_that_is_not_killed_is_no_fault(cluster: Cluster, rank: int | bool | None, cause: str) -> None:
    cluster.rank = rank
    document = run(cluster, rank_killed_run(), kill_rank=True)
    assert document["injected"] == [] and f"worker1: no rank was killed: {cause}" in cluster.said


def interrupted_run() -> list[dict[str, Any]]:
    """Return the answers of a run that is interrupted at step 9; its job needs two queries to end."""
    return [
        answer(job("begin", 0, 1)),
        answer(*steps(0, 1, 9)),
        *[answer() for _ in range(40)],
        {"interrupt": True},
        answer(),
        answer(jobs=0),
    ]


def test_worker_is_started_after_interrupt(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_DARK", 60.0)
    with pytest.raises(
        UndeterminedError, match="interrupted after step 9 of 10; its jobs are cancelled; worker1, which was killed,"
    ) as found:
        run(cluster, interrupted_run(), kill_worker=True)
    assert found.value.exit_code == 3 and "files stay in /mnt/sharedfs/validation/results/train-" in str(found.value)
    assert [one["action"] for one in cluster.asked[-4:]] == ["cancel", "follow", "cancel", "follow"], "until no job is left"
    assert cluster.done == [("kill", "worker1"), ("start", "worker1")], "no node stays off"
    assert not paths.demos("lab-train").exists(), "an interrupted run is no result"


def test_interrupt_names_worker_that_stays_off(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_stack: str, _target: str, _node: str) -> None:
        raise RackwrightError("podman start: no such container")

    monkeypatch.setattr(training, "_DARK", 60.0)
    monkeypatch.setattr(node_kill, "start", fail)
    with pytest.raises(
        UndeterminedError, match="its jobs are cancelled; worker1 was killed and not started again: run `rackwright up lab-train`"
    ):
        run(cluster, interrupted_run(), kill_worker=True)
    assert "podman start: no such container" in cluster.said


def test_interrupt_names_jobs_that_may_still_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_CANCELLED", 0.0)
    answers = [answer(job("begin", 0, 1)), {"interrupt": True}, answer()]
    with pytest.raises(UndeterminedError, match=r"its jobs may still run \(job 41 is RUNNING\)") as found:
        run(cluster, answers)
    assert "run `scancel --name rackwright-train-" in str(found.value) and "as alice on login0" in str(found.value)


def test_run_without_end_has_reason(cluster: Cluster) -> None:
    answers = [answer(job("begin", 0, 1)), answer(job("failed", 0, 9), job("gave-up", 0, 9), jobs=0)]
    document = run(cluster, answers)
    assert (document["verdict"]["result"], document["error"]) == ("failed", "srun: error: worker1: task 1: Exited")


def test_vanished_jobs_end_run(cluster: Cluster) -> None:
    """A user cancelled them."""
    document = run(cluster, [answer(job("begin", 0, 1)), *[answer(jobs=0) for _ in range(5)]])
    assert document["verdict"]["result"] == "failed" and document["error"]


class TestTimeLimit:
    """Each request takes 40 of 100 s by the clock of the module."""

    @pytest.fixture(autouse=True)
    def clock(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(following, "_LONGEST", 100.0)
        passed = SimpleNamespace(monotonic=lambda: 40.0 * len(cluster.asked))
        monkeypatch.setattr(following, "time", passed)

    def test_run_that_writes_events_has_no_time_limit(self, cluster: Cluster) -> None:
        answers = [answer(job("begin", 0, 1)), *[answer(*steps(0, step, step)) for step in range(1, 11)], answer(job("end", 0, 30), now=30)]
        assert run(cluster, answers)["completed"]

    def test_run_without_events_is_cancelled(self, cluster: Cluster) -> None:
        document = run(cluster, [answer(job("begin", 0, 1)), *[answer() for _ in range(9)]])
        assert document["error"] == "no event for 100 s; the jobs are cancelled"
        assert cluster.asked[-1]["action"] == "cancel"


def test_job_continues_after_its_time_limit(cluster: Cluster) -> None:
    answers = [
        answer(job("begin", 0, 1), *steps(0, 1, 5)),
        answer(job("time-limit", 0, 60)),
        answer(job("begin", 1, 70), *steps(1, 6, 10)),
        answer(job("end", 1, 130), now=130),
    ]
    assert [one["outcome"] for one in run(cluster, answers)["attempts"]] == ["time limit", "completed"]
    assert "attempt 0 (job 41): time-limit" in cluster.said


def test_events_after_end_are_read(cluster: Cluster) -> None:
    """The files of ranks and of the batch script are read one after the other."""
    document = run(cluster, [answer(job("begin", 0, 1)), answer(job("end", 0, 30), now=30), answer(*steps(0, 1, 10))])
    assert document["final_bits"] == "0000000a"


def test_restarted_controller_does_not_end_run(cluster: Cluster) -> None:
    first, *rest = undisturbed()
    assert run(cluster, [first, {"error": "Unable to contact slurm controller"}, *rest])["completed"]


def test_released_job_is_reported(cluster: Cluster) -> None:
    first, *rest = undisturbed()
    run(cluster, [first, answer(released=("41",)), *rest])
    assert any("job 41: was to wait for the lifetime of a credential" in line for line in cluster.said)


def test_full_file_system_is_refused(cluster: Cluster) -> None:
    cluster.begin = {"error": "", "job": None, "free_mib": 12}
    with pytest.raises(
        InputError, match=r"12 MiB are free on /mnt/sharedfs \(expected 1024 MiB.*\n.*earlier runs in /mnt/sharedfs/validation/results"
    ):
        run(cluster, [])


def test_refused_submission_is_undetermined(cluster: Cluster) -> None:
    cluster.begin = {"error": "sbatch: error: Invalid account", "job": None, "free_mib": 9000}
    with pytest.raises(UndeterminedError, match="Invalid account"):
        run(cluster, [])


def test_jobs_of_slurm_need_no_image(cluster: Cluster) -> None:
    run(cluster, undisturbed())
    assert cluster.images == []
