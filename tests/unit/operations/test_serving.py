"""A serving run: the submitting node is replaced by a simulated Deployment, whose pods are ready at once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.training_runs import disturbed, judged

from rackwright.cli.render.demo import serving_text
from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import Host, inventory, paths
from rackwright.operations.demo import serving_run
from rackwright.operations.demo.autoscaling import QueueScaler
from rackwright.operations.demo.serving import ServingOptions, serve
from rackwright.operations.demo.training import TrainingOptions
from rackwright.operations.stack import load_plan
from rackwright.report.schemas import schema_errors

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"
FOLDER = "/mnt/sharedfs/kubernetes/research/training/train-20261128T120000Z-abcd"
CHECKPOINTS = ["step-00000120", "step-00000096", "step-00000072"]


@cache
def inventory_text(stack: str) -> str:
    """Return the inventory of a committed stack, as `up` writes it."""
    plan = load_plan(stack, lambda _finding: None)
    return yaml.safe_dump(inventory(plan, {node.name: Host(node.name, node.address, KEY, "1") for node in plan.nodes}))


class Cluster:
    """The Deployment, its load, and what was asked. A replica has a queue of all clients beyond eight."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.program, self.now, self.replicas, self.clients = "serving_pods", 0.0, 1, 0
        self.stage, self.checkpoint, self.ends, self.failure = "", "", False, ""
        self.kept = list(CHECKPOINTS)
        self.lines: list[dict[str, Any]] = []
        self.lost, self.interrupts, self.load_phase, self.stuck = "", "", "Running", ""
        self.left: list[str] = []
        self.without_image = ""
        self.scaled: dict[str, Any] = {}
        """The ScaledObject of the run, by which the cluster scales it; empty without."""

    async def run_as_user(self, _stack: str, program: str, request: dict[str, Any], node: str, user: str, **_: Any) -> dict[str, Any]:
        """Answer a request."""
        assert (program, node, user) == (self.program, "login0", "alice")
        self.asked.append(request)
        if request["action"] == self.failure:
            return {"error": "the server has asked for the client to provide credentials"}
        return dict(getattr(self, request["action"])(request), error="")

    async def run_on_nodes(self, _stack: str, program: str, requests: dict[str, Any], sudo: dict[str, bool], **_: Any) -> Any:
        """Answer whether nodes have the image."""
        assert program == "node_images"
        return {name: {"present": name != self.without_image, "images": 9, "error": ""} for name in requests}, {}

    def checkpoints(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the checkpoints of the training run on record."""
        assert request["folders"] == [f"{FOLDER}/checkpoints"]
        return {"found": request["folders"][0], "checkpoints": self.kept}

    def begin(self, request: dict[str, Any]) -> dict[str, Any]:
        """Create the Deployment."""
        deployment = next(one for one in request["objects"] if one["kind"] == "Deployment")
        (server,) = deployment["spec"]["template"]["spec"]["containers"]
        self.environment({one["name"]: one["value"] for one in server["env"]})
        self.scaled = next((one for one in request["objects"] if one["kind"] == "ScaledObject"), {})
        return {"created": request["needed_mib"] < 1000, "free_mib": 999}

    def environment(self, variables: dict[str, str]) -> None:
        """Replace the pods."""
        self.checkpoint = f"{variables['CHECKPOINT'].rpartition('/')[2]}/{variables['REVISION']}"

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        """Create a revision."""
        self.environment(request["environment"])
        return {}

    def scale(self, request: dict[str, Any]) -> dict[str, Any]:
        """Set the replicas."""
        self.replicas = request["replicas"]
        return {}

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Change the load; each stage sends one request, which may be lost."""
        found = request["load"]
        self.stage, self.clients, self.ends = found["stage"], found["clients"], found.get("ends", False)
        self.lines.append({"event": "stage", "stage": self.stage, "clients": self.clients, "time": 1000 + self.now})
        if self.clients:
            outcome = {"tokens": 24, "refused": 1, "fingerprint": self.checkpoint, "lost": self.lost if self.stage == "scale-down" else ""}
            self.lines.append({"event": "request", "stage": self.stage, "time": 1000 + self.now, "seconds": 0.5, "first": 0.1, **outcome})
        if self.ends:
            self.lines.append({"event": "end", "time": 1001 + self.now})
        return {}

    def observe(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Return the state, ten seconds later."""
        if self.stage and self.stage == self.interrupts:
            raise KeyboardInterrupt
        self.now += 10
        if self.scaled and self.stage:
            self.replicas = self.scaled["spec"]["maxReplicaCount"] if self.clients > 8 else self.scaled["spec"]["minReplicaCount"]
        waiting = max(0, self.clients // self.replicas - 8)
        facts = {"device": "CPU", "torch": "2.6.0", "blas": "openblas", "checkpoint": self.checkpoint}
        pod = {"node": "worker0", "ready": True, "ending": False, "restarts": 0, "reason": "", "waiting": waiting, "running": 8}
        lines, self.lines = self.lines, []
        return {
            "now": 1000 + self.now,
            "replicas": self.replicas,
            "is_rolled_out": self.stage != self.stuck or not self.stage,
            "pods": [{"name": f"server-{number}", "facts": facts, **pod} for number in range(self.replicas)],
            "load": {"phase": self.load_phase, "reason": "", "is_hopeless": False},
            "lines": lines,
            "offsets": {"events-load.jsonl": 1},
        }

    def cancel(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Delete everything."""
        return {"left": self.left}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack like lab-k8s-train that is up and has trained."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    paths.prepare("lab-k8s-train")
    paths.inventory("lab-k8s-train").write_text(inventory_text("lab-k8s-train"))
    trained = paths.demos("lab-k8s-train") / "train-20261128T120000Z-abcd.json"
    trained.parent.mkdir(mode=0o700)
    trained.write_text(json.dumps({**judged(disturbed(), None), "folder": FOLDER}))
    found = Cluster()

    async def reach(_stack: str, _nodes: Any, **_: Any) -> dict[str, str]:
        """Reach all nodes."""
        return {}

    monkeypatch.setattr(remote_exec, "run_as_user", found.run_as_user)
    monkeypatch.setattr(remote_exec, "run_on_nodes", found.run_on_nodes)
    monkeypatch.setattr(ssh_connections, "connect_all", reach)
    monkeypatch.setattr(serving_run, "POLL", 0.001)
    monkeypatch.setattr(serving_run, "_LONGEST", 60)
    monkeypatch.setattr(serving_run, "_DELETED", 0.05)
    return found


def run(cluster: Cluster) -> dict[str, Any]:
    """Serve; return the document."""

    async def ignore(_text: str) -> None:
        """Show nothing."""

    document = serve("lab-k8s-train", ServingOptions(), ignore, cluster.said.append)
    assert schema_errors("serve", document) == []
    return document


def test_run_goes_through_all_stages(cluster: Cluster) -> None:
    document = run(cluster)
    assert document["verdict"] == {"result": "passed", "reason": "none of 4 requests was lost"}
    assert [(one["name"], one["reached"]) for one in document["stages"]] == [
        ("steady", True),
        ("scale-up", True),
        ("rolling-update", True),
        ("scale-down", True),
    ]
    assert [(one["stage"], one["from"], one["to"]) for one in document["scalings"]] == [("scale-up", 1, 2), ("scale-down", 2, 1)]
    assert document["settings"]["checkpoints"] == ["step-00000096", "step-00000120"]
    assert document["stages"][1]["served_by"] == {"step-00000096/revision-1": 1}
    assert document["evidence"][0] == "CPU, PyTorch 2.6.0" and "simulated: gpu" in document["evidence"]
    recorded = json.loads((paths.demos("lab-k8s-train") / f"{document['run']}.json").read_text())
    assert recorded == document


def test_objects_are_deleted_at_end(cluster: Cluster) -> None:
    run(cluster)
    kinds = {one["kind"] for one in cluster.asked[-1]["objects"]}
    assert cluster.asked[-1]["action"] == "cancel"
    assert kinds == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Pod"}


def with_keda(**network: Any) -> None:
    """Add KEDA to the stack; `network`: changes of its network."""
    described = yaml.safe_load(inventory_text("lab-k8s-train"))
    scheduler = described["all"]["vars"]["cluster"]["scheduler"]
    keda = {"name": "keda", "version": "2.21.0", "image": "x", "namespace": "keda", "deployment": "keda-operator"}
    scheduler["addons"] = [*(scheduler.get("addons") or ()), keda]
    scheduler["network"] |= network
    paths.inventory("lab-k8s-train").write_text(yaml.safe_dump(described))


def test_keda_scales_the_server_of_a_stack_that_has_it(cluster: Cluster) -> None:
    with_keda()
    document = run(cluster)
    assert document["verdict"]["result"] == "passed" and "scale" not in {one["action"] for one in cluster.asked}
    assert [(one["stage"], one["from"], one["to"]) for one in document["scalings"]] == [("scale-up", 1, 2), ("scale-down", 2, 1)]
    assert document["settings"]["autoscaler"] == "KEDA 2.21.0: HPA on the sum of vllm:num_requests_waiting, read by its metrics-api scaler"
    trigger = cluster.scaled["spec"]["triggers"][0]["metadata"]
    name = cluster.scaled["metadata"]["name"]
    assert trigger["url"] == f"http://{name}.research.svc:8000/metrics" and trigger["targetValue"] == "4"
    deleted = cluster.asked[-1]
    # The last object is deleted first.
    assert deleted["action"] == "cancel" and deleted["objects"][-1] == {"kind": "ScaledObject", "metadata": {"name": name}}


@pytest.mark.parametrize("enforces", [False, True])
def test_keda_is_admitted_where_the_network_denies_it(cluster: Cluster, enforces: bool) -> None:
    with_keda(enforces_network_policy=enforces)
    run(cluster)
    created = next(one for one in cluster.asked if one["action"] == "begin")["objects"]
    policies = [one["spec"] for one in created if one["kind"] == "NetworkPolicy"]
    assert bool(policies) is enforces
    for policy in policies:
        source = policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]
        assert source == {"kubernetes.io/metadata.name": "keda"} and policy["podSelector"]["matchLabels"]["rackwright/role"] == "server"


def test_interrupted_run_names_the_scaled_object_first(cluster: Cluster) -> None:
    with_keda()
    cluster.interrupts, cluster.left = "scale-up", ["server-1"]
    with pytest.raises(UndeterminedError) as stopped:
        run(cluster)
    assert "delete scaledobject,deployment," in str(stopped.value.hint)


def test_lost_request_fails_run(cluster: Cluster) -> None:
    cluster.lost = "ConnectionResetError: reset"
    document = run(cluster)
    assert document["verdict"] == {"result": "failed", "reason": "1 of 4 requests were lost"}
    assert [(one["stage"], one["lost"]) for one in document["lost"]] == [("scale-down", cluster.lost)]
    assert "lost in scale-down: ConnectionResetError: reset" in serving_text(document)


def test_stage_without_goal_ends_run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_run, "_LONGEST", 0.3)
    cluster.stuck = "rolling-update"
    document = run(cluster)
    assert document["verdict"]["reason"] == "the run did not reach its end"
    assert "stage rolling-update: its goal was not reached" in document["error"] and len(document["stages"]) == 3
    assert cluster.asked[-1]["action"] == "cancel"


