"""A compute node's look at itself, run as on a node: the files that the role lays there and nothing else, tools stood in for."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.hang import ENDLESS_SECONDS

from rackwright.catalog.checks import Kind, checks
from rackwright.targets.digests import NODE_CHECKS

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "roles/slurm_worker/files/rackwright_health.py"
BUDGET = "BUDGET = 1.8 "
GPU = "{index}, NVIDIA H100 80GB HBM3, 81559, 580.173.02, 0, 1980, 0x1, Enabled"
SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in
  *"show job"*) cat {folder}/job ;;
  *"show node"*) cat {folder}/node ;;
  *State=DRAIN*) echo "NodeName=w0 State=IDLE+DRAIN Reason=${{4#Reason=}} [root@2026-11-22T03:00:00]" > {folder}/node ;;
  *State=RESUME*) echo "NodeName=w0 State=IDLE" > {folder}/node ;;
esac
"""


class Node:
    """A node in a folder: its tools, its expectations, and Slurm's word on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = PROGRAM.read_text(encoding="utf-8").replace('"/usr/local/sbin:', f'"{folder}/bin:')
        for path in ("/usr/local/lib/rackwright/health", "/etc/rackwright", "/var/lib/rackwright", "/run"):
            text = text.replace(f'"{path}', f'"{folder}{path}')
            (folder / path.lstrip("/")).mkdir(parents=True)
        (folder / "bin").mkdir()
        text = text.replace('"/proc/thread-self/schedstat"', f'"{folder}/schedstat"')
        self.waited(0.002)
        text = text.replace("import time\n", f"import time\n\ntime.time = lambda: float(open({str(folder / 'clock')!r}).read())\n")
        text = text.replace(BUDGET, "BUDGET = 600.0 ")
        self.set_clock(time.time())
        for name in ("rackwright-health", "rackwright-health-prolog"):
            self.tool(name, text)
        for place, source in laid_down().items():
            path = folder / place.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((ROOT / source).read_text(encoding="utf-8"))
        self.tool("scontrol", SCONTROL.format(folder=folder))
        self.slurm("State=IDLE")
        self.gpus(8)
        self.tool("stat", '#!/bin/sh\nfor n in 0 1 2 3 4 5 6 7; do echo "/dev/nvidia$n|character special file|3d:$n"; done\n')
        self.expect([{"check": "gpu.count_matches_plan", "limit": None}, {"check": "gpu.devices_are_distinct", "limit": None}])

    def set_clock(self, now: float) -> None:
        """The clock of the node, which stands still: how long a look takes here is nothing to it."""
        self.now = now
        (self.folder / "clock").write_text(str(now))

    @property
    def record(self) -> Path:
        return self.folder / "var/lib/rackwright/health.json"

    def remembers(self, **said: Any) -> None:
        self.record.write_text(json.dumps(json.loads(self.record.read_text()) | said))

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def edit(self, path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")

    def hang(self) -> None:
        """Let nvidia-smi hang. It gets 0.3 s."""
        self.tool("nvidia-smi", f"#!/bin/sh\nexec sleep {ENDLESS_SECONDS}\n")
        probe = self.folder / "usr/local/lib/rackwright/health/cluster/probes/gpu.py"
        self.edit(probe, '    "gpus",\n', '    "gpus",\n    timeout=0.3,\n')

    def limit_look(self) -> None:
        """Give a look the time that it has on a node."""
        for name in ("rackwright-health", "rackwright-health-prolog"):
            self.edit(self.folder / "bin" / name, "BUDGET = 600.0 ", BUDGET)

    def waited(self, seconds: float) -> None:
        """For a processor, as the kernel counts it of the look."""
        (self.folder / "schedstat").write_text(f"86000000 {seconds * 1e9:.0f} 41\n")  # for each of its threads

    def gpus(self, count: int) -> None:
        rows = "\n".join(GPU.format(index=index) for index in range(count))
        self.tool("nvidia-smi", f"#!/bin/sh\ncat <<'X'\n{rows}\nX\n")

    def slurm(self, says: str) -> None:
        (self.folder / "node").write_text(f"NodeName=w0 {says}\n")

    def expect(self, rows: list[dict[str, Any]], **cluster: Any) -> None:
        record = {"name": "w0", "memory_mib": 1, "gpus": {"count": 8, "simulated": True}}
        told = {"node": record, "cluster": {"storage": [], **cluster}, "checks": rows}
        (self.folder / "etc/rackwright/health.json").write_text(json.dumps(told))

    def look(self, *words: str, name: str = "rackwright-health") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", str(self.folder / "bin" / name), *words]
        usual = {**os.environ, "RACKWRIGHT_SLOWNESS": "1"}  # What else this machine does now must not change the limits.
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=ENDLESS_SECONDS / 2, env=usual)

    def updates(self) -> list[str]:
        asked = self.folder / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.write_text("")
        return [line.partition("NodeName=w0 ")[2] for line in lines if line.startswith("update")]


def laid_down() -> dict[str, str]:
    """Where the role puts the checks' files on a node, and where in the project they come from."""
    task = yaml.safe_load((ROOT / "roles/slurm_worker/tasks/health.yml").read_text(encoding="utf-8"))[0]
    return {row["path"]: row["content"].partition("/../../")[2].partition("'")[0] for row in task["vars"]["_slurm_worker_checks"]}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_changed_check_is_laid_down_again() -> None:
    assert sorted(laid_down().values()) == sorted(NODE_CHECKS)


