"""Jobs on Kubernetes: the objects of a phase's job, its run to the end, and the programs of its pods."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS

from rackwright.checks.acceptance.harness import kubernetes
from rackwright.checks.acceptance.harness.kubernetes import Kubernetes, name_of
from rackwright.checks.acceptance.phase import Job, Program
from rackwright.remote.programs import kubernetes_jobs, kubernetes_nodes

from .api_standin import Cluster, serving

HELLO = Program("hello.py", '"""Says hello."""\nimport os\nprint("hello from", os.environ["NODE_NAME"], os.environ["RANK"])\n')
NODES = {"worker0": ("10.0.0.10", 8), "worker1": ("10.0.0.11", 8)}
RUN = "20261123T080000Z-abcd"
PHASE = "03-task-placement"


@pytest.fixture
def launcher() -> Kubernetes:
    """Return a launcher for a namespace with a claim and two workers, one of them with a taint of the plan."""
    nodes = [{"name": name, "taints": ["gpu=yes:NoSchedule"] if name == "worker1" else []} for name in NODES]
    declared: Any = SimpleNamespace(
        cluster={"scheduler": {"kind": "kubernetes", "jobs": "rackwright.local/jobs:1", "nodes": nodes}},
        nodes={name: {"address": address} for name, (address, _) in NODES.items()},
    )
    return Kubernetes(declared, "research", "/mnt/fs/kubernetes/research", 2001, 100)


def objects(launcher: Kubernetes, job: Job) -> dict[str, Any]:
    """Return the objects of a job, by kind."""
    return {one["kind"]: one for one in launcher.request(job, RUN, PHASE)["objects"]}


def pod(launcher: Kubernetes, job: Job) -> dict[str, Any]:
    """Return the spec of its pods."""
    return objects(launcher, job)["Job"]["spec"]["template"]["spec"]


class TestRequest:
    def test_pod_satisfies_restricted_security_level(self, launcher):
        """kubernetes.io/docs/concepts/security/pod-security-standards, Restricted."""
        spec = pod(launcher, Job("a", ("worker0",), HELLO))
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 2001,
            "runAsGroup": 100,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert not spec["automountServiceAccountToken"] and not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not any("hostPath" in volume for volume in spec["volumes"])

    def test_pods_share_one_node_or_spread_evenly(self, launcher):
        one, two = pod(launcher, Job("a", ("worker0",), HELLO)), pod(launcher, Job("b", ("worker0", "worker1"), HELLO))
        assert one["nodeSelector"] == {"kubernetes.io/hostname": "worker0"} and "affinity" not in one and one["tolerations"] == []
        assert two["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "DoNotSchedule" and "nodeSelector" not in two
        assert two["tolerations"] == [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]

    def test_tasks_share_pod_when_job_uses_whole_nodes(self, launcher):
        two = objects(launcher, Job("a", ("worker0",), HELLO, tasks_per_node=2))["Job"]["spec"]
        assert (two["completions"], two["parallelism"], two["completionMode"]) == (2, 2, "Indexed")
        job = Job("b", ("worker0", "worker1"), HELLO, tasks_per_node=8, gpus_per_node=8, whole_nodes=True)
        request = launcher.request(job, RUN, PHASE)
        spec = request["objects"][-1]["spec"]
        assert (spec["completions"], request["labelled"]) == (2, True)
        assert request["wants"] == {"pods": 2, "requests.nvidia.com/gpu": 16}
        container = spec["template"]["spec"]["containers"][0]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
        told = {one["name"]: one.get("value") for one in container["env"]}
        assert (told["WORLD_SIZE"], told["LOCAL_WORLD_SIZE"]) == ("16", "8")

    def test_communicating_pods_have_service_before_readiness(self, launcher):
        job = Job("train", ("worker0", "worker1"), HELLO, tasks_per_node=8, gpus_per_node=8, whole_nodes=True)
        made = objects(launcher, job)
        service, spec = made["Service"], made["Job"]["spec"]["template"]["spec"]
        name = made["Job"]["metadata"]["name"]
        assert service["spec"] == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}}
        told = {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}
        assert (spec["subdomain"], told["MASTER_ADDR"], told["MASTER_PORT"]) == (name, f"{name}-0.{name}", "29500")
        assert "Service" not in objects(launcher, Job("a", ("worker0", "worker1"), HELLO))

    def test_only_shared_job_mounts_claim(self, launcher):
        with_it, without = (pod(launcher, Job("a", ("worker0",), HELLO, shared=shared)) for shared in (True, False))
        assert with_it["containers"][0]["volumeMounts"] == [{"name": "shared", "mountPath": "/mnt/fs/kubernetes/research"}]
        assert without["volumes"] == []

    def test_kubernetes_removes_jobs_of_killed_run(self, launcher):
        spec = objects(launcher, Job("a", ("worker0",), HELLO, limit_s=60))["Job"]["spec"]
        assert spec["activeDeadlineSeconds"] == 150 and spec["ttlSecondsAfterFinished"] == 300 and spec["backoffLimitPerIndex"] == 0

    @pytest.mark.parametrize("name", ["a", "together-gpu-with-a-long-name-of-its-own", "together-gpu-with-a-long-name-of-its-owm"])
    def test_job_name_fits_pod_name_limit(self, name):
        found = name_of(Job(name, ("worker0",), HELLO), RUN, PHASE)
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]*[a-z0-9]", found) and len(found) + len("-1000-abcde") <= 63

    def test_shortened_job_names_stay_unique(self):
        long = [f"together-gpu-with-a-long-name-of-its-own-{number}" for number in range(3)]
        assert len({name_of(Job(name, ("worker0",), HELLO), RUN, PHASE) for name in long}) == 3


class TestOutput:
    def test_output_maps_addresses_and_joins_long_lines(self, launcher):
        head = {"RANK": 0, "LOCAL_RANK": 0, "node": "worker0", "host": "10.0.0.11", "uid": 2001, "job": "accept-x"}
        out = f"0: rackwright-task {json.dumps(head)}\n0: {'x' * 1024}\n0: y\n"
        came = {
            "out": out,
            "err": "0: Traceback\n0: ValueError: no",
            "status": 1,
            "began": 1.0,
            "ended": 2.0,
            "silent": {"worker1": "no room"},
        }
        told = launcher.output(Job("a", ("worker0",), HELLO), came)
        assert (told.tasks[0].host, told.tasks[0].out, told.id) == ("worker1", "x" * 1024 + "\ny", "accept-x")
        assert (told.error, told.missing_reason("worker1"), told.missing_reason("worker0")) == (
            "ValueError: no",
            "no room",
            "ValueError: no",
        )


@pytest.fixture
def side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Yield the programs as the nodes start them, a stand-in for the API, and an event that ends the run."""
    (tmp_path / "tools").mkdir()
    there = Cluster(tmp_path, tmp_path / "tools", dict(NODES), {"requests.nvidia.com/gpu": "12"})
    jobs = kubernetes_jobs
    jobs.api.cache_clear()
    monkeypatch.setattr(jobs, "ROOM", jobs.Room())
    monkeypatch.setattr(jobs, "made", set())
    monkeypatch.setattr(jobs, "PLACED", 0.3)
    monkeypatch.setattr(jobs, "MOUNTED", 0.3)
    monkeypatch.setattr(jobs, "AFTER_A_FAILURE", HANG_SECONDS)
    monkeypatch.setattr(jobs, "LOOK_EVERY", 0.05)
    with serving(there) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield SimpleNamespace(jobs=jobs, nodes=kubernetes_nodes, there=there, gone=threading.Event())
    jobs.api.cache_clear()


