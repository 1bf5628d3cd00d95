"""Findings of the smoke phases from written pod outputs, good and bad, without a cluster."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from types import ModuleType

import pytest

from rackwright import inventory
from rackwright.catalog.checks import acceptance
from rackwright.checks.acceptance.phase import Output, Part, PhaseScope, Task
from rackwright.checks.acceptance.phases import gpu_allocation, kubernetes_health, shared_file_system, task_placement
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.errors import UndeterminedError
from rackwright.inventory import Host, paths
from rackwright.inventory.reader import from_inventory
from rackwright.plan import expand
from rackwright.report.verdict import Verdict
from rackwright.stackfile.load import load_stack

from .test_judging import NODES, answered, bad, judged, spoken

FOLDER = "/mnt/sharedfs/kubernetes/research"
ANSWERS = {
    "acceptance-ready": CommandOutput(out="ok"),
    "acceptance-claim": CommandOutput(out=json.dumps({"status": {"phase": "Bound", "capacity": {"storage": "10Gi"}}})),
}
MOUNTED = f"1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 /kubernetes/research {FOLDER} rw,nosuid,nodev - fuse.mfs mfs#storage0:9421 rw\n"


@pytest.fixture
def scope() -> PhaseScope:
    """Return the lab with Kubernetes, idle."""
    plan = expand(load_stack(paths.stack_file("lab-k8s")).cluster, "lab-k8s")
    hosts = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", f"id-{node.name}") for node in plan.nodes}
    return PhaseScope(
        declared=from_inventory(inventory.inventory(plan, hosts)),
        nodes=NODES,
        states=dict.fromkeys(NODES, "idle none"),
        busy=frozenset(),
        run="r",
        submitter="login0",
        user="alice",
        uid=2001,
        mount=FOLDER,
        folder=f"{FOLDER}/run/phase",
        parts=(Part("gpu", NODES),),
        namespace="research",
        max_gpus=12,
        answers=ANSWERS,
    )


def outputs(module: ModuleType, scope: PhaseScope, says, silent=()) -> dict[str, Output]:
    """Return the outputs of every job of a phase; a node of `silent` has no pod, for the reason there."""
    why = dict(silent)
    found = {}
    for job in module.jobs(scope):
        here = [node for node in job.nodes if node not in why]
        tasks = tuple(Task(rank, node, node, 2001, says(job, node)) for rank, node in enumerate(reversed(here)) if says(job, node))
        reasons = {node: why[node] for node in job.nodes if node in why}
        found[job.name] = Output(job, "7", 1 if reasons else 0, "", tasks, "", 1.0, reasons)
    return found


class TestKubernetesHealth:
    def test_healthy_cluster_passes(self, scope):
        assert not bad(judged(kubernetes_health, scope, outputs(kubernetes_health, scope, lambda job, node: spoken(node))))

    @pytest.mark.parametrize(
        ("answers", "named"),
        [
            ({"acceptance-ready": CommandOutput(rc=1, err="connection refused")}, "api_answers"),
            ({"acceptance-ready": CommandOutput(out="[-]etcd failed")}, "api_answers"),
            ({"acceptance-claim": CommandOutput(out='{"status": {"phase": "Pending"}}')}, "claim_is_bound"),
            ({"acceptance-claim": CommandOutput(out='{"status": {"phase": "Bound", "capacity": {"storage": "9Gi"}}}')}, "claim_is_bound"),
        ],
    )
    def test_unready_api_and_changed_claim_fail(self, scope, answers, named):
        asked = replace(scope, answers={**ANSWERS, **answers})
        found = outputs(kubernetes_health, asked, lambda job, node: spoken(node))
        assert set(bad(judged(kubernetes_health, asked, found))) == {(named, "login0")}

    def test_cordoned_unknown_and_jobless_nodes_fail(self, scope):
        states = replace(scope, states={"worker0": "drained cordoned"})
        found = outputs(
            kubernetes_health, states, lambda job, node: spoken(node), {"worker1": "ErrImageNeverPull: rackwright.local/jobs:1"}
        )
        findings = judged(kubernetes_health, states, found)
        assert set(bad(findings)) == {
            ("node_schedulable", "worker0"),
            ("node_schedulable", "worker1"),
            ("job_runs", "worker1"),
            ("job_runs_as_its_user", "worker1"),
        }
        assert "ErrImageNeverPull" in findings["job_runs", "worker1"].found

    def test_other_user_fails(self, scope):
        found = outputs(kubernetes_health, scope, lambda job, node: spoken(node, uid=0 if node == "worker1" else 2001))
        assert set(bad(judged(kubernetes_health, scope, found))) == {("job_runs_as_its_user", "worker1")}


class TestSharedFileSystem:
    def test_unbound_claim_and_other_file_system_fail(self, scope):
        def says(job, node):
            return answered(MOUNTED if node == "worker0" else MOUNTED.replace("fuse.mfs", "ext4")) if "mounts" in job.name else None

        asked = replace(scope, folder=None)
        found = {}
        with contextlib.suppress(UndeterminedError):  # the file system is not writable
            for one in shared_file_system.evaluate(asked, outputs(shared_file_system, asked, says)):
                found[one.check, one.node] = one
        assert found["is_mounted", "worker0"].verdict is Verdict.PASSED
        assert found["is_mounted", "worker1"].verdict is Verdict.FAILED

    def test_pod_waiting_for_claim_fails(self, scope):
        silent = {"worker1": "FailedMount: hostPath type check failed"}
        asked = replace(scope, folder=None)
        found = outputs(shared_file_system, asked, lambda job, node: answered(MOUNTED) if "mounts" in job.name else None, silent)
        finding = next(one for one in shared_file_system.evaluate(asked, found) if (one.check, one.node) == ("is_mounted", "worker1"))
        assert finding.verdict is Verdict.FAILED and "FailedMount" in finding.found


class TestTaskPlacement:
    def test_any_index_may_run_on_any_node(self, scope):
        found = outputs(task_placement, scope, lambda job, node: "x")
        for name in ("two-worker0", "two-worker1"):
            node = name.removeprefix("two-")
            found[name] = replace(found[name], tasks=tuple(Task(rank, node, node, 2001, "x") for rank in (0, 1)))
        assert not bad(judged(task_placement, scope, found))
        both = tuple(Task(rank, "worker0", "worker0", 2001, "x") for rank in (0, 1))
        found["pair-worker0"] = replace(found["pair-worker0"], tasks=both)
        assert set(bad(judged(task_placement, scope, found))) == {("two_tasks_on_two_nodes", node) for node in NODES}
        found["one-worker1"] = replace(found["one-worker1"], tasks=(), missing_output={"worker1": "0/3 nodes are available"})
        findings = judged(task_placement, scope, found)
        assert "0/3 nodes" in findings["one_task_on_one_node", "worker1"].found


class TestGpuAllocation:
    @staticmethod
    def says(job, node):
        """Return three of eight GPUs each; all if all are requested."""
        if job.name.startswith("all-"):
            return answered("".join(f"/dev/nvidia{number}\n" for number in range(8)))
        first = 3 if job.name.startswith("second-") else 0
        given = ",".join(str(first + number) for number in range(job.gpus_per_node))
        return spoken(node, gpus=given, visible=given or None)

    def test_jobs_pass_within_user_quota(self, scope):
        jobs = gpu_allocation.jobs(scope)
        assert all(job.gpus_per_node * len(job.nodes) <= 12 for job in jobs)
        assert not bad(judged(gpu_allocation, scope, outputs(gpu_allocation, scope, self.says)))

    def test_node_lacking_gpu_is_named(self, scope):
        found = outputs(gpu_allocation, scope, self.says)
        name = next(name for name, output in found.items() if name.startswith("all-") and output.job.nodes == ("worker1",))
        found[name] = replace(found[name], tasks=(), missing_output={"worker1": "1 Insufficient nvidia.com/gpu"})
        findings = judged(gpu_allocation, scope, found)
        assert set(bad(findings)) == {("all_gpus_answer", "worker1")} and findings["all_gpus_answer", "worker1"].verdict is Verdict.FAILED

    def test_refused_job_leaves_gpu_checks_unknown(self, scope):
        found = outputs(gpu_allocation, scope, self.says, {"worker1": "FailedCreate: violates PodSecurity"})
        findings = judged(gpu_allocation, scope, found)
        assert {one.verdict for (_, node), one in findings.items() if node == "worker1"} <= {Verdict.UNKNOWN, Verdict.SKIPPED}

    def test_unrequested_missing_and_shared_gpus_fail(self, scope):
        def says(job, node):
            if node == "worker0":
                return self.says(job, node)
            if job.name.startswith("none-"):
                return spoken(node, gpus="0", visible=None)
            if job.name.startswith(("first-", "second-")):
                return spoken(node, gpus="0,1", visible="0,1")
            return self.says(job, node)

        findings = judged(gpu_allocation, scope, outputs(gpu_allocation, scope, says))
        named = {("no_gpu_without_request", "worker1"), ("gets_requested_gpus", "worker1"), ("gpus_exclusive", "worker1")}
        assert set(bad(findings)) == named


def test_remedies_in_pods_name_kubernetes():
    for key, spec in acceptance().items():
        if spec.subject in ("kubernetes_health", "task_placement", "gpu_allocation"):
            assert not {"srun", "scontrol", "slurmd", "gres.conf"} & set(spec.in_pods().remedy.replace("`", " ").split()), key
