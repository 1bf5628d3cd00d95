"""Findings of the smoke phases from written job outputs, good and bad, without a cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from rackwright.checks.acceptance.phase import Finding, Output, Part, PhaseScope, Task
from rackwright.checks.acceptance.phases import gpu_allocation, infiniband, shared_file_system, slurm_health, task_placement
from rackwright.checks.acceptance.smoke import failure_of
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import from_inventory
from rackwright.report.verdict import Verdict
from rackwright.yaml_loader import load_yaml

GOLDEN = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"
NODES = ("worker0", "worker1")
FABRIC = {"rate_gbps": 400, "link_layer": "InfiniBand"}


def captured(question: str, which: str = "good") -> str:
    """Return a captured answer of a lab node."""
    return (Path(__file__).parents[1] / "captured" / question / f"{which}.txt").read_text()


@pytest.fixture
def scope():
    """Return the lab, idle, with two rails per worker."""
    declared = from_inventory(load_yaml(GOLDEN.read_text()))
    nodes = {name: {**record, "rails": ["mlx5_0", "mlx5_1"] if name in NODES else []} for name, record in declared.nodes.items()}
    return PhaseScope(
        declared=replace(declared, nodes=nodes, fabric=FABRIC),
        nodes=NODES,
        states=dict.fromkeys(NODES, "idle none"),
        busy=frozenset(),
        run="r",
        submitter="login0",
        user="alice",
        mount="/mnt/sharedfs",
        folder="/mnt/sharedfs/run/phase",
        uid=2001,
        parts=(Part("gpu", NODES),),
    )


def outputs(module: ModuleType, scope: PhaseScope, says) -> dict[str, Output]:
    """Return outputs of jobs that all ended with 0; `says(job, node, rank)` is the text of each task, None for a task without output."""
    found = {}
    for job in module.jobs(scope):
        tasks = []
        for rank in range(len(job.nodes) * job.tasks_per_node):
            node = job.nodes[rank // job.tasks_per_node]
            text = says(job, node, rank)
            if text is not None:
                tasks.append(Task(rank, node, node, 2001, text))
        found[job.name] = Output(job, "7", 0, "", tuple(tasks), "", 1.0)
    return found


def judged(module: ModuleType, scope: PhaseScope, found: dict[str, Output]) -> dict[tuple[str, str], Finding]:
    """Return findings by check and node."""
    return {(finding.check, finding.node): finding for finding in module.evaluate(scope, found)}


def bad(findings: dict[tuple[str, str], Finding]) -> dict[tuple[str, str], Verdict]:
    """Return the findings that are neither passed nor skipped."""
    return {key: one.verdict for key, one in findings.items() if one.verdict in (Verdict.FAILED, Verdict.UNKNOWN)}


def spoken(
    node: str, *, uid: int = 2001, gpus: str | None = None, visible: str | None = None, began: float = 1.0, ended: float = 2.0
) -> str:
    """Return the output of the smoke run's task."""
    return "TASK " + json.dumps(
        {"job": "7", "node": node, "host": node, "uid": uid, "gpus": gpus, "visible": visible, "began": began, "ended": ended}
    )


def answered(text: str, rc: int = 0) -> str:
    """Return the output of programs/shell.py."""
    return json.dumps({"rc": rc, "out": text, "err": ""})