def ran(side: SimpleNamespace, launcher: Kubernetes, job: Job) -> Any:
    """Run a job to its end; return its `Output`."""
    request = launcher.request(job, RUN, PHASE)
    side.jobs.begin([request])
    return launcher.output(job, {"began": 0.0, "ended": 1.0, **side.jobs.run(request, side.gone)})


class TestSide:
    def test_job_is_run_read_and_removed(self, side, launcher):
        told = ran(side, launcher, Job("a", ("worker0", "worker1"), HELLO))
        assert told.status == 0 and {task.host for task in told.tasks} == set(NODES)
        assert {task.out for task in told.tasks} == {f"hello from {task.node} {task.rank}" for task in told.tasks}
        assert side.there.jobs == {} == side.there.pods

    def test_failed_program_reports_its_last_error(self, side, launcher):
        told = ran(side, launcher, Job("a", ("worker0",), Program("dies.py", "raise ValueError('the disk is full')\n")))
        assert (told.status, told.error) == (1, "ValueError: the disk is full")

    def test_unschedulable_and_unmounted_pods_report_their_nodes(self, side, launcher):
        side.there.nodes["worker1"] = ("10.0.0.11", 3)
        told = ran(side, launcher, Job("a", ("worker0", "worker1"), HELLO, gpus_per_node=4))
        assert set(told.missing_output) == {"worker1"} and "Insufficient nvidia.com/gpu" in told.missing_reason("worker1")
        side.there.unmounted.add("worker0")
        told = ran(side, launcher, Job("b", ("worker0", "worker1"), HELLO, shared=True))
        assert set(told.missing_output) == {"worker0"} and "FailedMount" in told.missing_reason("worker0")
        assert [task.node for task in told.tasks] == ["worker1"]

    def test_job_over_quota_is_not_created_or_blocking(self, side, launcher):
        big = Job("big", ("worker0", "worker1"), HELLO, gpus_per_node=8)
        requests = [launcher.request(job, RUN, PHASE) for job in (big, Job("small", ("worker0",), HELLO, gpus_per_node=8))]
        side.jobs.begin(requests)
        found = []
        threads = [threading.Thread(target=lambda one=one: found.append(side.jobs.run(one, side.gone))) for one in reversed(requests)]
        [one.start() for one in threads]
        [one.join(HANG_SECONDS) for one in threads]
        assert sorted(one["status"] for one in found) == [0, 1]
        assert "12 are left, the job needs 16" in "".join(one["err"] for one in found)
        assert not any("big" in name for name in side.there.made)

    def test_mpi_over_several_pods_is_refused_with_reason(self, side, launcher):
        told = ran(side, launcher, Job("all-reduce", ("worker0", "worker1"), HELLO, gpus_per_node=1, mpi=True))
        assert told.status == 1 and "MPI operator" in told.error and side.there.made == []
        assert ran(side, launcher, Job("all-reduce", ("worker0",), HELLO, gpus_per_node=1, mpi=True)).status == 0

    def test_jobs_of_round_wait_for_quota(self, side, launcher):
        jobs = [Job(f"j{number}", (f"worker{number % 2}",), HELLO, gpus_per_node=5) for number in range(4)]
        requests = [launcher.request(job, RUN, PHASE) for job in jobs]
        side.jobs.begin(requests)
        threads = [threading.Thread(target=side.jobs.run, args=(one, side.gone)) for one in requests]
        [one.start() for one in threads]
        [one.join(HANG_SECONDS) for one in threads]
        came = [name.rpartition("-")[2] for name in side.there.made]  # two at a time, in any order
        assert (set(came[:2]), set(came[2:])) == ({"j0", "j1"}, {"j2", "j3"}) and side.there.most <= 12

    def test_interrupted_run_leaves_nothing(self, side, launcher):
        request = launcher.request(
            Job("a", ("worker0",), Program("sleeps.py", f"import time\ntime.sleep({ENDLESS_SECONDS})\n")), RUN, PHASE
        )
        side.jobs.begin([request])
        thread = threading.Thread(target=side.jobs.run, args=(request, side.gone))
        thread.start()
        side.gone.set()
        thread.join(HANG_SECONDS)
        side.jobs.end()
        assert side.there.jobs == {} == side.there.pods

    def test_invalid_kubeconfig_is_reported(self, side, tmp_path, monkeypatch):
        (tmp_path / "empty").write_text("server: https://127.0.0.1\n")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "empty"))
        with pytest.raises(RuntimeError, match="empty: holds no"):
            side.jobs.api()