def test_ended_load_fails_run(cluster: Cluster) -> None:
    cluster.load_phase = "Failed"
    document = run(cluster)
    assert document["error"] == "stage start: the pod that sends requests does not run: it ended"
    assert document["verdict"]["result"] == "failed" and document["totals"]["sent"] == 0


@pytest.mark.parametrize("action", ["checkpoints", "begin", "load", "observe"])
def test_request_without_answer_is_undetermined(cluster: Cluster, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_run, "_SILENT", 0.01)
    cluster.failure = action
    with pytest.raises(UndeterminedError, match="asked for the client to provide credentials"):
        run(cluster)
    assert action == "checkpoints" or cluster.asked[-1]["action"] == "cancel"


@pytest.mark.parametrize("left", [[], ["server-1"]])
def test_interrupted_run_says_what_is_left(cluster: Cluster, left: list[str]) -> None:
    cluster.interrupts, cluster.left = "scale-up", left
    with pytest.raises(UndeterminedError) as stopped:
        run(cluster)
    assert "interrupted in stage scale-up" in str(stopped.value)
    assert ("server-1" in str(stopped.value)) == ("kubectl -n research delete" in stopped.value.hint) == bool(left)


def test_one_checkpoint_is_served_in_two_revisions(cluster: Cluster) -> None:
    cluster.kept = CHECKPOINTS[:1]
    document = run(cluster)
    served = {who for stage in document["stages"] for who in stage["served_by"]}
    assert served == {"step-00000120/revision-1", "step-00000120/revision-2"}


