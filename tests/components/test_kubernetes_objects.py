"""A cluster's objects under mocks: equal to those of the role, each a resource of one provider. The plugin itself never ran."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pulumi
import pytest
from kubernetes_schemas import SWAGGER, breaches, file_of
from recording import Recording, built, committed

from rackwright.catalog.kubernetes import lab_releases
from rackwright.inventory import paths
from rackwright.model.scheduler.kubernetes import DEFAULT_VERSION, ObjectApplier
from rackwright.plan import Plan
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.targets import kubernetes, plugins
from rackwright.targets.kubernetes.objects import port, resource_name

OBJECTS = "rackwright:kubernetes:Objects"


def by(applier: ObjectApplier) -> Plan:
    """Return the committed lab with a given applier of its objects."""
    plan = committed("lab-k8s")
    assert isinstance(plan.scheduler, Kubernetes)
    return plan.model_copy(update={"scheduler": plan.scheduler.model_copy(update={"apply_with": applier})})


@cache
def recorded(applier: ObjectApplier = ObjectApplier.PULUMI) -> Recording:
    """Return its registrations."""
    return built(by(applier))


def objects() -> dict[str, dict[str, Any]]:
    """Return the plan's objects by their resource names."""
    cluster = by(ObjectApplier.PULUMI).scheduler
    assert isinstance(cluster, Kubernetes)
    return {resource_name(wanted): dict(wanted) for wanted in cluster.objects}


def ours(recording: Recording) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return every resource of Kubernetes, without its provider."""
    return {name: made for name, made in recording.made.items() if made[0].startswith("kubernetes:")}


def test_role_applies_objects_by_default() -> None:
    assert committed("lab-k8s").scheduler.apply_with is ObjectApplier.ANSIBLE  # type: ignore[union-attr]
    recording = recorded(ObjectApplier.ANSIBLE)
    assert not [
        typ for typ, _ in recording.made.values() if typ in {OBJECTS, "pulumi:providers:kubernetes", "rackwright:kubernetes:ApiTunnel"}
    ]
    assert ours(recording) == {}
    assert recording.asked["verification"].after == {"converge"}


def test_each_planned_object_is_one_equal_resource() -> None:
    """One source: the package's own types convert an object to itself."""
    assert {name: inputs for name, (_, inputs) in ours(recorded()).items()} == objects()


def test_objects_use_kubernetes_types() -> None:
    assert {name: typ for name, (typ, _) in ours(recorded()).items()} == {
        "node/login0": "kubernetes:core/v1:NodePatch",
        "node/worker0": "kubernetes:core/v1:NodePatch",
        "node/worker1": "kubernetes:core/v1:NodePatch",
        "daemonset/kube-system/gpu-device-plugin": "kubernetes:apps/v1:DaemonSet",
        "namespace/research": "kubernetes:core/v1:Namespace",
        "rolebinding/research/users": "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
        "resourcequota/research/quota": "kubernetes:core/v1:ResourceQuota",
        "limitrange/research/defaults": "kubernetes:core/v1:LimitRange",
        "persistentvolume/research-shared": "kubernetes:core/v1:PersistentVolume",
        "persistentvolumeclaim/research/shared": "kubernetes:core/v1:PersistentVolumeClaim",
    }


@pytest.mark.parametrize("name", objects())
def test_object_matches_kubernetes_schemas(name: str) -> None:
    assert breaches(objects()[name]) == []


@pytest.mark.parametrize("release", lab_releases())
def test_every_lab_release_has_its_schemas(release: str) -> None:
    assert SWAGGER.format(release=release) in json.loads(file_of(release).read_text(encoding="utf-8"))["origin"]


def test_default_release_has_its_schemas() -> None:
    assert DEFAULT_VERSION in lab_releases()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"spec": {"hard": {"pods": "40"}, "soft": {}}}, r"\$\.spec: .*soft"),
        ({"spec": {"hard": {"pods": 40}}}, "40 is not of type 'string'"),
        ({"kind": "ResourceQota"}, "there is no schema of v1 ResourceQota"),
    ],
)
def test_schema_detects_wrong_field(change: dict[str, Any], says: str) -> None:
    assert re.search(says, "\n".join(breaches({**objects()["resourcequota/research/quota"], **change})))


@pytest.mark.parametrize("name", objects())
def test_object_fields_exist_in_package(name: str) -> None:
    """The engine would pass on unknown fields, and the plugin would refuse them on a cluster."""
    typ, inputs = ours(recorded())[name]
    _, group, kind = typ.split(":")
    package, version = group.split("/")
    module = import_module(f"pulumi_kubernetes.{package.partition('.')[0]}.{version}")
    assert _unknown(inputs, getattr(module, kind), "$") == []


def _unknown(value: Any, type_: Any, path: str) -> list[str]:
    """Return fields without a getter in the type, at any depth."""
    if isinstance(value, list):
        return [found for one in value for found in _unknown(one, type_, f"{path}[]")]
    getters = {getattr(one.fget, "_pulumi_name", name): one.fget for name, one in vars(type_).items() if isinstance(one, property)}
    if not isinstance(value, dict) or not getters:
        return []
    return [
        found
        for key, one in value.items()
        for found in ([f"{path}.{key}"] if key not in getters else _unknown(one, _inner(getters[key]), f"{path}.{key}"))
    ]


