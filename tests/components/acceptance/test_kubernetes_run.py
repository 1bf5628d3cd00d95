"""A complete acceptance on Kubernetes against a stand-in for its API: order, verdicts, omissions, interruption."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from support.hang import ENDLESS_SECONDS, HANG_SECONDS, wait_until

from rackwright import inventory
from rackwright.inventory import Host, paths
from rackwright.plan import expand
from rackwright.stackfile.load import load_stack

from .api_standin import Cluster, serving
from .conftest import Bench

SMOKE = ("kubernetes_health", "shared_file_system", "task_placement", "gpu_allocation")
_KUBECTL = """case "$*" in
  *readyz*) printf ok;;
  *persistentvolumeclaim*) echo '{"status": {"phase": "Bound", "capacity": {"storage": "10240Mi"}}}';;
esac"""


class KubernetesBench(Bench):
    """The stack of the lab with Kubernetes, beside the stand-in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        cluster = load_stack(paths.stack_file("lab-k8s")).cluster
        plan = expand(cluster, "lab")
        hosts = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", f"id-{node.name}") for node in plan.nodes}
        text = yaml.safe_dump(inventory.inventory(plan, hosts), sort_keys=False).replace("/mnt/sharedfs", str(self.node.mount))
        (self.home / "inventory.yml").write_text(text)
        self.claim = self.node.mount / "kubernetes" / "research"
        self.claim.mkdir(parents=True)
        self.node._install("kubectl", f"#!/bin/sh\n{_KUBECTL}\n")
        for node in ("worker0", "worker1"):
            line = (self.node.folder / f"mounts-{node}").read_text().replace(str(self.node.mount), str(self.claim))
            self.node.answer(f"mounts-{node}", line)
        nodes = {node.name: (node.address, node.gpus.count if node.gpus else 0) for node in plan.nodes if "worker" in node.roles}
        self.cluster = Cluster(self.node.folder, self.node.tools, nodes, {"pods": "40", "requests.nvidia.com/gpu": "12"})

    def copy_package(self, file: str, edits: Mapping[str, str]) -> None:
        """Run a copy of the package, in which a file has other lines."""
        root = self.node.folder / "copy"
        shutil.copytree(self.package_root, root, ignore=shutil.ignore_patterns("__pycache__"))
        self.package_root = root
        path = root / "rackwright" / file
        text = path.read_text(encoding="utf-8")
        for old, new in edits.items():
            assert text.count(f"\n{old}\n") == 1
            text = text.replace(f"\n{old}\n", f"\n{new}\n")
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesBench]:
    """Yield a bench with everything as planned."""
    made = KubernetesBench(tmp_path)
    with serving(made.cluster) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield made
        made.node.end_processes()


def test_healthy_cluster_passes_within_quota_and_leaves_nothing(bench):
    ended = bench.run("--level", "smoke")
    assert (ended.status, ended.report["verdict"]) == (0, "passed"), [
        one for one in ended.report["checks"] if one["verdict"] in ("failed", "unknown")
    ]
    assert [phase["name"] for phase in ended.report["phases"]][:4] == list(SMOKE)
    assert {name: ended.phase(name)["verdict"] for name in SMOKE} == dict.fromkeys(SMOKE, "passed")
    assert (ended.phase("infiniband")["state"], ended.phase("infiniband")["reason"]) == ("skipped", "not-in-plan")
    assert set(ended.verdicts("gpu_allocation").values()) == {"passed", "skipped"}
    assert 0 < bench.cluster.most <= 12
    assert (bench.cluster.jobs, bench.cluster.pods, bench.cluster.services) == ({}, {}, {})


def test_results_and_programs_are_stored_in_claim(bench):
    ended = bench.run("--phase", "task-placement")
    folder = Path(ended.report["results"])
    assert folder.is_relative_to(bench.claim)
    meta = json.loads((folder / "03-task-placement" / "meta.json").read_text())
    assert meta["versions"]["kubernetes"] == "v1.34.1" and set(meta["versions"]["nodes"]) == {"worker0", "worker1"}
    command = meta["jobs"][0]["command"]
    objects = json.loads((folder / command[-1]).read_text())["items"]
    assert command[:2] == ["kubectl", "create"] and [one["kind"] for one in objects] == ["Job"]
    assert all(job["id"] in bench.cluster.made for job in meta["jobs"])


def test_busy_node_is_skipped_and_cordoned_node_reported(bench):
    theirs = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}], "nodeName": "worker1"}
    bench.cluster.strange = [{"metadata": {"name": "train", "namespace": "other"}, "spec": theirs}]
    ended = bench.run("--level", "smoke")
    assert ended.status == 0
    busy = {check["node"] for check in ended.report["checks"] if check["reason"] == "node-busy"}
    assert busy == {"worker0", "worker1"}  # a check that needs two nodes is skipped on the other node, too
    assert not any("worker1" in name for name in bench.cluster.made)
    bench.cluster.strange, bench.cluster.cordoned = [], {"worker1"}
    ended = bench.run("--phase", "kubernetes-health")
    assert ended.status == 3
    assert ended.verdicts("kubernetes_health")["node_schedulable[worker1]"] == "failed"
    found = next(check for check in ended.report["checks"] if "node_schedulable[worker1]" in check["id"])
    assert found["found"] == "drained cordoned" and "kubectl uncordon worker1" in found["remedy"]


def test_node_with_missing_gpu_is_reported(bench):
    address, _ = bench.cluster.nodes["worker1"]
    bench.cluster.nodes["worker1"] = (address, 7)
    bench.copy_package(
        "remote/programs/kubernetes_jobs.py", {"PLACED = 20": "PLACED = 0.5", "AFTER_A_FAILURE = 10": f"AFTER_A_FAILURE = {HANG_SECONDS}"}
    )
    ended = bench.run("--phase", "gpu-allocation")
    assert ended.status == 1
    wrong = [check for check in ended.report["checks"] if check["verdict"] not in ("passed", "skipped")]
    assert [check["id"] for check in wrong] == ["gpu_allocation.all_gpus_answer[worker1]"]
    assert "Insufficient nvidia.com/gpu" in wrong[0]["found"] and "kubectl describe node worker1" in wrong[0]["remedy"]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_run_removes_its_jobs(bench, ending):
    bench.node._install("stat", f'#!/bin/sh\n[ "$1" = -f ] && exec sleep {ENDLESS_SECONDS}\nexec /usr/bin/stat "$@"\n')
    environment = {**bench.environment, "KUBECONFIG": os.environ["KUBECONFIG"]}
    command = bench.command("--phase", "shared-file-system")
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    wait_until(lambda: any("-size-" in name for name in bench.cluster.jobs))
    child.send_signal(ending)
    child.wait(timeout=HANG_SECONDS)
    wait_until(lambda: not bench.cluster.jobs and not bench.cluster.pods)
    report = json.loads((bench.home / "acceptance.partial.json").read_text())
    assert report["verdict"] == "unknown" and report["totals"]["passed"] == 0


@pytest.mark.parametrize(("more", "words"), [(("--user", "bob"), "belongs to no namespace"), (("--phase", "slurm_health"), "did you mean")])
def test_bad_input_is_reported_and_creates_nothing(bench, more, words):
    ended = bench.run(*more)
    assert ended.status == 2 and words in ended.said and bench.cluster.made == []
