"""A compute node's health check, run as on a node: only the files that the role installs, with simulated tools."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest
from health_check_node import GPU_WITHOUT_MEMORY, PROGRAM, ROOT, SCONTROL, Node, laid_down

from rackwright.catalog.checks import Kind, checks
from rackwright.targets.digests import NODE_CHECKS


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_health_check_files_match_digest() -> None:
    assert sorted(laid_down().values()) == sorted(NODE_CHECKS)


@pytest.mark.parametrize("source", [*NODE_CHECKS, str(PROGRAM.relative_to(ROOT))])
def test_health_check_parses_on_python_3_9(source: str) -> None:
    ast.parse((ROOT / source).read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("key", [key for key, spec in checks().items() if spec.health])
def test_health_check_needs_only_the_node(key: str, node: Node) -> None:
    assert checks()[key].kind is Kind.PASSIVE
    node.expect([{"check": key, "limit": checks()[key].limit}])
    for name in ("nvidia-smi", "stat", "df", "grep", "cat"):
        node.tool(name, "#!/bin/sh\nexit 9\n")
    said = node.look("--report").stdout
    assert key in said and "has no attribute" not in said and "KeyError" not in said and "No module" not in said, said


def test_healthy_node_queries_slurm_once(node: Node) -> None:
    assert node.look().returncode == 0
    assert (node.folder / "asked").read_text().splitlines() == ["--oneliner show node w0"]
    assert node.updates() == []
    assert node.look().returncode == 0
    assert (node.folder / "asked").read_text() == ""


def test_suspended_munged_is_not_waited_for(node: Node) -> None:
    shown = "Id=munge.service\\nLoadState=loaded\\nActiveState=active\\nMainPID=0\\nFreezerState=frozen\\n"
    node.tool("systemctl", f"#!/bin/sh\nprintf '{shown}'\n")
    said = node.look()
    assert said.returncode == 0 and "scontrol: not called, because munge.service is frozen" in said.stderr
    assert not (node.folder / "asked").exists() or not (node.folder / "asked").read_text()


def test_lost_gpu_drains_node_until_repair(node: Node) -> None:
    node.gpus(7)
    assert node.look().returncode == 1
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]
    assert node.look().returncode == 1
    assert node.updates() == []
    node.gpus(8)
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_new_reason_replaces_own_reason(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=rackwright: storage.is_mounted: expected /a (x), found none [root@2026-11-22T03:00:00]")
    node.gpus(7)
    node.look()
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]


def test_failed_prolog_drain_is_lifted(node: Node) -> None:
    """The drain follows the failed check, and again and again where the job was cancelled meanwhile."""
    assert node.look().returncode == 0
    assert node.look(name="rackwright-node-health-prolog").returncode == 0
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.updates()
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_late_prolog_drain_is_lifted(node: Node) -> None:
    """slurmd repeats it every 15 s, and slurmctld may be away for longer; checks continue meanwhile."""
    assert node.look(name="rackwright-node-health-prolog").returncode == 0
    began = node.now - 90
    os.utime(node.folder / "run/rackwright-node-health.prolog", (began, began))
    for _ in range(3):
        assert node.look().returncode == 0
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.updates()
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_healthy_node_queries_slurm_periodically(node: Node) -> None:
    assert node.look().returncode == 0
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.remembers(asked=node.now - 400)
    node.updates()
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_check_reason_replaces_prolog_error(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.gpus(7)
    assert node.look().returncode == 1
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]


@pytest.mark.parametrize(
    "reason", ["bad DIMM", "Prolog error", "rackwright: leaving", "rackwright: rolling", "gpu.count_matches_plan: expected 8, found 7"]
)
def test_foreign_drain_is_kept(node: Node, reason: str) -> None:
    node.slurm(f"State=IDLE+DRAIN Reason={reason} [root@2026-11-22T03:00:00]")
    node.gpus(7)
    assert node.look().returncode == 1
    node.gpus(8)
    assert node.look().returncode == 0
    assert node.updates() == []


def test_prolog_fails_on_bad_but_not_slow_node(node: Node) -> None:
    node.gpus(7)
    said = node.look(name="rackwright-node-health-prolog")
    assert (said.returncode, said.stderr) == (1, "gpu.count_matches_plan: expected 8, found 7\n")
    assert len(node.updates()) == 1
    node.record.unlink()
    node.hang()
    assert node.look(name="rackwright-node-health-prolog").returncode == 0


@pytest.mark.parametrize(
    ("says", "status"),
    [("echo JobId=57 JobName=JobState=COMPLETED JobState=RUNNING", 1), ("printf 'JobName=\\377\\033 JobState=RUNNING'", 1),
     ("echo JobId=57 JobState=RUNNING", 1), ("echo JobId=57 JobState=CONFIGURING", 1),
     ("echo JobId=57 JobState=SIGNALING", 1), ("echo JobId=57 JobState=CANCELLED", 0),
     ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", 0), ("echo 'Unable to contact' >&2; exit 1", 1)],
    ids=["is named like a state", "is named in no encoding", "runs", "is about to", "has a signal", "was cancelled", "is gone", "unknown"],
)  # fmt: skip
def test_prolog_of_ended_job_reports_nothing(node: Node, monkeypatch: pytest.MonkeyPatch, says: str, status: int) -> None:
    """slurmd reports a failed prolog until slurmctld confirms it, which never happens for an ended job: a drain every 15 s."""
    monkeypatch.setenv("SLURM_JOB_ID", "57")
    node.tool("scontrol", SCONTROL.format(folder=node.folder).replace(f"cat {node.folder}/job", says))
    node.gpus(7)
    assert node.look(name="rackwright-node-health-prolog").returncode == status
    assert "--oneliner show job 57" in (node.folder / "asked").read_text()
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]


def test_simultaneous_prologs_share_one_check(node: Node) -> None:
    node.look(name="rackwright-node-health-prolog")
    node.gpus(7)
    assert node.look(name="rackwright-node-health-prolog").returncode == 0
    told = json.loads(node.record.read_text())
    node.record.write_text(json.dumps({**told, "at": told["at"] - 2}))
    assert node.look(name="rackwright-node-health-prolog").returncode == 1


def test_failed_drain_is_retried(node: Node) -> None:
    node.gpus(7)
    node.tool("scontrol", "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    said = node.look()
    assert said.returncode == 1 and "Unable to contact slurm controller - the next health check retries" in said.stderr
    node.tool("scontrol", SCONTROL.format(folder=node.folder))
    node.look()
    assert len(node.updates()) == 1


def test_report_option_changes_nothing(node: Node) -> None:
    node.gpus(7)
    said = node.look("--report")
    assert said.returncode == 1
    assert said.stdout.splitlines() == ["failed  gpu.count_matches_plan: expected 8, found 7", "passed  gpu.devices_are_distinct"]
    assert not (node.folder / "asked").exists() and not node.record.exists()


def test_check_option_previews_update(node: Node) -> None:
    """For Ansible's check mode: a drain to be lifted is a pending change."""
    assert (node.look("--check").stdout, node.updates()) == ("", [])
    node.gpus(7)
    said = node.look("--check")
    assert (said.returncode, said.stdout) == (0, "drained: gpu.count_matches_plan: expected 8, found 7\n")
    node.look()
    assert node.look("--check").stdout == ""
    node.gpus(8)
    node.updates()
    assert node.look("--check").stdout == "back in service\n"
    assert node.updates() == []
    assert node.look().stdout == "back in service\n" and node.updates() == ["State=RESUME"]


