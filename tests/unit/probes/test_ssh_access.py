"""SSH by job: the verdicts on PAM's answers. The messages are those of Slurm's source; no machine has printed them here yet."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_jobs
from rackwright.checks.cluster.harness.probe import NodeBusyError
from rackwright.checks.cluster.probes.ssh_access import SSH_ACCESS, parse_ssh_access
from rackwright.remote.programs import ssh_access
from rackwright.report.verdict import Verdict

GOOD = json.loads((Path(__file__).parents[1] / "captured" / "ssh-access" / "good.txt").read_text(encoding="utf-8"))
SMOKE = SimpleNamespace(job=lambda name, node: None)


def verdict(**changes):
    answers = answers_of({SSH_ACCESS: json.dumps({**GOOD, **changes})})
    return verdict_of(test_jobs.test_ssh_requires_job, answers, node=SimpleNamespace(name="worker0"), smoke=SMOKE)


BY_SLUID = "0::/system.slice/slurmstepd.scope/sKF09RXQ40WV0G/step_extern/user/task_special"
"""Slurm 26.05 names the groups of a job by its SLUID (cgroup.conf(5), CgroupJobIdPaths)."""


def answer(part, **changes):
    return {part: {**GOOD[part], **changes}}


def test_refused_without_and_adopted_with_job_passes():
    assert verdict()[0] is Verdict.PASSED
    assert verdict(**answer("with", cgroup=BY_SLUID), sluid="sKF09RXQ40WV0G")[0] is Verdict.PASSED


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (answer("without", status=0, said=[]), "admitted"),
        (answer("without", said=[], reason="Authentication failure"), "Authentication failure"),
        (answer("with", cgroup="0::/user.slice/user-2001.slice/session-4.scope"), "session-4.scope"),
        (answer("with", cgroup="0::/system.slice/slurmstepd.scope/job_77/step_extern"), "job_77"),
        (answer("with", cgroup=""), "no control group"),
        ({**answer("with", cgroup=BY_SLUID), "sluid": "sKF09RXQ40WV0H"}, "sKF09RXQ40WV0G"),
        (answer("with", status=6, said=["Access denied by pam_slurm_adopt: adoption failure"]), "adoption failure"),
    ],
)
def test_other_answers_fail(changes, words):
    found, why = verdict(**changes)
    assert found is Verdict.FAILED and words in why


@pytest.mark.parametrize(
    "changes",
    [
        {"error": "sbatch: Invalid account"},
        {"with": None, "state": "PENDING"},
        answer("without", error="the process was killed"),
        {"with": {"error": "x"}},
        answer("with", cgroup=BY_SLUID),
    ],
)
def test_question_that_was_not_asked_is_unknown(changes):
    assert verdict(**changes)[0] is Verdict.UNKNOWN


def test_user_with_jobs_of_their_own_leaves_the_node_busy():
    with pytest.raises(NodeBusyError):
        parse_ssh_access(json.dumps({**GOOD, "jobs": ["5"]}))


class TestProgram:
    REQUEST = {"user": "alice", "node": "w0", "partition": "gpu", "seconds": 0}

    @pytest.fixture
    def ask(self, monkeypatch):
        """Return the program's answer for given outputs of Slurm's commands, and the commands that ran."""

        def asked(squeue, sbatch="7;lab\n"):
            outputs, calls = {"squeue": iter(squeue), "runuser": iter([sbatch]), "scancel": iter([""])}, []

            def run(argv):
                calls.append(argv)
                return next(outputs[argv[0]])

            monkeypatch.setattr(ssh_access, "run", run)
            monkeypatch.setattr(ssh_access, "ask_in_child", lambda user: {"user": user, "status": 0, "error": ""})
            return ssh_access.main(self.REQUEST), calls

        return asked

    def test_job_is_cancelled_after_both_questions(self, ask):
        answer, calls = ask(["", "RUNNING\n"])
        assert answer["without"] == answer["with"] == {"user": "alice", "status": 0, "error": ""}
        assert calls[-1] == ["scancel", "7"]

    def test_group_without_job_number_is_looked_up(self, monkeypatch):
        outputs = {"squeue": iter(["", "RUNNING\n"]), "runuser": iter(["7\n"]), "scancel": iter([""])}
        outputs["scontrol"] = iter(["JobId=7 JobName=rackwright-ssh SLUID=sKF09RXQ40WV0G UserId=alice(2001) Command=(null) \n"])
        monkeypatch.setattr(ssh_access, "run", lambda argv: next(outputs[argv[0]]))
        monkeypatch.setattr(ssh_access, "ask_in_child", lambda user: {"status": 0, "error": "", "cgroup": BY_SLUID})
        answer = ssh_access.main(self.REQUEST)
        assert (answer["sluid"], answer["error"]) == ("sKF09RXQ40WV0G", "")

    @pytest.mark.parametrize(("seconds", "statuses", "last"), [(60, [6, 6, 0, 6], 0), (0, [6, 0], 6)])
    def test_running_job_whose_processes_start_later_is_waited_for(self, monkeypatch, seconds, statuses, last):
        """slurmctld reports a job as running before slurmstepd listens on the node: seen on an emulated machine."""
        answers = iter(statuses)
        monkeypatch.setattr(ssh_access, "ask_in_child", lambda user: {"status": next(answers), "error": ""})
        monkeypatch.setattr(ssh_access.time, "sleep", lambda seconds: None)
        assert ssh_access.ask_until_admitted("alice", seconds)["status"] == last

    def test_job_that_waits_is_cancelled(self, ask):
        answer, calls = ask(["", "PENDING\n"])
        assert (answer["with"], answer["state"]) == (None, "PENDING") and calls[-1] == ["scancel", "7"]

    def test_user_with_a_job_is_not_asked_about(self, ask):
        answer, calls = ask(["5 RUNNING\n"])
        assert (answer["jobs"], answer["without"], len(calls)) == (["5"], None, 1)