def test_worker_without_image_is_named(cluster: Cluster) -> None:
    cluster.without_image = "worker1"
    with pytest.raises(InputError, match=r"worker1 has 9 images, and not \S+/training:"):
        run(cluster)
    assert [one["action"] for one in cluster.asked] == ["checkpoints"], "nothing was created"


def test_full_file_system_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "begin", lambda _request: {"created": False, "free_mib": 3})
    with pytest.raises(InputError, match=r"3 MiB are free on /mnt/sharedfs \(expected 192 MiB"):
        run(cluster)


def test_stack_without_model_names_train(cluster: Cluster) -> None:
    cluster.kept = []
    with pytest.raises(InputError) as refused:
        run(cluster)
    assert refused.value.hint == "run train first: `rackwright demo lab-k8s-train train`"
    (paths.demos("lab-k8s-train") / "train-20261128T120000Z-abcd.json").unlink()
    with pytest.raises(InputError, match="no training run is on record"):
        run(cluster)


def test_slurm_is_refused(cluster: Cluster) -> None:
    paths.prepare("lab-train")
    paths.inventory("lab-train").write_text(inventory_text("lab-train"))

    async def ignore(_text: str) -> None:
        """Show nothing."""

    with pytest.raises(InputError, match="on Kubernetes only"):
        serve("lab-train", ServingOptions(), ignore, cluster.said.append)


