"""Confinement of jobs by the kernel: errors of open(2) for devices, and the end of a job that exceeds its memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_jobs
from rackwright.checks.cluster.probes.smoke import parse_smoke
from rackwright.remote.programs import smoke_jobs
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
GOOD = json.loads((Path(__file__).parents[1] / "captured" / "smoke" / "good.txt").read_text(encoding="utf-8"))
REFUSED = {f"/dev/nvidia{index}": "EPERM" for index in range(8)}


def node(simulated):
    return SimpleNamespace(name="worker0", gpus=SimpleNamespace(simulated=simulated))


def verdict(check, results, simulated=True):
    return verdict_of(check, {}, node=node(simulated), smoke=parse_smoke(json.dumps(results)))


class TestDevices:
    def run(self, plain, first, simulated=True):
        """Return the verdict where the jobs without and with GPUs (3, 4, 5 on worker0) reported these devices."""
        reported = {"plain": plain, "first": first}
        jobs = [
            {**job, "tasks": [{**task, "devices": reported[job["name"]]} for task in job["tasks"]]} if job["name"] in reported else job
            for job in GOOD["jobs"]
        ]
        return verdict(test_jobs.test_gpus_are_confined, {**GOOD, "jobs": jobs}, simulated)

    def own(self, error):
        return {**REFUSED, "/dev/nvidia3": error, "/dev/nvidia4": error, "/dev/nvidia5": error}

    @pytest.mark.parametrize(
        ("error", "simulated", "expected"),
        [
            ("ENXIO", True, PASSED),
            ("opens", True, PASSED),
            ("opens", False, PASSED),
            ("ENXIO", False, FAILED),
            ("EIO", True, FAILED),
            ("EACCES", True, FAILED),
            ("EPERM", True, FAILED),
        ],
    )
    def test_own_devices_open_or_have_no_driver(self, error, simulated, expected):
        assert self.run(REFUSED, self.own(error), simulated)[0] is expected

    def test_right_number_of_wrong_devices_fails(self):
        others = {**REFUSED, "/dev/nvidia0": "ENXIO", "/dev/nvidia1": "ENXIO", "/dev/nvidia2": "ENXIO"}
        found, why = self.run(REFUSED, others)
        assert found is FAILED and "/dev/nvidia0" in why

    @pytest.mark.parametrize("error", ["ENXIO", "opens", "EACCES", "ENOENT"])
    def test_only_eperm_is_a_refusal_by_the_kernel(self, error):
        assert self.run({**REFUSED, "/dev/nvidia7": error}, self.own("ENXIO"))[0] is FAILED
        assert self.run(REFUSED, {**self.own("ENXIO"), "/dev/nvidia7": error})[0] is FAILED

    def test_missing_device_file_fails(self):
        first = self.own("ENXIO")
        del first["/dev/nvidia4"]
        assert self.run(REFUSED, first)[0] is FAILED

    def test_node_without_device_files_is_unknown(self):
        assert self.run({}, {})[0] is UNKNOWN


OOM_24 = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
    "srun: error: worker0: task 0: Out Of Memory"
)
OOM_19 = (
    "slurmstepd: error: Detected 1 oom-kill event(s) in step 7.0 cgroup. "
    "Some of your processes may have been killed by the cgroup out-of-memory handler."
)
OOM_17 = "slurmstepd: error: Exceeded job memory limit"


class TestMemory:
    def run(self, task=None, said="", states=(), **changes):
        ended = {"node": "worker0", "job": "7", "signal": 9, "status": 0, "kills": 1}
        tasks = [] if task is None else [{**ended, **task}]
        job = {"nodes": ["worker0"], "rc": 1, "tasks": tasks, "said": said, "job": "7", "states": list(states)}
        return verdict(test_jobs.test_memory_overuse_is_killed, {**GOOD, "exceeding": [job], **changes})

    @pytest.mark.parametrize(
        ("said", "states"),
        [
            ("", ["OUT_OF_MEMORY"]),
            ("", ["FAILED", "OUT_OF_MEMORY"]),
            (OOM_24, []),
            (OOM_24, ["FAILED"]),
            (OOM_19, []),
            (OOM_17, []),
            ("srun: error: worker[0-1]: tasks 0-1: Out Of Memory", []),
        ],
    )
    def test_kill_that_slurm_reports_passes(self, said, states):
        assert self.run({}, said, states)[0] is PASSED

    def test_kill_without_counter_of_cgroup_v1_passes(self):
        assert self.run({"kills": None}, OOM_19)[0] is PASSED

    @pytest.mark.parametrize(
        ("task", "words"),
        [
            ({"signal": 0}, "used twice the memory"),
            ({"signal": 0, "status": 3}, "refused the memory"),
            ({"signal": 15}, "ended by signal 15"),
            ({"kills": 0}, "ended by signal 9"),
        ],
    )
    def test_job_that_the_kernel_did_not_kill_fails(self, task, words):
        found, why = self.run(task, "", ["OUT_OF_MEMORY"])
        assert found is FAILED and words in why

    @pytest.mark.parametrize("state", ["FAILED", "COMPLETED", "CANCELLED"])
    def test_kill_that_slurm_reports_otherwise_fails(self, state):
        found, why = self.run({}, "srun: error: worker0: task 0: Killed", [state])
        assert found is FAILED and state in why

    def test_kill_without_report_of_slurm_is_unknown(self):
        assert self.run({}, "srun: error: worker0: task 0: Exited with exit code 1")[0] is UNKNOWN

    def test_job_without_report_is_unknown(self):
        assert self.run(None, OOM_24, ["OUT_OF_MEMORY"])[0] is UNKNOWN

    def test_job_that_was_not_submitted_is_unknown(self):
        assert self.run(exceeding=[])[0] is UNKNOWN


class TestProgram:
    def test_child_reports_its_end(self):
        """The task survives its child, which fills one MiB here; no limit is set, so nothing is killed."""
        ended = subprocess.run([sys.executable, "-I", "-S", "-c", smoke_jobs.EXCEED, "1"], capture_output=True, text=True, check=True)
        report = json.loads(ended.stdout.removeprefix("TASK "))
        assert (report["signal"], report["status"]) == (0, 0)

    def test_refused_address_space_is_reported(self):
        program = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**27, 2**27))\n" + smoke_jobs.EXCEED
        ended = subprocess.run([sys.executable, "-I", "-S", "-c", program, "500"], capture_output=True, text=True, check=True)
        assert json.loads(ended.stdout.removeprefix("TASK "))["status"] == 3

    @pytest.fixture
    def states(self, monkeypatch):
        """Return the states for given outputs of scontrol and sacct; None for a command that fails."""

        def found(scontrol, sacct, accounting=True):
            outputs = {"scontrol": iter(scontrol), "sacct": iter([sacct])}

            def run(argv, _limit, _stdin=None):
                out = next(outputs[argv[0]])
                return (1, "", "error") if out is None else (0, out, "")

            monkeypatch.setattr(smoke_jobs, "run", run)
            monkeypatch.setattr(smoke_jobs.time, "sleep", lambda _: None)
            return smoke_jobs.ended_states("7", {"accounting": accounting})

        return found

    def test_state_is_read_after_job_completes(self, states):
        ending, ended = ("JobId=7 JobName=x JobState=COMPLETING Reason=None", "JobId=7 JobName=x JobState=OUT_OF_MEMORY Reason=OutOfMemory")
        assert states([ending, ended], None) == ["OUT_OF_MEMORY"]

    def test_state_is_read_from_accounting_where_slurmctld_forgot_the_job(self, states):
        assert states([None], "sacct: warning: slow\nFAILED\nOUT_OF_MEMORY\n") == ["FAILED", "OUT_OF_MEMORY"]
        assert states([None], "OUT_OF_MEMORY\n", accounting=False) == []

    def test_running_record_is_no_end(self, states):
        assert states([None], "RUNNING\n") == []