class TestNodes:
    READY = {"conditions": [{"type": "Ready", "status": "True"}]}

    @pytest.mark.parametrize(
        ("spec", "status", "planned", "found"),
        [
            ({}, READY, [], "idle none"),
            ({"unschedulable": True}, READY, [], "drained cordoned"),
            ({}, {"conditions": [{"type": "Ready", "status": "False", "message": "PLEG"}]}, [], "down not ready: PLEG"),
            ({}, {}, [], "down not ready: its kubelet posts no status"),
            ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, READY, [], "drained tainted a:NoSchedule"),
            ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, READY, ["a=:NoSchedule"], "idle none"),
            ({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, READY, [], "idle none"),
        ],
    )
    def test_node_state(self, side, spec, status, planned, found):
        assert side.nodes.state({"metadata": {"name": "n"}, "spec": spec, "status": status}, planned, []) == found

    @pytest.mark.parametrize(
        ("labels", "gpus", "found"),
        [({}, "1", "allocated GPUs of other/p"), ({"rackwright-accept": "r"}, "1", "completing none"), ({}, "0", "idle none")],
    )
    def test_node_state_names_owner_of_gpus(self, side, labels, gpus, found):
        container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        there = {"metadata": {"name": "p", "namespace": "other", "labels": labels}, "spec": {"nodeName": "n", "containers": [container]}}
        assert side.nodes.state({"metadata": {"name": "n"}, "spec": {}, "status": self.READY}, [], [there]) == found


def test_output_separates_tasks_of_shared_pod(launcher, tmp_path):
    """One pod, three tasks, as with three GPUs; if one of them fails, the pod fails."""
    text = 'import os, sys\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\nsys.exit(os.environ["RANK"] == "4")\n'
    told = {"JOB_COMPLETION_INDEX": "1", "LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "6", "JOB_ID": "j", "NODE_NAME": "worker1"}
    command = [sys.executable, "-I", "-c", launcher.sent(Program("x.py", text)), "a b"]
    ended = subprocess.run(
        command, env={**os.environ, **told, "HOST_ADDRESS": "10.0.0.11"}, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert ended.returncode == 1
    found = launcher.output(Job("j", ("worker1",), HELLO), {"out": ended.stdout, "err": "", "status": 1, "began": 0, "ended": 1})
    assert [(task.rank, task.host, task.out) for task in found.tasks] == [(rank, "worker1", f"rank {rank} of 6") for rank in (3, 4, 5)]


def test_docstring_examples_pass():
    assert not doctest.testmod(kubernetes).failed