@pytest.mark.parametrize("source", [*NODE_CHECKS, str(PROGRAM.relative_to(ROOT))])
def test_nodes_with_python_3_9_can_read_it(source: str) -> None:
    ast.parse((ROOT / source).read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("key", [key for key, spec in checks().items() if spec.health])
def test_a_check_of_the_nodes_own_needs_only_the_node(key: str, node: Node) -> None:
    assert checks()[key].kind is Kind.PASSIVE
    node.expect([{"check": key, "limit": checks()[key].limit}])
    for name in ("nvidia-smi", "stat", "df", "grep", "cat"):
        node.tool(name, "#!/bin/sh\nexit 9\n")
    said = node.look("--look").stdout
    assert key in said and "has no attribute" not in said and "KeyError" not in said and "No module" not in said, said


def test_a_node_as_declared_is_left_alone_and_asks_slurm_once(node: Node) -> None:
    assert node.look().returncode == 0
    assert (node.folder / "asked").read_text().splitlines() == ["--oneliner show node w0"]
    assert node.updates() == []
    assert node.look().returncode == 0
    assert (node.folder / "asked").read_text() == ""


def test_a_lost_gpu_drains_it_with_the_checks_id_and_its_return_lifts_that(node: Node) -> None:
    node.gpus(7)
    assert node.look().returncode == 1
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]
    assert node.look().returncode == 1
    assert node.updates() == []
    node.gpus(8)
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_another_reason_takes_the_place_of_its_own(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=rackwright: storage.is_mounted: expected /a (x), found none [root@2026-11-22T03:00:00]")
    node.gpus(7)
    node.look()
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]


def test_slurms_own_drain_for_a_look_before_a_job_keeps_no_node_out(node: Node) -> None:
    """It comes after the look that failed, and again and again where the job was cancelled meanwhile."""
    assert node.look().returncode == 0
    assert node.look(name="rackwright-health-prolog").returncode == 0
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.updates()
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_that_drain_may_come_after_the_looks_that_follow(node: Node) -> None:
    """slurmd repeats it every 15 s, and slurmctld may be away for longer; looks go on meanwhile."""
    assert node.look(name="rackwright-health-prolog").returncode == 0
    began = node.now - 90
    os.utime(node.folder / "run/rackwright-health.prolog", (began, began))
    for _ in range(3):
        assert node.look().returncode == 0
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.updates()
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_a_node_that_seems_well_asks_now_and_then_all_the_same(node: Node) -> None:
    assert node.look().returncode == 0
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.remembers(asked=node.now - 400)
    node.updates()
    assert node.look().returncode == 0
    assert node.updates() == ["State=RESUME"]


def test_what_is_wrong_takes_the_place_of_slurms_own_words(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=Prolog error [slurm@2026-11-22T04:07:48]")
    node.gpus(7)
    assert node.look().returncode == 1
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]