class TestSlurmHealth:
    @pytest.fixture
    def asked(self, scope):
        answers = {name: CommandOutput(out=captured(name)) for name in ("slurm-ping", "slurm-partitions", "slurm-nodes")}
        return replace(scope, answers=answers)

    def test_healthy_scheduler_passes(self, asked):
        assert not bad(judged(slurm_health, asked, outputs(slurm_health, asked, lambda job, node, rank: spoken(node))))

    def test_closed_partition_and_other_uid_fail(self, asked):
        closed = replace(asked, answers={**asked.answers, "slurm-partitions": CommandOutput(out=captured("slurm-partitions", "closed"))})
        found = outputs(slurm_health, closed, lambda job, node, rank: spoken(node, uid=2001 if node == "worker0" else 1000))
        assert set(bad(judged(slurm_health, closed, found))) == {("partitions_are_up", "login0"), ("job_runs_as_its_user", "worker1")}

    def test_controller_down_and_node_without_jobs_fail(self, asked):
        down = CommandOutput(out=captured("slurm-ping").replace("UP", "DOWN"), rc=1)
        scope = replace(asked, answers={**asked.answers, "slurm-ping": down})
        found = outputs(slurm_health, scope, lambda job, node, rank: spoken(node) if node == "worker0" else None)
        findings = judged(slurm_health, scope, found)
        assert findings["controllers_answer", "login0"].verdict is findings["job_runs", "worker1"].verdict is Verdict.FAILED
        assert findings["job_runs_as_its_user", "worker1"].verdict is Verdict.UNKNOWN

    def test_node_drained_by_prolog_reports_reason(self, asked):
        """The prolog drains the node; srun does not print the reason."""
        nodes = captured("slurm-nodes").replace("State=IDLE", "State=IDLE+DRAIN", 1)
        first, _, rest = nodes.partition("\n")
        drained = f"{first} Reason=rackwright: gpu.count_matches_plan: expected 8, found 7 [root@2026-11-22T03:37:40]\n{rest}"
        scope = replace(asked, answers={**asked.answers, "slurm-nodes": CommandOutput(out=drained)})
        unfit = drained.partition("NodeName=")[2].split()[0]
        found = outputs(slurm_health, scope, lambda job, node, rank: spoken(node) if node != unfit else None)
        findings = judged(slurm_health, scope, found)
        assert set(bad(findings)) == {("job_runs", unfit), ("job_runs_as_its_user", unfit)}
        assert "rackwright: gpu.count_matches_plan" in findings["job_runs", unfit].found

    def test_unread_state_leaves_the_verdicts_on_jobs(self, asked):
        reason = " Reason=fan 3 is loud [root@2026-11-22T03:37:40]\n"
        nodes = captured("slurm-nodes").replace("State=IDLE", "State=[N/A]").replace("\n", reason)
        scope = replace(asked, answers={**asked.answers, "slurm-nodes": CommandOutput(out=nodes)})
        findings = judged(slurm_health, scope, outputs(slurm_health, scope, lambda job, node, rank: None))
        assert {finding.verdict for (check, _), finding in findings.items() if check == "job_runs"} == {Verdict.FAILED}

    def test_timed_out_job_is_unknown(self, asked):
        found = outputs(slurm_health, asked, lambda job, node, rank: spoken(node))
        late = replace(found["hello-worker1"], status=124, error="no end after 60 s", tasks=())
        refused = replace(late, status=1, error="error: Unable to allocate resources: Invalid account")
        for output, verdict in ((late, Verdict.UNKNOWN), (refused, Verdict.FAILED)):
            finding = judged(slurm_health, asked, {**found, "hello-worker1": output})["job_runs", "worker1"]
            assert finding.verdict is verdict and output.error in finding.reason

    def test_drained_node_reports_reason(self, asked):
        drained = replace(
            asked, states={"worker0": "idle none", "worker1": "drained disk"}, nodes=("worker0",), parts=(Part("gpu", ("worker0",)),)
        )
        found = judged(slurm_health, drained, outputs(slurm_health, drained, lambda job, node, rank: spoken(node)))
        assert found["node_takes_jobs", "worker1"].found == "drained disk"
        assert set(bad(found)) == {("node_takes_jobs", "worker1")}

    def test_unqueried_controller_is_unknown(self, asked):
        silent = replace(asked, answers={**asked.answers, "slurm-ping": CommandOutput(error="no answer within 8 s")})
        found = judged(slurm_health, silent, outputs(slurm_health, silent, lambda job, node, rank: spoken(node)))
        assert bad(found) == {("controllers_answer", "login0"): Verdict.UNKNOWN}

    def test_controller_that_does_not_respond_is_unknown_with_its_name(self, asked):
        """scontrol prints DOWN after its own time-out, for a suspended slurmctld as well."""
        late = CommandOutput(out=captured("slurm-ping").replace("UP", "DOWN"), rc=1, seconds=20.2)
        scope = replace(asked, answers={**asked.answers, "slurm-ping": late})
        found = judged(slurm_health, scope, outputs(slurm_health, scope, lambda job, node, rank: spoken(node)))
        assert bad(found) == {("controllers_answer", "login0"): Verdict.UNKNOWN}
        assert found["controllers_answer", "login0"].reason == "slurmctld on login0: no answer within 20 s"