def test_unknown_result_previews_nothing(node: Node) -> None:
    """Otherwise, a check that exceeded its time-out would differ from one that did not."""
    node.hang()
    said = node.look("--check")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_missing_expectations_give_hint(node: Node) -> None:
    os.unlink(node.folder / "etc/rackwright/health.json")
    said = node.look()
    assert said.returncode == 2 and "run `rackwright up` to write the file" in said.stderr and "Traceback" not in said.stderr
    assert node.look("--now").returncode == 2


def test_missing_mount_drains_node(node: Node) -> None:
    storage = {
        "name": "sharedfs",
        "kind": "moosefs",
        "mount": "/mnt/x",
        "servers": ["s0"],
        "clients": ["w0"],
        "folder": None,
        "mode": "1777",
    }
    node.expect([{"check": "storage.is_mounted", "limit": None}], storage=[storage])
    assert node.look().returncode == 1
    assert node.updates() == ["State=DRAIN Reason=rackwright: storage.is_mounted: expected /mnt/x: moosefs, found /mnt/x: not mounted"]


def test_healthy_rolled_node_stays_drained(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=rackwright: rolling [root@2026-11-22T03:00:00]")
    assert node.look("--rolled").returncode == 0
    assert node.updates() == []


def test_unhealthy_rolled_node_is_drained_with_reason(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=rackwright: rolling [root@2026-11-22T03:00:00]")
    node.gpus(7)
    said = node.look("--rolled")
    assert (said.returncode, said.stderr) == (1, "gpu.count_matches_plan: expected 8, found 7\n")
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]
    node.gpus(8)
    assert node.look("--rolled").returncode == 0
    assert node.updates() == []
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_rolled_node_keeps_administrator_drain(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=bad DIMM [root@2026-11-22T03:00:00]")
    node.gpus(7)
    assert node.look("--rolled").returncode == 1
    assert node.updates() == []


def test_rolled_node_with_unknown_result_is_reported(node: Node) -> None:
    node.hang()
    said = node.look("--rolled")
    assert (said.returncode, said.stderr) == (3, "gpu.count_matches_plan: unknown\n")


MEMORY = {"check": "gpu.memory_matches_plan", "limit": 0.05}
ECC = {"check": "gpu.no_ecc_errors", "limit": None}


def test_missing_value_never_drains(node: Node) -> None:
    """A GPU with unified memory has no size: unknown, however long."""
    node.expect([MEMORY])
    node.says(GPU_WITHOUT_MEMORY.format(ecc="[N/A]"))
    for later in (0, 31, 3600, 86400):
        node.set_clock(node.now + later)
        assert node.look().returncode == 3
        assert node.look(name="rackwright-node-health-prolog").returncode == 0
    assert node.updates() == []
    assert node.look("--report").stdout.startswith("unknown gpu.memory_matches_plan: GPU 0 memory.total is")


def test_missing_value_lifts_no_drain_for_a_fault(node: Node) -> None:
    node.expect([ECC])
    node.says(GPU_WITHOUT_MEMORY.format(ecc="3"))
    assert node.look().returncode == 1
    assert len(node.updates()) == 1
    node.says(GPU_WITHOUT_MEMORY.format(ecc="ERR!"))
    for _ in range(2):
        assert node.look().returncode == 3
        assert node.updates() == []
    node.says(GPU_WITHOUT_MEMORY.format(ecc="0"))
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


class TestRest:
    """A slow node rests between Slurm's checks."""

    def looked(self, node: Node, *words: str, ago: float, took: float, name: str = "rackwright-node-health") -> bool:
        """Return whether another run checks, a time after a run of a duration."""
        node.look()
        node.remembers(at=node.now - ago, took=took)
        node.look(*words, name=name)
        return bool(json.loads(node.record.read_text())["at"] == node.now)

    @pytest.mark.parametrize(("ago", "took", "looks"), [(2, 0.4, True), (39, 4, False), (41, 4, True), (179, 30, False), (181, 30, True)])
    def test_slow_check_is_followed_by_rest(self, node: Node, ago: float, took: float, looks: bool) -> None:
        assert self.looked(node, ago=ago, took=took) is looks

    def test_rest_keeps_the_verdict(self, node: Node) -> None:
        node.gpus(7)
        assert node.look().returncode == 1
        node.remembers(took=10.0)
        assert node.look().returncode == 1

    def test_converge_and_jobs_do_not_wait(self, node: Node) -> None:
        assert self.looked(node, "--now", ago=20, took=10)
        assert self.looked(node, ago=20, took=10, name="rackwright-node-health-prolog")