@pytest.mark.parametrize(
    "reason", ["bad DIMM", "Prolog error", "rackwright: leaving", "rackwright: rolling", "gpu.count_matches_plan: expected 8, found 7"]
)
def test_what_others_drained_stays_theirs(node: Node, reason: str) -> None:
    node.slurm(f"State=IDLE+DRAIN Reason={reason} [root@2026-11-22T03:00:00]")
    node.gpus(7)
    assert node.look().returncode == 1
    node.gpus(8)
    assert node.look().returncode == 0
    assert node.updates() == []


def test_a_tool_that_hangs_is_told_in_time_and_drains_only_when_it_goes_on_hanging(node: Node) -> None:
    node.expect([{"check": "gpu.count_matches_plan", "limit": None}])
    node.tool("nvidia-smi", f"#!/bin/sh\nexec sleep {ENDLESS_SECONDS}\n")
    node.limit_look()
    assert node.look().returncode == 3  # It returned: `look` waits for half of what the tool takes.
    assert node.updates() == []
    told = json.loads(node.record.read_text())
    node.record.write_text(json.dumps({**told, "unsure": {"gpu.count_matches_plan": node.now - 31}}))
    assert node.look().returncode == 1
    (reason,) = node.updates()
    assert re.match(r"State=DRAIN Reason=rackwright: gpu.count_matches_plan: gpus: (no answer within [0-2] s|the node had no time)", reason)


def test_silence_on_a_node_without_a_processor_for_the_look_drains_later(node: Node) -> None:
    node.hang()
    node.waited(0.086 * 5.1)
    assert node.look().returncode == 3
    for ago, status in ((599, 3), (600, 1)):
        node.remembers(unsure={"gpu.count_matches_plan": node.now - ago})
        assert node.look().returncode == status
    assert node.updates()[0].startswith("State=DRAIN Reason=rackwright: gpu.count_matches_plan: gpus: no answer within 0 s")


@pytest.mark.parametrize("text", ["", "0", "a b c\n", None])
def test_where_the_kernel_does_not_count_waiting_silence_drains_as_always(node: Node, text: str | None) -> None:
    (node.folder / "schedstat").unlink() if text is None else (node.folder / "schedstat").write_text(text)
    node.hang()
    node.look()
    node.remembers(unsure={"gpu.count_matches_plan": node.now - 31})
    assert node.look().returncode == 1


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="this kernel does not count how long programs wait")
def test_what_the_kernel_counts_reads_as_expected() -> None:
    on, waited, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    assert on > 0 <= waited


def test_before_a_job_a_bad_node_says_no_and_a_slow_one_does_not(node: Node) -> None:
    node.gpus(7)
    said = node.look(name="rackwright-health-prolog")
    assert (said.returncode, said.stderr) == (1, "gpu.count_matches_plan: expected 8, found 7\n")
    assert len(node.updates()) == 1
    node.record.unlink()
    node.hang()
    assert node.look(name="rackwright-health-prolog").returncode == 0