class TestSharedFileSystem:
    files = {f"from-{node}": f"written by a job on {node}" for node in NODES}

    @pytest.fixture
    def asked(self, scope):
        return replace(scope, answers={"acceptance-seen": CommandOutput(out=json.dumps({"files": self.files, "lines": {}}))})

    def says(self, job, node, rank, lines=200):
        if job.name.startswith("mounts"):
            return answered(captured("mounts"))
        if job.name.startswith("size"):
            return answered(f"{65536 * 256} 4096\n")
        if job.name.startswith("write"):
            return spoken(node)
        return json.dumps({"files": self.files, "lines": {"worker0": 200, "worker1": lines}})

    def test_consistent_file_system_passes(self, asked):
        assert not bad(judged(shared_file_system, asked, outputs(shared_file_system, asked, self.says)))

    def test_lost_line_fails(self, asked):
        found = outputs(shared_file_system, asked, lambda *what: self.says(*what, lines=199))
        assert set(bad(judged(shared_file_system, asked, found))) == {("no_lost_writes", node) for node in NODES}

    def test_half_of_planned_size_fails(self, asked):
        small = lambda job, node, rank: answered(f"{32768 * 256} 4096") if "size" in job.name else self.says(job, node, rank)  # noqa: E731
        assert set(bad(judged(shared_file_system, asked, outputs(shared_file_system, asked, small)))) == {
            ("size_matches_plan", node) for node in NODES
        }

    def test_write_error_fails_only_its_node(self, asked):
        def says(job, node, rank):
            if node == "worker0" or job.name.startswith(("mounts", "size")):
                seen = {"files": {"from-worker0": "written by a job on worker0"}, "lines": {"worker0": 200}}
                return json.dumps(seen) if job.name.startswith("look") else self.says(job, node, rank)
            gone = "[Errno 2] No such file or directory: '/mnt/sharedfs/run'"
            return f"TROUBLE {gone}" if job.name.startswith("write") else json.dumps({"error": gone})

        here = CommandOutput(out=json.dumps({"files": {"from-worker0": "written by a job on worker0"}, "lines": {}}))
        scope = replace(asked, answers={"acceptance-seen": here})
        found = bad(judged(shared_file_system, scope, outputs(shared_file_system, scope, says)))
        assert set(found.values()) == {Verdict.FAILED} and {node for _, node in found} == {"worker1"}

    def test_missing_files_on_submitter_fail(self, asked):
        gone = replace(asked, answers={"acceptance-seen": CommandOutput(out=json.dumps({"error": "[Errno 2] No such file or directory"}))})
        found = bad(judged(shared_file_system, gone, outputs(shared_file_system, gone, self.says)))
        assert found == {("visible_on_submit_hosts", "login0"): Verdict.FAILED}

    def test_missing_folder_gives_reason_and_unknown(self, asked):
        scope = replace(asked, folder=None, error="[Errno 28] No space left on device")
        found = outputs(shared_file_system, scope, self.says)
        with pytest.raises(UndeterminedError, match="No space left"):
            list(shared_file_system.evaluate(scope, found))
        first = next(iter(shared_file_system.evaluate(scope, found)))
        assert (first.check, first.verdict, first.found) == ("directory_created", Verdict.FAILED, scope.error)

    def test_missing_file_system_leaves_checks_unknown(self, scope):
        with pytest.raises(UndeterminedError):
            judged(shared_file_system, replace(scope, mount=None, folder=None), {})