def _inner(getter: Any) -> Any:
    """Return the class inside Output, Optional and Sequence; `object` where there is none, as in maps of labels."""
    text = str(get_type_hints(getter).get("return", ""))
    found = re.search(r"pulumi_kubernetes\.(\w+)\.(\w+)\.outputs\.(\w+)", text)
    if found is None or "Mapping" in text:
        return object
    return getattr(import_module(f"pulumi_kubernetes.{found[1]}.{found[2]}.outputs"), found[3])


def test_package_comparison_detects_unknown_field() -> None:
    module = import_module("pulumi_kubernetes.apps.v1")
    wrong = {"spec": {"template": {"spec": {"nodeSelektor": {}, "nodeSelector": {"a": "b"}}}}}
    assert _unknown(wrong, module.DaemonSet, "$") == ["$.spec.template.spec.nodeSelektor"]


def test_provider_is_own_and_depends_on_converge() -> None:
    """Neither the user's kubeconfig nor a variable of the shell has an effect."""
    recording = recorded()
    assert recording.of("pulumi:providers:kubernetes") == {
        "kubernetes-provider": {
            "kubeconfig": "KUBECONFIG",
            "context": "lab-k8s",
            "cluster": "lab-k8s",
            "clusterIdentifier": "lab-k8s",
            "enableServerSideApply": "true",
            "enablePatchForce": "true",
            "upsertExistingObjects": "true",
            "deleteUnreachable": "false",
            "skipUpdateUnreachable": "false",
        }
    }
    assert recording.of("rackwright:kubernetes:ApiTunnel") == {
        "kubernetes-access": {
            "controller": "login0",
            "through": "login0",
            "endpoint": "10.80.0.16:6443",
            "port": port("lab-k8s"),
            "instance_uid": "life-1",
        }
    }
    assert "converge" in recording.asked["kubernetes-access"].after
    assert "kubernetes-access" in recording.asked["kubernetes-provider"].after
    assert recording.asked["kubernetes-provider"].parent == recording.asked["kubernetes-access"].parent == "kubernetes"


@pytest.mark.parametrize("name", objects())
def test_objects_are_deleted_with_cluster(name: str) -> None:
    asked = recorded().asked[name]
    assert asked.provider.split("::")[-2] == "kubernetes-provider"
    assert asked.parent == "kubernetes" and asked.goes_with == "converge"
    assert asked.ignored == frozenset()


def test_user_data_objects_are_retained() -> None:
    kept = {name for name, asked in recorded().asked.items() if asked.kept}
    assert kept == {"namespace/research", "persistentvolume/research-shared", "persistentvolumeclaim/research/shared"}


def test_objects_depend_on_their_requirements() -> None:
    after = {name: recorded().asked[name].after - {"kubernetes-access"} for name in objects()}
    inside = {name for name in objects() if "/research/" in name}
    assert {name for name, needed in after.items() if "namespace/research" in needed} == inside
    assert after["persistentvolumeclaim/research/shared"] == {"namespace/research", "persistentvolume/research-shared"}
    assert after["namespace/research"] == after["node/worker0"] == frozenset()


def test_verification_depends_on_objects() -> None:
    assert recorded().asked["verification"].after > set(objects())


def test_stacks_have_different_ports() -> None:
    names = [file.name for file in paths.stacks().glob("Pulumi.*.yaml")]
    assert len({port(name) for name in names}) == len(names)
    assert all(20000 <= port(name) < 30000 for name in names)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an engine without the plugin that may not download it."""
    return {"PULUMI_HOME": str(tmp_path), "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true"}


def test_missing_plugin_selects_role_with_warning(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    assert kubernetes.resolve_object_owner(by(ObjectApplier.PULUMI), bare) == by(ObjectApplier.ANSIBLE)
    (line,) = said
    assert (
        "3 Node, 1 DaemonSet, 1 Namespace" in line
        and f"pulumi plugin install resource kubernetes {plugins.required_version('kubernetes')}" in line
    )


def test_missing_plugin_of_applied_objects_is_error(bare: dict[str, str]) -> None:
    """Otherwise, the role would apply them, and the engine would delete the objects that the program no longer declares."""
    paths.prepare("lab-k8s")
    paths.api_tunnel("lab-k8s").write_text("{}")
    with pytest.raises(pulumi.RunError, match="it created the objects of this cluster"):
        kubernetes.resolve_object_owner(by(ObjectApplier.PULUMI), bare)


def test_available_plugin_prints_nothing(bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.log, "warn", pytest.fail)
    assert kubernetes.resolve_object_owner(by(ObjectApplier.ANSIBLE), bare) == by(ObjectApplier.ANSIBLE)
    assert kubernetes.resolve_object_owner(committed("lab"), bare) == committed("lab")
    (tmp_path / "plugins" / f"resource-kubernetes-v{plugins.required_version('kubernetes')}").mkdir(parents=True)
    assert kubernetes.resolve_object_owner(by(ObjectApplier.PULUMI), bare) == by(ObjectApplier.PULUMI)
