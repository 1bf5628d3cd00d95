"""k8s_addons: what it installs, waits for, refuses and takes away, against a stand-in for the official client and its server."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from ansible_collections.rackwright.cluster.plugins.modules import k8s_addons as addons

LABEL = {"rackwright.addon/name": "kueue"}
KUEUE = {"name": "kueue", "namespace": "kueue-system", "deployment": "manager"}


class NotFoundError(Exception):
    """As the client's."""


class ResourceNotFoundError(Exception):
    """As the client's."""


class DynamicApiError(Exception):
    """As the client's."""


class Answer:
    """As the client's."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def to_dict(self) -> Any:
        return copy.deepcopy(self.found)


class Cluster:
    """Objects in the order in which they came; what `holds` is named keeps being there after it is deleted."""

    def __init__(self) -> None:
        self.live: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.applied: list[str] = []
        self.patched: list[dict[str, Any]] = []
        self.holds: set[str] = set()
        self.unknown: set[str] = set()
        self.serves = True
        self.resources = SimpleNamespace(get=self.kind)

    def kind(self, api_version: str, kind: str) -> Kind:
        if kind in self.unknown:
            raise ResourceNotFoundError(kind)
        return Kind(self, kind)

    def put(self, kind: str, name: str, labels: dict[str, str] | None = None, **more: Any) -> None:
        metadata = {"name": name, "labels": LABEL if labels is None else labels, **more.pop("metadata", {})}
        self.live.append({"kind": kind, "metadata": metadata, **more})

    def patch(self, kind: Kind, body: dict[str, Any], name: str, **asked: Any) -> Answer:
        if "merge-patch" in asked["content_type"]:
            self.patched.append(body)
            return Answer(body)
        self.applied.append(f"{body['kind']} {name}")
        made = {**copy.deepcopy(body), "metadata": {**body["metadata"], "generation": 1}}
        if body["kind"] == "Deployment":
            there = 1 if self.serves else 0
            made["status"] = {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": there}
        if ("dryRun", "All") not in asked["query_params"]:
            self.live = [one for one in self.live if (one["kind"], one["metadata"]["name"]) != (body["kind"], name)] + [made]
        return Answer(made)


class Kind:
    """One of its kinds."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster, self.kind = cluster, kind

    def get(self, name: str = "", namespace: str | None = None, label_selector: str = "") -> Answer:
        found = [one for one in self.cluster.live if one["kind"] == self.kind]
        if name:
            found = [one for one in found if one["metadata"]["name"] == name]
            if not found:
                raise NotFoundError(name)
            return Answer(found[0])
        return Answer({"items": [one for one in found if not label_selector or label_selector in one["metadata"].get("labels", {})]})

    def delete(self, name: str, namespace: str | None) -> None:
        self.cluster.deleted.append(f"{self.kind} {name}")
        for one in [one for one in self.cluster.live if (one["kind"], one["metadata"]["name"]) == (self.kind, name)]:
            if name in self.cluster.holds:
                one["metadata"]["deletionTimestamp"] = "now"
            else:
                self.cluster.live.remove(one)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The stand-in, in the place of python3-kubernetes; each look at the clock is a second."""
    made = Cluster()
    names = ("kubernetes", "kubernetes.config", "kubernetes.dynamic", "kubernetes.dynamic.exceptions", "kubernetes.client")
    parts: dict[str, Any] = {name: ModuleType(name) for name in names}
    parts["kubernetes.config"].load_kube_config = lambda config_file: None
    parts["kubernetes.dynamic"].DynamicClient = lambda client: made
    parts["kubernetes.client"].api_client = SimpleNamespace(ApiClient=lambda: None)
    for error in (NotFoundError, ResourceNotFoundError, DynamicApiError):
        setattr(parts["kubernetes.dynamic.exceptions"], error.__name__, error)
    parts["kubernetes"].config, parts["kubernetes"].dynamic = parts["kubernetes.config"], parts["kubernetes.dynamic"]
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.setattr("time.monotonic", iter(range(10**6)).__next__)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return made


DEFINITION = {"group": "kueue.x-k8s.io", "names": {"kind": "Workload"}, "versions": [{"name": "v1beta2", "storage": True}]}


def described(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": LABEL}, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A part as it lies on a controller, its objects in an order in which they cannot be applied."""
    objects = [
        described("MutatingWebhookConfiguration", "hooks"),
        described("Deployment", "manager", spec={"replicas": 1}),
        described("CustomResourceDefinition", "workloads", spec=DEFINITION),
        described("Namespace", "kueue-system"),
    ]
    (tmp_path / "kueue").mkdir()
    (tmp_path / "kueue" / "manifests.yaml").write_text(yaml.safe_dump_all(objects))
    return tmp_path