class TestTaskPlacement:
    def test_tasks_on_requested_nodes_pass(self, scope):
        assert not bad(judged(task_placement, scope, outputs(task_placement, scope, lambda *_: "")))

    def test_both_tasks_on_one_node_fail(self, scope):
        found = outputs(task_placement, scope, lambda *_: "")
        pair = found["pair-worker0"]
        found["pair-worker0"] = replace(pair, tasks=tuple(replace(task, host="worker0") for task in pair.tasks))
        assert set(bad(judged(task_placement, scope, found))) == {("two_tasks_on_two_nodes", node) for node in NODES}

    def test_second_task_elsewhere_fails(self, scope):
        found = outputs(task_placement, scope, lambda *_: "")
        two = found["two-worker1"]
        found["two-worker1"] = replace(two, tasks=(two.tasks[0], replace(two.tasks[1], host="worker0")))
        assert bad(judged(task_placement, scope, found)) == {("two_tasks_on_one_node", "worker1"): Verdict.FAILED}

    def test_job_that_never_ran_is_reported(self, scope):
        found = outputs(task_placement, scope, lambda *_: "")
        found["one-worker1"] = replace(found["one-worker1"], tasks=(), error="error: Unable to create step", status=1)
        findings = judged(task_placement, scope, found)
        assert findings["one_task_on_one_node", "worker1"].found == "error: Unable to create step"
        assert bad(findings) == {("one_task_on_one_node", "worker1"): Verdict.FAILED}

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
    def test_rounds_pair_every_node_once(self, scope, count):
        nodes = tuple(f"n{number}" for number in range(count))
        pairs = task_placement._pairs(replace(scope, nodes=nodes, parts=(Part("gpu", nodes),)))
        assert {node for _, both, _ in pairs for node in both} == (set(nodes) if count > 1 else set())
        for number in {number for _, _, number in pairs}:
            at_once = [node for _, both, round_ in pairs for node in both if round_ == number]
            assert len(at_once) == len(set(at_once))

    def test_lone_node_and_busy_neighbours_skip_pairs(self, scope):
        alone = replace(scope, nodes=("worker0",), parts=(Part("gpu", ("worker0",)),))
        findings = judged(task_placement, alone, outputs(task_placement, alone, lambda *_: ""))
        assert findings["two_tasks_on_two_nodes", "worker0"].reason == "node-busy"


class TestGpuAllocation:
    def says(self, job, node, rank, second="4,5,6", listed="good", unasked=None, began=1.0, given="0,1,2"):
        if job.name.startswith("none"):
            return spoken(node, visible=unasked)
        if job.name.startswith("first"):
            return spoken(node, gpus=given, visible="0,1,2")
        if job.name.startswith("second"):
            return spoken(node, gpus=second, visible=second, began=began, ended=began + 1)
        return answered(captured("gpus", listed))

    @pytest.mark.parametrize(
        ("fault", "check", "verdict"),
        [
            ({}, None, None),
            ({"given": "0,1"}, "gets_requested_gpus", Verdict.FAILED),
            ({"second": "2,3,4"}, "gpus_exclusive", Verdict.FAILED),
            ({"began": 9.0}, "gpus_exclusive", Verdict.UNKNOWN),
            ({"listed": "lost"}, "all_gpus_answer", Verdict.FAILED),
            ({"listed": "broken"}, "all_gpus_answer", Verdict.UNKNOWN),
            ({"unasked": "0,1"}, "no_gpu_without_request", Verdict.FAILED),
        ],
    )
    def test_each_fault_fails_its_own_check(self, scope, fault, check, verdict):
        found = bad(judged(gpu_allocation, scope, outputs(gpu_allocation, scope, lambda *what: self.says(*what, **fault))))
        assert found == ({(check, node): verdict for node in NODES} if check else {})

    def test_device_access_is_tested_with_cgroups(self, scope):
        cluster = {
            **scope.declared.cluster,
            "simulated": [],
            "scheduler": {**scope.declared.cluster["scheduler"], "constrains": ["devices"]},
        }
        real = replace(scope, declared=replace(scope.declared, cluster=cluster))
        opened = "".join(f"/dev/nvidia{number}\n" for number in range(8))
        says = lambda job, node, rank: answered(opened) if job.name.startswith("opened") else self.says(job, node, rank)  # noqa: E731
        found = judged(gpu_allocation, real, outputs(gpu_allocation, real, says))
        assert bad(found) == {("other_gpus_inaccessible", node): Verdict.FAILED for node in NODES}
        assert found["other_gpus_inaccessible", "worker0"].found == "8 opened"