@pytest.mark.parametrize(
    ("says", "status"),
    [("echo JobId=57 JobState=RUNNING", 1), ("echo JobId=57 JobState=CONFIGURING", 1), ("echo JobId=57 JobState=CANCELLED", 0),
     ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", 0), ("echo 'Unable to contact' >&2; exit 1", 1)],
    ids=["runs", "is about to", "was cancelled", "is gone", "nobody knows"],
)  # fmt: skip
def test_to_a_job_that_is_over_it_says_nothing(node: Node, monkeypatch: pytest.MonkeyPatch, says: str, status: int) -> None:
    """slurmd tells slurmctld of a prolog that failed until that agrees, and of a job that is over it never does: a drain every 15 s."""
    monkeypatch.setenv("SLURM_JOB_ID", "57")
    node.tool("scontrol", SCONTROL.format(folder=node.folder).replace(f"cat {node.folder}/job", says))
    node.gpus(7)
    assert node.look(name="rackwright-health-prolog").returncode == status
    assert "--oneliner show job 57" in (node.folder / "asked").read_text()
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: expected 8, found 7"]


def test_jobs_that_start_together_share_a_look(node: Node) -> None:
    node.look(name="rackwright-health-prolog")
    node.gpus(7)
    assert node.look(name="rackwright-health-prolog").returncode == 0
    told = json.loads(node.record.read_text())
    node.record.write_text(json.dumps({**told, "at": told["at"] - 2}))
    assert node.look(name="rackwright-health-prolog").returncode == 1


def test_a_drain_that_slurm_did_not_take_is_tried_again(node: Node) -> None:
    node.gpus(7)
    node.tool("scontrol", "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    said = node.look()
    assert said.returncode == 1 and "Unable to contact slurm controller - the next look tries again" in said.stderr
    node.tool("scontrol", SCONTROL.format(folder=node.folder))
    node.look()
    assert len(node.updates()) == 1


def test_looking_by_hand_changes_nothing(node: Node) -> None:
    node.gpus(7)
    said = node.look("--look")
    assert said.returncode == 1
    assert said.stdout.splitlines() == ["failed  gpu.count_matches_plan: expected 8, found 7", "passed  gpu.devices_are_distinct"]
    assert not (node.folder / "asked").exists() and not node.record.exists()


def test_what_a_look_would_do_can_be_told_beforehand(node: Node) -> None:
    """For Ansible's check mode: a drain that is to be lifted is a change that is still to come."""
    assert (node.look("--foresee").stdout, node.updates()) == ("", [])
    node.gpus(7)
    said = node.look("--foresee")
    assert (said.returncode, said.stdout) == (0, "drained: gpu.count_matches_plan: expected 8, found 7\n")
    node.look()
    assert node.look("--foresee").stdout == ""
    node.gpus(8)
    node.updates()
    assert node.look("--foresee").stdout == "back in service\n"
    assert node.updates() == []
    assert node.look().stdout == "back in service\n" and node.updates() == ["State=RESUME"]


def test_what_cannot_be_told_foresees_nothing_and_is_told_like_that(node: Node) -> None:
    """A look that happened to get no answer in time would otherwise differ from one that did."""
    node.hang()
    said = node.look("--foresee")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_a_node_without_expectations_says_what_to_do(node: Node) -> None:
    os.unlink(node.folder / "etc/rackwright/health.json")
    said = node.look()
    assert said.returncode == 2 and "`rackwright up` writes it" in said.stderr and "Traceback" not in said.stderr
    assert node.look("--now").returncode == 2


def test_a_mount_that_is_away_is_named(node: Node) -> None:
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


def test_a_rolled_node_that_is_good_waits_to_be_brought_back(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=rackwright: rolling [root@2026-11-22T03:00:00]")
    assert node.look("--rolled").returncode == 0
    assert node.updates() == []


def test_a_rolled_node_that_is_not_good_stays_out_for_what_is_wrong_with_it(node: Node) -> None:
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


def test_a_rolled_node_that_an_administrator_took_stays_theirs(node: Node) -> None:
    node.slurm("State=IDLE+DRAIN Reason=bad DIMM [root@2026-11-22T03:00:00]")
    node.gpus(7)
    assert node.look("--rolled").returncode == 1
    assert node.updates() == []


def test_a_rolled_node_that_cannot_tell_is_named(node: Node) -> None:
    node.hang()
    said = node.look("--rolled")
    assert (said.returncode, said.stderr) == (3, "gpu.count_matches_plan: could not tell\n")


class TestRest:
    """A slow node rests between Slurm's looks."""

    def looked(self, node: Node, *words: str, ago: float, took: float, name: str = "rackwright-health") -> bool:
        """Return whether another look looks, so long after one that took so long."""
        node.look()
        node.remembers(at=node.now - ago, took=took)
        node.look(*words, name=name)
        return bool(json.loads(node.record.read_text())["at"] == node.now)

    @pytest.mark.parametrize(("ago", "took", "looks"), [(2, 0.4, True), (39, 4, False), (41, 4, True), (179, 30, False), (181, 30, True)])
    def test_slow_look_is_followed_by_a_rest(self, node: Node, ago: float, took: float, looks: bool) -> None:
        assert self.looked(node, ago=ago, took=took) is looks

    def test_rest_keeps_the_verdict(self, node: Node) -> None:
        node.gpus(7)
        assert node.look().returncode == 1
        node.remembers(took=10.0)
        assert node.look().returncode == 1

    def test_converge_and_jobs_do_not_wait(self, node: Node) -> None:
        assert self.looked(node, "--now", ago=20, took=10)
        assert self.looked(node, ago=20, took=10, name="rackwright-health-prolog")