def asked(state: str, folder: Path, *wanted: dict[str, str]) -> dict[str, Any]:
    return {"state": state, "addons": list(wanted), "folder": str(folder), "timeout": 5}


class TestInstalled:
    def test_in_the_order_in_which_one_needs_the_other(self, run: Any, cluster: Cluster, folder: Path) -> None:
        told = run(addons, asked("present", folder, KUEUE))
        order = ["Namespace kueue-system", "CustomResourceDefinition workloads", "Deployment manager", "MutatingWebhookConfiguration hooks"]
        assert not told["failed"] and told["changed"] and told["applied"] == order

    def test_again_is_no_change(self, run: Any, cluster: Cluster, folder: Path) -> None:
        run(addons, asked("present", folder, KUEUE))
        assert not run(addons, asked("present", folder, KUEUE))["changed"]

    def test_check_mode_waits_for_nothing(self, run: Any, cluster: Cluster, folder: Path) -> None:
        told = run(addons, asked("present", folder, KUEUE), check=True)
        assert told["changed"] and not told["failed"] and cluster.live == []

    def test_one_that_does_not_serve_is_told(self, run: Any, cluster: Cluster, folder: Path) -> None:
        cluster.serves = False
        told = run(addons, asked("present", folder, KUEUE))
        assert told["failed"] and "kueue: after 5 s Deployment manager has 0 of 1 available" in told["msg"]

    @pytest.mark.parametrize(("available", "failed"), [(3, False), (2, True)])
    def test_a_daemon_set_runs_on_every_node(self, run: Any, cluster: Cluster, folder: Path, available: int, failed: bool) -> None:
        status = {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": available}
        plugin = described("DaemonSet", "plugin", status=status)
        (folder / "kueue" / "manifests.yaml").write_text(yaml.safe_dump(plugin))
        told = run(addons, asked("present", folder, KUEUE))
        assert told["failed"] is failed and ("DaemonSet plugin has 2 of 3 available" in told.get("msg", "")) is failed

    def test_without_its_files_it_says_which(self, run: Any, cluster: Cluster, tmp_path: Path) -> None:
        told = run(addons, asked("present", tmp_path, KUEUE))
        assert told["failed"] and told["msg"].startswith(f"{tmp_path}/kueue/manifests.yaml: not found")


class TestTakenAway:
    @pytest.fixture
    def there(self, cluster: Cluster) -> Cluster:
        for kind, name in (("MutatingWebhookConfiguration", "hooks"), ("Deployment", "manager"), ("ClusterRole", "rights")):
            cluster.put(kind, name)
        cluster.put("CustomResourceDefinition", "workloads", spec=DEFINITION)
        cluster.put("Namespace", "kueue-system")
        cluster.put("ClusterRole", "theirs", labels={})
        return cluster

    def workload(self, cluster: Cluster, name: str, over: bool) -> None:
        owner = {"ownerReferences": [{"kind": "Job", "name": f"job-{name}"}], "namespace": "research"}
        condition = {"type": "Finished", "status": "True" if over else "False"}
        cluster.put("Workload", name, labels={}, metadata=owner, status={"conditions": [condition]})

    def test_hooks_first_and_definitions_last(self, run: Any, there: Cluster, folder: Path) -> None:
        told = run(addons, asked("absent", folder))
        assert told["removed"] == [
            *("MutatingWebhookConfiguration hooks", "Deployment manager", "ClusterRole rights"),
            *("CustomResourceDefinition workloads", "Namespace kueue-system"),
        ]
        assert [one["metadata"]["name"] for one in there.live] == ["theirs"]

    def test_check_mode_only_tells(self, run: Any, there: Cluster, folder: Path) -> None:
        told = run(addons, asked("absent", folder), check=True)
        assert len(told["removed"]) == 5 and told["changed"] and there.deleted == []

    def test_unfinished_work_is_named_before_anything_happens(self, run: Any, there: Cluster, folder: Path) -> None:
        self.workload(there, "a", over=True)
        self.workload(there, "b", over=False)
        for state in ("removable", "present"):
            told = run(addons, asked(state, folder))
            assert told["failed"] and "unfinished work: Job research/job-b - wait" in told["msg"] and there.deleted == []

    def test_question_whether_addons_can_be_removed_changes_nothing(self, run: Any, there: Cluster, folder: Path) -> None:
        self.workload(there, "a", over=True)
        told = run(addons, asked("removable", folder, KUEUE))
        assert not told["failed"] and not told["changed"] and there.applied == there.deleted == []

    def test_a_group_of_pods_serves_until_it_is_deleted(self, run: Any, cluster: Cluster, folder: Path) -> None:
        cluster.put("Deployment", "manager", labels={"rackwright.addon/name": "leaderworkerset"})
        served = {"conditions": [{"type": "Available", "status": "True"}]}
        cluster.put("LeaderWorkerSet", "vllm", labels={}, metadata={"namespace": "research"}, status=served)
        told = run(addons, asked("present", folder))
        assert told["failed"] and "unfinished work: LeaderWorkerSet research/vllm" in told["msg"] and cluster.deleted == []

    @pytest.mark.parametrize("kind", ["ScaledObject", "ScaledJob"])
    def test_a_scaled_object_is_work_as_long_as_it_exists(self, run: Any, cluster: Cluster, folder: Path, kind: str) -> None:
        cluster.put("Deployment", "keda-operator", labels={"rackwright.addon/name": "keda"})
        ready = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Active", "status": "False"}]}
        cluster.put(kind, "vllm", labels={}, metadata={"namespace": "research"}, status=ready)
        told = run(addons, asked("removable", folder))
        assert told["failed"] and f"unfinished work: {kind} research/vllm" in told["msg"] and cluster.deleted == []

    def test_the_metrics_of_keda_end_before_its_operator(self, run: Any, cluster: Cluster, folder: Path) -> None:
        """While the API has no backend, discovery of all kinds fails."""
        for kind in ("Namespace", "ClusterRole", "Deployment", "APIService"):
            cluster.put(kind, "x", labels={"rackwright.addon/name": "keda"})
        assert run(addons, asked("absent", folder))["removed"] == ["APIService x", "Deployment x", "ClusterRole x", "Namespace x"]

    @pytest.mark.parametrize(("condition", "refused"), [("Running", True), ("Succeeded", False), ("Failed", False)])
    def test_a_training_job_is_work_until_it_ends(self, run: Any, cluster: Cluster, folder: Path, condition: str, refused: bool) -> None:
        cluster.put("Deployment", "manager", labels={"rackwright.addon/name": "training-operator"})
        status = {"conditions": [{"type": "Created", "status": "True"}, {"type": condition, "status": "True"}]}
        cluster.put("PyTorchJob", "train", labels={}, metadata={"namespace": "research"}, status=status)
        told = run(addons, asked("present", folder))
        assert told["failed"] is refused and ("unfinished work: PyTorchJob research/train" in told.get("msg", "")) is refused

    @pytest.mark.parametrize(("driver", "refused"), [("gpu.example.com", True), ("gpu.nvidia.com", False)])
    def test_a_claim_of_its_devices_is_work(self, run: Any, cluster: Cluster, folder: Path, driver: str, refused: bool) -> None:
        cluster.put("DaemonSet", "plugin", labels={"rackwright.addon/name": "dra-example-driver"})
        status = {"allocation": {"devices": {"results": [{"driver": driver, "device": "gpu-0"}]}}}
        owner = {"ownerReferences": [{"kind": "Pod", "name": "train-0"}], "namespace": "research"}
        cluster.put("ResourceClaim", "train-0-device", labels={}, metadata=owner, status=status)
        told = run(addons, asked("present", folder))
        assert told["failed"] is refused and ("unfinished work: Pod research/train-0" in told.get("msg", "")) is refused

    @pytest.mark.parametrize(
        ("annotations", "ingress", "refused"),
        [
            ({"metallb.io/ip-allocated-from-pool": "cluster"}, [{"ip": "10.83.0.12"}], True),
            ({"metallb.io/ip-allocated-from-pool": "cluster"}, [], False),
            ({}, [{"ip": "10.83.0.200"}], False),
        ],
        ids=["of-the-addon", "not-assigned", "of-another"],
    )
    def test_a_service_with_an_address_of_it_is_work(
        self, run: Any, cluster: Cluster, folder: Path, annotations: dict[str, str], ingress: list[dict[str, str]], refused: bool
    ) -> None:
        cluster.put("Deployment", "controller", labels={"rackwright.addon/name": "metallb"})
        metadata = {"namespace": "research", "annotations": annotations}
        cluster.put("Service", "vllm", labels={}, metadata=metadata, status={"loadBalancer": {"ingress": ingress}})
        told = run(addons, asked("removable", folder))
        assert told["failed"] is refused and ("unfinished work: Service research/vllm" in told.get("msg", "")) is refused
        assert cluster.deleted == []

    def test_an_addon_of_daemon_sets_is_taken_away(self, run: Any, cluster: Cluster, folder: Path) -> None:
        for kind in ("DeviceClass", "DaemonSet", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole"):
            cluster.put(kind, "x", labels={"rackwright.addon/name": "dra-example-driver"})
        told = run(addons, asked("absent", folder))
        order = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "DeviceClass", "DaemonSet", "ClusterRole")
        assert told["removed"] == [f"{kind} x" for kind in order]

    def test_what_it_made_itself_goes_with_it(self, run: Any, there: Cluster, folder: Path) -> None:
        self.workload(there, "a", over=True)
        told = run(addons, asked("absent", folder))
        assert "Workload research/a" in told["removed"] and "CustomResourceDefinition workloads" in told["removed"]

    def test_what_is_not_let_go_is_told(self, run: Any, there: Cluster, folder: Path) -> None:
        self.workload(there, "a", over=True)
        there.holds = {"a"}
        told = run(addons, asked("absent", folder))
        assert told["failed"] and "still present 5 s after deletion: Workload research/a" in told["msg"]
        assert "Deployment manager" not in there.deleted  # who alone can let it go is still there

    def test_a_definition_stays_with_what_people_made(self, run: Any, there: Cluster, folder: Path) -> None:
        spec = {"group": "kueue.x-k8s.io", "names": {"kind": "ClusterQueue"}, "versions": [{"name": "v1beta2", "storage": True}]}
        there.put("CustomResourceDefinition", "clusterqueues", spec=spec)
        there.put("ClusterQueue", "own", labels={})
        told = run(addons, asked("absent", folder))
        assert told["kept"] == ["clusterqueues (1: ClusterQueue /own)"] and not told["failed"]
        assert there.patched[0]["spec"]["conversion"] == {"strategy": "None", "webhook": None}

    def test_a_wanted_one_loses_what_it_no_longer_says(self, run: Any, there: Cluster, folder: Path) -> None:
        told = run(addons, asked("absent", folder, KUEUE))
        assert told["removed"] == ["ClusterRole rights"]

    def test_a_cluster_that_never_had_any(self, run: Any, cluster: Cluster, folder: Path) -> None:
        cluster.unknown = {"Workload", "JobSet"}
        for state in ("present", "absent"):
            told = run(addons, asked(state, folder))
            assert not told["changed"] and not told["failed"]