class TestInfiniband:
    def port(self, name, state="Active", physical="LinkUp", rate=400, layer="InfiniBand"):
        return (
            f"CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n"
            f"\t\tRate: {rate}\n\t\tSM lid: 1\n\t\tPort GUID: 0x946dae0300f01234\n\t\tLink layer: {layer}\n"
        )

    @pytest.mark.parametrize(
        ("fault", "checks"),
        [
            ({}, set()),
            ({"state": "Initializing"}, {"ports_are_active"}),
            ({"state": "Down", "physical": "Polling"}, {"ports_are_active", "links_are_up"}),
            ({"rate": 200}, {"rate_matches_plan"}),
            ({"layer": "Ethernet"}, {"link_layer_matches_plan"}),
            ({"layer": "IB"}, set()),
        ],
    )
    def test_each_fault_is_reported_on_its_port(self, scope, fault, checks):
        text = self.port("mlx5_0") + self.port("mlx5_1", **fault) + self.port("mlx5_9", state="Down")
        found = bad(judged(infiniband, scope, outputs(infiniband, scope, lambda *_: answered(text))))
        assert set(found) == {(check, node) for check in checks for node in NODES}

    def test_ethernet_fabric_is_queried(self, scope):
        roce = replace(scope, declared=replace(scope.declared, fabric={**FABRIC, "link_layer": "Ethernet"}))
        text = self.port("mlx5_0", layer="Ethernet") + self.port("mlx5_1", layer="Ethernet")
        assert not bad(judged(infiniband, roce, outputs(infiniband, roce, lambda *_: answered(text))))

    def test_missing_adapter_fails_by_name(self, scope):
        found = judged(infiniband, scope, outputs(infiniband, scope, lambda *_: answered(self.port("mlx5_0"))))
        assert found["adapters_match_plan", "worker0"].verdict is Verdict.FAILED
        assert found["ports_are_active", "worker0"].expected == "mlx5_1: Active"

    def test_missing_tool_is_unknown(self, scope):
        found = bad(judged(infiniband, scope, outputs(infiniband, scope, lambda *_: answered("", rc=127))))
        assert set(found.values()) == {Verdict.UNKNOWN} and len(found) == 10

    def test_truncated_text_is_unknown(self, scope):
        text = answered(self.port("mlx5_0") + self.port("mlx5_1"))
        found = bad(judged(infiniband, scope, outputs(infiniband, scope, lambda *_: text[:-20])))
        assert set(found.values()) == {Verdict.UNKNOWN}


def test_task_without_output_leaves_node_unknown(scope):
    found = outputs(gpu_allocation, scope, lambda job, node, rank: None if node == "worker1" else TestGpuAllocation().says(job, node, rank))
    findings = bad(judged(gpu_allocation, scope, found))
    assert {node for _, node in findings} == {"worker1"} and set(findings.values()) == {Verdict.UNKNOWN}


def test_write_error_of_task_is_reported():
    assert failure_of(Task(0, "n", "n", 1, "x\nTROUBLE no space left")) == "no space left"
