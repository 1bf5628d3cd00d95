"""rackwright.cluster.slurm_drain: what it does to nodes, against a controller whose nodes are given in a few lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import slurm_drain as drain

# As printed by 24.11.5; the middle of each line is left out.
IDLE = "NodeName=w0 Arch=x86_64 Gres=gpu:h100:8 NodeAddr=10.92.0.25 State=IDLE ThreadsPerCore=1 AveWatts=0 "
DRAINED = (
    "NodeName=w1 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=gpu  BootTime=2026-11-21T02:53:08 "
    "Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-11-21T03:23:15]"
)
LOST = "NodeName=w2 State=DOWN*+NOT_RESPONDING ThreadsPerCore=1 Reason=Not responding [slurm@2026-11-21T03:23:15]"
ASLEEP = "NodeName=w3 State=IDLE+POWERED_DOWN ThreadsPerCore=1 AveWatts=0"
SILENT = "NodeName=w4 State=IDLE* ThreadsPerCore=1 Comment=Reason=none"


class Controller(drain.Slurm):  # type: ignore[misc]
    """slurmctld with the given nodes, as state and reason; jobs end, and nodes register, at the n-th look."""

    def __init__(self, *jobs: str, jobs_end_at: int = 1, registered_at: int = 1, **nodes: tuple[str, str]) -> None:
        self.live = dict(nodes)
        self.jobs, self.jobs_end_at, self.registered_at = "\n".join(jobs), jobs_end_at, registered_at
        self.looks = 0
        self.updates: list[str] = []

    def call(self, *words: str) -> str:
        self.looks += 1
        if words[0] == "squeue":
            return "" if self.looks > self.jobs_end_at else self.jobs
        lines = []
        for name, (state, reason) in self.live.items():
            shown = state.replace("+NOT_RESPONDING", "").replace("UNKNOWN", "IDLE") if self.looks > self.registered_at else state
            lines.append(f"NodeName={name} State={shown} ThreadsPerCore=1" + (f" Reason={reason}@2026-11-21T03:23:15]" if reason else ""))
        return "\n".join(lines)

    def update(self, names: Iterable[str], state: str, reason: str = "") -> None:
        self.updates.append(" ".join(filter(None, [",".join(names), state, reason])))
        for name in names:
            silent = "+NOT_RESPONDING" if "NOT_RESPONDING" in self.live[name][0] else ""
            self.live[name] = (f"IDLE{silent}", "") if state == "RESUME" else (f"{self.live[name][0]}+{state}", f"{reason} [root")


def given(monkeypatch: pytest.MonkeyPatch, controller: Controller) -> Controller:
    monkeypatch.setattr(drain, "Slurm", lambda: controller)
    monkeypatch.setattr(drain.time, "sleep", lambda seconds: None)
    return controller


def asked(state: str, *nodes: str, timeout: int = 5) -> dict[str, Any]:
    return {"nodes": list(nodes), "state": state, "timeout": timeout}


class TestReading:
    def test_states_and_reasons(self) -> None:
        nodes = drain.parse_nodes("\n".join([IDLE, DRAINED, LOST, ASLEEP, SILENT]))
        assert [sorted(node.state) for node in nodes.values()] == [
            ["IDLE"], ["DRAIN", "IDLE"], ["DOWN", "NOT_RESPONDING"], ["IDLE", "POWERED_DOWN"], ["IDLE", "NOT_RESPONDING"],
        ]  # fmt: skip
        assert nodes["w1"].reason == "gres/gpu count reported lower than configured (7 < 8)"
        assert nodes["w1"].by == "slurm"
        assert nodes["w0"].reason == nodes["w4"].reason == ""

    @pytest.mark.parametrize(
        ("line", "registered"),
        [(IDLE, True), (DRAINED, True), (LOST, False), (ASLEEP, True), (SILENT, False)],
        ids=["idle", "drained", "lost", "asleep", "silent"],
    )
    def test_registered(self, line: str, registered: bool) -> None:
        (node,) = drain.parse_nodes(line).values()
        assert node.is_registered is registered

    @pytest.mark.parametrize(
        ("reason", "ours"),
        [
            ("rackwright: leaving [root", True),
            ("Not responding [slurm", True),
            ("Node unexpectedly rebooted [slurm", True),
            ("Low RealMemory (reported:100 < 100.00% of configured:2048) [slurm", True),
            ("gres/gpu count reported lower than configured (7 < 8) [slurm", True),
            ("Not responding [root", False),
            ("Kill task failed [slurm", False),
            ("Prolog error [slurm", True),
            ("Prolog error [root", False),
            ("bad DIMM, ask rackwright: people [root", False),
        ],
    )
    def test_what_may_be_lifted(self, reason: str, ours: bool) -> None:
        (node,) = drain.parse_nodes(f"NodeName=w State=IDLE+DRAIN Reason={reason}@2026-11-21T03:23:15]").values()
        assert node.is_ours is ours

    @pytest.mark.parametrize("text", ["slurm_load_node error: something", "NodeName=w1 Arch=x86_64"])
    def test_other_output_is_an_error(self, text: str) -> None:
        with pytest.raises(drain.SlurmError, match="check the Slurm version"):
            drain.parse_nodes(text)

    @pytest.mark.parametrize(
        ("state", "found"),
        [
            ("IDLE*+CLOUD+POWERING_DOWN", {"IDLE", "CLOUD", "NOT_RESPONDING", "POWERING_DOWN"}),
            ("ALLOCATED#+CLOUD", {"ALLOCATED", "CLOUD", "POWERING_UP"}),
            ("IDLE~", {"IDLE", "POWERED_DOWN"}),
            ("IDLE+CLOUD+POWER", {"IDLE", "CLOUD", "POWERED_DOWN"}),
            ("MIXED+CLOUD*", {"MIXED", "CLOUD", "NOT_RESPONDING"}),
            ("DRAINED*", {"DRAIN", "NOT_RESPONDING"}),
            ("IDLE^", {"IDLE", "REBOOT_ISSUED"}),
            ("IDLE-", {"IDLE"}),
        ],
    )
    def test_state_is_read_in_every_form(self, state: str, found: set[str]) -> None:
        (node,) = drain.parse_nodes(f"NodeName=w State={state} ThreadsPerCore=1\r\n").values()
        assert node.state == found

    @pytest.mark.parametrize("text", ["", "\n"])
    def test_missing_output_is_an_error(self, text: str) -> None:
        with pytest.raises(drain.SlurmError, match="no output"):
            drain.parse_nodes(text)

    def test_slurm_without_nodes_knows_none(self) -> None:
        assert drain.parse_nodes("No nodes in the system\n") == {}

    def test_node_without_output_is_not_drained(self, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        command(tmp_path, "scontrol", "exit 0")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        told = run(drain, asked("drained", "w1"))
        assert told["failed"] and "no output" in told["msg"]

    def test_jobs(self) -> None:
        assert drain.parse_jobs("12_3|alice|w[1-2]|a|b\n") == [drain.Job("12_3", "alice", "w[1-2]", "a|b")]
        with pytest.raises(drain.SlurmError, match=r"id\|user\|nodes\|name"):
            drain.parse_jobs("12 alice")

    @pytest.mark.parametrize("name", ["a\nb", "a\x85b", "a\u2028b", "a\x0cb", "\x1b[2Ja", "\ufffd", "a|b\n7 c", ""])
    def test_name_of_a_job_is_whatever_its_user_writes(self, name: str) -> None:
        (job, other) = drain.parse_jobs(f"12_3|alice|w[1-2]|{name}\n13|bob|w1|fine\n")
        assert (job.id, job.name, other.id) == ("12_3", name, "13")
        assert str(job).isprintable()

    @pytest.mark.parametrize("reason", ["a\nb", "\x1b]0;owned\x07", "a\x85b"])
    def test_reason_of_a_node_is_whatever_was_written(self, reason: str) -> None:
        found = drain.parse_nodes(f"NodeName=w1 State=IDLE+DRAIN Reason={reason} [root@2026-11-21T03:23:15]\nNodeName=w2 State=IDLE\n")
        assert (found["w1"].reason, found["w1"].by, list(found)) == (reason, "root", ["w1", "w2"])
        assert str(found["w1"]).isprintable()

    def test_output_that_is_no_utf8_is_read(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        command(tmp_path, "squeue", "printf '12|alice|w1|\\377\\033[2J\\n'")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        (job,) = drain.Slurm().jobs_on(["w1"])
        assert job.name == "\ufffd\x1b[2J"

    def test_only_the_first_of_many_jobs_are_named(self) -> None:
        jobs = [drain.Job(str(number), "alice", "w1", "train") for number in range(25)]
        assert drain.named(jobs).endswith("9 (train) of alice on w1 and 15 more")


class TestDrained:
    def test_waits_for_jobs(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller("16|alice|w1|train", jobs_end_at=4, w0=("MIXED", ""), w1=("MIXED", "")))
        told = run(drain, asked("drained", "w1"))
        assert told["changed"] and not told["failed"]
        assert controller.updates == ["w1 DRAIN rackwright: leaving"]
        assert controller.looks > 4

    def test_names_the_jobs_that_outlast_it(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, Controller("16|alice|w1|train", jobs_end_at=10**9, w1=("MIXED", "")))
        told = run(drain, asked("drained", "w1", timeout=0))
        assert told["failed"]
        assert "w1: still occupied after 0 s by job 16 (train) of alice on w1" in told["msg"]
        assert told["actions"] == ["w1: drain"]

    def test_leaves_the_reason_of_who_drained_it_before(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(w1=("IDLE+DRAIN", "bad DIMM [root")))
        assert not run(drain, asked("drained", "w1"))["changed"]
        assert controller.updates == []

    def test_takes_over_from_a_node_that_drained_itself_and_could_end_that_itself(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(w1=("IDLE+DRAIN", "rackwright: gpu.count_matches_plan: expected 8, found 7 [root")))
        assert run(drain, asked("drained", "w1"))["changed"]
        assert controller.updates == ["w1 DRAIN rackwright: leaving"]

    def test_a_node_that_slurm_does_not_know_is_gone_already(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, Controller(w0=("IDLE", "")))
        told = run(drain, asked("drained", "storage3"))
        assert not told["changed"] and not told["failed"]

    def test_check_mode_neither_drains_nor_waits(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller("16|alice|w1|train", jobs_end_at=10**9, w1=("MIXED", "")))
        told = run(drain, asked("drained", "w1"), check=True, diff=True)
        assert told["changed"] and controller.updates == []
        assert told["diff"] == {"prepared": "w1: drain\n"}


class TestAbsent:
    def test_sets_down_once(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(w1=("IDLE+DRAIN", "rackwright: leaving [root")))
        assert run(drain, asked("absent", "w1"))["changed"]
        assert not run(drain, asked("absent", "w1"))["changed"]
        assert controller.updates == ["w1 DOWN rackwright: leaving"]


class TestResumed:
    def test_nothing_to_do(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(w0=("IDLE", ""), w1=("ALLOCATED", ""), w2=("IDLE+POWERED_DOWN", "")))
        told = run(drain, asked("resumed", "w0", "w1", "w2"))
        assert not told["changed"] and not told["failed"]
        assert controller.looks == 1

    def test_lifts_its_own_and_keeps_others(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(
            monkeypatch,
            Controller(
                w0=("IDLE+DRAIN", "bad DIMM [root"), w1=("IDLE+DRAIN", "rackwright: leaving [root"), w2=("DOWN", "Kill task failed [slurm")
            ),
        )
        told = run(drain, asked("resumed", "w0", "w1", "w2"))
        assert controller.updates == ["w1 RESUME"]
        assert told["actions"] == ["w1: resume"]
        assert told["changed_hosts"] == {"w1": 'w1 is DRAIN+IDLE "rackwright: leaving" (by root)'}
        assert told["held"] == ['w0 is DRAIN+IDLE "bad DIMM" (by root)', 'w2 is DOWN "Kill task failed" (by slurm)']
        assert len(told["warnings"]) == 2

    def test_what_a_nodes_own_check_found_is_for_the_node_to_lift(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(w0=("IDLE+DRAIN", "rackwright: gpu.count_matches_plan: expected 8, found 7 [root")))
        told = run(drain, asked("resumed", "w0"))
        assert controller.updates == [] and not told["changed"] and not told["failed"]
        assert told["warnings"] == [f"{told['held'][0]}: returns to service when that check passes"]

    def test_waits_for_a_lost_node_to_register_before_it_lifts(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(registered_at=3, w1=("DOWN+NOT_RESPONDING", "Node unexpectedly rebooted [slurm")))
        assert run(drain, asked("resumed", "w1"))["actions"] == ["w1: resume"]
        assert controller.looks > 3

    def test_a_node_that_slurm_has_given_up_asking_is_asked_again_and_waited_for(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(registered_at=3, w1=("DOWN+NOT_RESPONDING", "Not responding [slurm")))
        told = run(drain, asked("resumed", "w1"))
        assert told["actions"] == ["w1: resume a node that slurmctld gave up"] and controller.updates == ["w1 RESUME"]
        assert controller.looks > 3

    def test_a_node_that_is_asked_again_and_says_nothing_is_named(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, Controller(registered_at=10**9, w1=("DOWN+NOT_RESPONDING", "Not responding [slurm")))
        told = run(drain, asked("resumed", "w1", timeout=0))
        assert told["failed"] and told["msg"].startswith("w1 is")

    def test_names_nodes_that_never_register(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, Controller(registered_at=10**9, w0=("IDLE", ""), w1=("UNKNOWN+NOT_RESPONDING", "")))
        told = run(drain, asked("resumed", "w0", "w1", timeout=0))
        assert told["failed"]
        assert told["msg"].startswith("w1 is NOT_RESPONDING+UNKNOWN after 0 s")
        assert "w0" not in told["msg"]

    def test_does_not_wait_for_what_an_administrator_holds(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, Controller(registered_at=10**9, w1=("DOWN+NOT_RESPONDING", "in repair [root")))
        told = run(drain, asked("resumed", "w1", timeout=0))
        assert not told["failed"] and not told["changed"]
        assert told["held"]

    def test_a_node_that_slurm_does_not_know_is_an_error(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, Controller(w0=("IDLE", "")))
        told = run(drain, asked("resumed", "w0", "w9"))
        assert told["failed"] and told["msg"].startswith("w9: not in Slurm's configuration")

    def test_check_mode_tells_what_a_run_would_do(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        controller = given(monkeypatch, Controller(registered_at=10**9, w0=("IDLE+DRAIN", "rackwright: leaving [root"), w1=("IDLE*", "")))
        told = run(drain, asked("resumed", "w0", "w1", "w2"), check=True)
        assert controller.updates == []
        assert told["actions"] == ["w0: resume", "w1: wait for its registration", "w2: wait for its registration"]


class TestController:
    def test_one_that_does_not_answer_is_an_error(self, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        command(tmp_path, "scontrol", "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        told = run(drain, asked("resumed", "w0"))
        assert told["failed"]
        assert "Unable to contact slurm controller" in told["msg"] and "journalctl -u slurmctld" in told["msg"]

    def test_in_check_mode_one_that_does_not_answer_counts_as_a_change(
        self, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        told = run(drain, asked("resumed", "w0"), check=True)
        assert told["changed"] and not told["failed"]
        assert "command not found - install slurm-client" in told["msg"]

    def test_the_real_commands(self, run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        """The words that reach scontrol and squeue."""
        command(
            tmp_path,
            "scontrol",
            f'echo scontrol "$@" >> {tmp_path}/said; [ "$1" = update ] || echo \'NodeName=w1 State=MIXED ThreadsPerCore=1\'',
        )
        command(tmp_path, "squeue", f'echo squeue "$@" >> {tmp_path}/said')
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        assert run(drain, asked("drained", "w1"))["changed"]
        assert (tmp_path / "said").read_text().splitlines() == [
            "scontrol --oneliner --all show nodes",
            "scontrol update NodeName=w1 State=DRAIN Reason=rackwright: leaving",
            f"squeue --noheader --all --states={drain.ON_NODES} --nodelist=w1 --format=%i|%u|%N|%j",
        ]


def command(folder: Any, name: str, script: str) -> None:
    """A stand-in for one of Slurm's commands."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_check_mode_does_not_wait_for_a_suspended_slurmctld(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = given(monkeypatch, Controller(w0=("IDLE", "")))
    monkeypatch.setattr(drain, "suspended_units", lambda *names: [f"{names[1]} is frozen"])
    told = run(drain, asked("resumed", "w0"), check=True)
    assert not told["changed"] and "slurmctld.service is frozen" in told["msg"] and controller.looks == 0
    run(drain, asked("resumed", "w0"))
    assert controller.looks > 0
