"""The smoke run: its request, and the verdicts on its answers."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster.harness.probe import NodeBusyError
from rackwright.checks.cluster.probes.smoke import SMOKE, gpus_to_ask, parse_file_contents, parse_smoke, parts, shared, write_requests
from rackwright.errors import UndeterminedError

FOLDER = Path(__file__).parents[1] / "captured"


def captured(case):
    """Return one captured run."""
    return parse_smoke((FOLDER / "smoke" / f"{case}.txt").read_text(encoding="utf-8"))


def place(node="login0", *, speaking=("w0", "w1", "c0"), **cluster):
    """Return a node in an invented plan: two GPU nodes, one without, two partitions."""
    plan = {
        "users": [{"name": "alice", "uid": 2001}],
        "storage": [{"kind": "moosefs", "mount": "/mnt/s", "mode": "1777", "clients": ["login0", "w0", "w1", "c0"]}],
        "scheduler": {
            "accounting": "login0",
            "nodes": [{"name": "w0", "gpus": 8}, {"name": "w1", "gpus": 4}, {"name": "c0", "gpus": 0}],
            "partitions": [{"name": "gpu", "nodes": ["w0", "w1"]}, {"name": "all", "nodes": ["w0", "w1", "c0"]}],
        },
        **cluster,
    }
    declared = SimpleNamespace(cluster=plan, nodes=dict.fromkeys(["login0", "w0", "w1", "c0"]), members=lambda _: ("login0", "login1"))
    return SimpleNamespace(node={"name": node}, declared=declared, is_reachable=lambda name: name in speaking)


def request(where):
    """Return the request to the program on the node."""
    command = SMOKE.command_at(where)
    return command, json.loads(shlex.split(command)[-1])


class TestRequest:
    def test_every_compute_node_is_in_one_part(self):
        assert parts(place()) == [
            {"partition": "gpu", "nodes": ["w0", "w1"], "first": 1, "second": 1},
            {"partition": "all", "nodes": ["c0"], "first": 0, "second": 0},
        ]

    @pytest.mark.parametrize(
        ("counts", "asked"), [([8, 8], (3, 3)), ([8, 4], (1, 1)), ([2], (1, 1)), ([1], (1, 0)), ([], (0, 0)), ([6], (2, 2))]
    )
    def test_both_jobs_fit_on_every_node(self, counts, asked):
        assert gpus_to_ask(counts) == asked
        assert sum(asked) <= min(counts, default=0)

    def test_unresponsive_nodes_get_no_jobs(self):
        _, requested = request(place(speaking=("w0",)))
        assert [part["nodes"] for part in requested["parts"]] == [["w0"]]

    def test_jobs_run_as_first_planned_user(self):
        assert request(place())[0].startswith("runuser -u alice -- python3 ")

    def test_jobs_run_as_root_without_users(self):
        assert request(place(users=[]))[0].startswith("python3 ")

    def test_one_node_submits_all_jobs(self):
        assert SMOKE.command_at(place("login1")) == "true"

    def test_storage_must_be_on_all_nodes(self):
        (everywhere,) = place().declared.cluster["storage"]
        assert shared(place()) == everywhere
        assert shared(place(storage=[{**everywhere, "clients": ["w0", "w1", "c0"]}])) is None
        assert shared(place(storage=[])) is None

    def test_unwritable_storage_is_skipped(self):
        (everywhere,) = place().declared.cluster["storage"]
        tools = {**everywhere, "mount": "/mnt/tools", "mode": "0755"}
        assert shared(place(storage=[tools, everywhere])) == everywhere
        assert shared(place(storage=[tools])) is None

    def test_nfs_writes_fewer_locked_lines(self):
        (everywhere,) = place().declared.cluster["storage"]
        assert write_requests(everywhere) == {"storage": "/mnt/s", "records": 200, "locks": False}
        assert write_requests({**everywhere, "kind": "nfs"}) == {"storage": "/mnt/s", "records": 20, "locks": True}
        assert write_requests(None)["storage"] is None

    def test_powered_down_nodes_get_start_time(self):
        saving = {**place().declared.cluster["scheduler"], "power_saving": {"resume_timeout_s": 60}}
        assert request(place(scheduler=saving))[1]["seconds"] == request(place())[1]["seconds"] + 60


class TestVerdicts:
    def test_healthy_nodes_pass(self):
        run = captured("good")
        first, second = run.task("first", "worker0"), run.task("second", "worker0")
        assert len(first.gpus) == len(second.gpus) == 3
        assert not set(first.gpus) & set(second.gpus)
        assert first.began < second.ended
        assert second.began < first.ended
        assert run.task("plain", "worker1").uid == 2001
        assert run.task("plain", "worker1").visible is None

    def test_busy_node_is_skipped(self):
        with pytest.raises(NodeBusyError):
            captured("shared-gpus-and-a-busy-node").job("plain", "worker1")

    def test_unavailable_node_is_unknown(self):
        drained = replace(captured("good"), states={"worker0": "drained bad DIMM", "worker1": "idle none"})
        with pytest.raises(UndeterminedError, match="node not usable: drained bad DIMM"):
            drained.job("plain", "worker0")

    @pytest.mark.parametrize(
        "state", ["idle* Not responding", "idle@ kernel", "idle^ kernel", "down~ ResumeTimeout reached", "", "unknown*"]
    )
    def test_node_that_takes_no_job_is_unknown(self, state):
        with pytest.raises(UndeterminedError, match="node not usable"):
            replace(captured("good"), states={"worker0": state, "worker1": "idle none"}).job("plain", "worker0")

    @pytest.mark.parametrize("state", ["allocated# none", "mixed# none", "idle$ none", "mixed$ none", "maint none", "mixed- none"])
    def test_node_that_waits_for_a_job_or_is_reserved_is_busy(self, state):
        with pytest.raises(NodeBusyError):
            replace(captured("good"), states={"worker0": state, "worker1": "idle none"}).job("plain", "worker0")

    @pytest.mark.parametrize("state", ["idle none", "idle~ none", "idle# none", "idle% none"])
    def test_powered_down_node_takes_jobs(self, state):
        assert replace(captured("good"), states={"worker0": state}).job("plain", "worker0").name == "plain"

    def test_missing_job_needs_busy_nodes_everywhere(self):
        idle = replace(captured("good"), jobs=())
        with pytest.raises(NodeBusyError):
            replace(idle, states={"worker0": "allocated none", "worker1": "mixed none"}).require_jobs_sent()
        for states in ({"worker0": "allocated none", "worker1": "down* Not responding"}, {}):
            with pytest.raises(UndeterminedError):
                replace(idle, states=states).require_jobs_sent()
        captured("good").require_jobs_sent()

    def test_shared_gpus_are_read(self):
        run = captured("shared-gpus-and-a-busy-node")
        assert set(run.task("first", "worker0").gpus) & set(run.task("second", "worker0").gpus) == {"3", "4", "5"}

    def test_files_seen_by_nodes_are_read(self):
        seen = parse_file_contents((FOLDER / "smoke-seen" / "good.txt").read_text(encoding="utf-8"))
        assert seen.files == {"from-worker0": "written by a job on worker0", "from-worker1": "written by a job on worker1"}
        assert len(seen.lines) == 400