def test_option_of_training_is_refused() -> None:
    with pytest.raises(InputError, match="is an option of train or finetune") as refused:
        ServingOptions.of(None, steps=10, mode=None)
    assert refused.value.hint == "run serve without --steps"
    assert ServingOptions.of(50, steps=None).clients == 50 and TrainingOptions().steps == 200


def scaler() -> QueueScaler:
    return QueueScaler(least=1, most=4, target=4, window=30)


@pytest.mark.parametrize(
    ("current", "waiting", "wanted"),
    [
        (1, [4], 1),
        (1, [9], 3),
        (1, [40], 4),
        (2, [4, 4], 2),
        (3, [4, 4, 5], 3),  # within the tolerance
        (2, [12, 0], 3),
        (2, [None, None], 2),
        (2, [12, None], 3),  # the pod without metrics counts as 0
        (2, [5, None], 2),  # 5 + 0 for two pods would turn the direction
        (1, [], 1),
    ],
)
def test_replicas_follow_formula_of_hpa(current: int, waiting: list[int | None], wanted: int) -> None:
    assert scaler().replicas(0, current, waiting) == wanted


def test_replica_is_removed_after_window() -> None:
    found = scaler()
    assert [found.replicas(0, 1, [8]), found.replicas(10, 2, [0, 0]), found.replicas(29, 2, [0, 0]), found.replicas(31, 2, [0, 0])] == [
        2,
        2,
        2,
        1,
    ]
