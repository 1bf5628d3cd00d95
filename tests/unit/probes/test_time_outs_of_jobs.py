"""A time-out of Slurm, of a job or of accounting is unknown; a refusal, an error and a wrong answer fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_jobs, test_slurm
from rackwright.checks.cluster.probes.slurm import PING
from rackwright.checks.cluster.probes.slurm_ports import CONTROLLER_PORTS
from rackwright.checks.cluster.probes.smoke import parse_smoke
from rackwright.remote.programs import smoke_jobs
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
LATE = "no answer within 6 s"
CAPTURED = Path(__file__).parents[1] / "captured"
CLUSTER = SimpleNamespace(scheduler=SimpleNamespace(controllers=["login0"]))
NODE = SimpleNamespace(name="w0")


class TestSlurm:
    DOWN = "Slurmctld(primary) at login0 is DOWN\n"

    def verdict(self, ping, port, seconds=0.1):
        raw = lambda _: SimpleNamespace(seconds=seconds)  # noqa: E731
        answers = answers_of({PING: ping, CONTROLLER_PORTS: f"login0|{port}\n"})
        return verdict_of(test_slurm.test_controller_answers_here, answers, cluster=CLUSTER, command_output=raw)[0]

    def test_controller_reported_up_passes(self):
        assert self.verdict(self.DOWN.replace("DOWN", "UP"), LATE) is PASSED

    @pytest.mark.parametrize(("port", "verdict"), [("refused", FAILED), ("accepts", FAILED), (LATE, UNKNOWN), ("No route to host", FAILED)])
    def test_controller_down_fails(self, port, verdict):
        assert self.verdict(self.DOWN, port) is verdict

    def test_accepting_but_unresponsive_controller_is_unknown(self):
        assert self.verdict(self.DOWN, "accepts", seconds=10.2) is UNKNOWN


def test_task_bound_to_core_is_not_confined():
    """Binding does not confine: a job may widen its own mask (sched_setaffinity(2)), and only a cpuset limits that."""
    limits = smoke_jobs.TASK.partition("mine = ")[0]
    program = (
        f"{limits}\nall_ = limits()['cores']\nbound = {{min(os.sched_getaffinity(0))}}\nos.sched_setaffinity(0, bound)\n"
        "print(limits()['cores'] == all_, os.sched_getaffinity(0) == bound)"
    )
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)
    assert ended.stdout == "True True\n", ended.stderr


class TestJobs:
    def run(self, **changes):
        return parse_smoke(json.dumps({**json.loads((CAPTURED / "smoke" / "good.txt").read_text(encoding="utf-8")), **changes}))

    def jobs(self, words, rc=124):
        jobs = json.loads((CAPTURED / "smoke" / "good.txt").read_text(encoding="utf-8"))["jobs"]
        return [{**job, "tasks": [], "rc": rc, "said": words} if job["name"] == "plain" else job for job in jobs]

    @pytest.mark.parametrize(
        ("words", "rc", "verdict"),
        [
            ("srun: job 7 queued and waiting for resources\nno answer within 20 s", 124, UNKNOWN),
            (
                "srun: error: Task launch for StepId=7.0 failed on node worker0: Communication connection failure\nno answer within 20 s",
                124,
                FAILED,
            ),
            ("srun: error: Task launch for StepId=7.0 failed on node worker0: Socket timed out on send/recv operation", 1, UNKNOWN),
            ("srun: error: Unable to allocate resources: Invalid account", 1, FAILED),
        ],
    )
    def test_job_without_end_is_unknown(self, words, rc, verdict):
        found = self.run(jobs=self.jobs(words, rc))
        assert verdict_of(test_jobs.test_run_on_every_node, {}, node=SimpleNamespace(name="worker0"), smoke=found)[0] is verdict

    def recorded(self, change, exclusive=False, gpus=8):
        accounts = json.loads((CAPTURED / "smoke" / "good.txt").read_text(encoding="utf-8"))["accounts"]
        partition = SimpleNamespace(default=True, exclusive=exclusive)
        nodes = [SimpleNamespace(name=f"worker{number}", gpus=gpus) for number in range(2)]
        cluster = SimpleNamespace(scheduler=SimpleNamespace(partitions=[partition], nodes=nodes))
        return verdict_of(test_jobs.test_are_recorded_in_accounting, {}, cluster=cluster, smoke=self.run(accounts=change(accounts)))[0]

    def test_job_in_exclusive_partition_is_recorded_with_all_gpus_of_its_nodes(self):
        whole = lambda jobs: [{**job, "AllocTRES": "cpu=16,gres/gpu=16,node=2"} for job in jobs]  # noqa: E731
        both = lambda accounts: {**accounts, "jobs": whole(accounts["jobs"])}  # noqa: E731
        assert (self.recorded(both, exclusive=True), self.recorded(both)) == (PASSED, FAILED)
        assert self.recorded(lambda accounts: accounts, exclusive=True) is FAILED

    def test_late_records_are_unknown_and_missing_records_fail(self):
        late = {"said": f"{smoke_jobs.RAN_OUT} 10 s"}
        running = lambda jobs: [{**job, "State": "RUNNING"} for job in jobs]  # noqa: E731
        assert self.recorded(lambda accounts: accounts) is PASSED
        assert self.recorded(lambda accounts: {**accounts, **late, "jobs": running(accounts["jobs"])}) is UNKNOWN
        assert self.recorded(lambda accounts: {**accounts, **late, "jobs": []}) is UNKNOWN
        assert self.recorded(lambda accounts: {**accounts, **late, "jobs": accounts["jobs"][:1]}) is FAILED
        assert self.recorded(lambda accounts: {**accounts, "jobs": running(accounts["jobs"])}) is FAILED

    @pytest.mark.parametrize(
        ("state", "verdict"),
        [("PENDING", UNKNOWN), ("RUNNING", UNKNOWN), ("SIGNALING", UNKNOWN), ("unknown: squeue: x", UNKNOWN), ("COMPLETED", FAILED)],
    )
    def test_batch_job_without_output_fails_only_after_end(self, state, verdict):
        batch = {"rc": 0, "job": "7", "output": "", "said": "", "state": state, "seconds": 20}
        check_plugin = SimpleNamespace(context=lambda _: SimpleNamespace(declared=SimpleNamespace(cluster={"users": [{"name": "alice"}]})))
        found = verdict_of(test_jobs.test_batch_output_is_shared, {}, node=NODE, check_plugin=check_plugin, smoke=self.run(batch=batch))
        assert found[0] is verdict

    def test_timed_out_command_keeps_its_output(self, monkeypatch):
        monkeypatch.setattr(smoke_jobs.time, "sleep", lambda _: None)
        program = "trap 'echo stopped >&2; exit 1' INT TERM; echo waiting >&2; while :; do sleep 0.05; done"
        rc, _, err = smoke_jobs.run(["sh", "-c", program], 0.5)
        assert rc == 124 and err.endswith("no answer within 0.5 s") and "stopped" not in err
