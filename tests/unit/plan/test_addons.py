"""Addons of a plan: which, from what image, and the queues that follow from its namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.inventory import paths
from rackwright.plan import Plan, expand
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.stackfile.load import load_cluster
from rackwright.workloads import render
from rackwright.yaml_loader import load_yaml

KUEUE = "kueue.x-k8s.io/v1beta2"


def planned(**changes: Any) -> Plan:
    """The committed lab with addons, its scheduler changed."""
    described = load_yaml(paths.stack_file("lab-k8s-addons").read_text())["config"]["rackwright:cluster"]
    described["scheduler"] |= changes
    cluster = load_cluster(described, "lab-k8s-addons").cluster
    assert cluster is not None
    return expand(cluster, "lab-k8s-addons")


def scheduler(**changes: Any) -> Kubernetes:
    found = planned(**changes).scheduler
    assert isinstance(found, Kubernetes)
    return found


def queues(cluster: Kubernetes) -> dict[str, dict[str, Any]]:
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in cluster.objects if one["apiVersion"] == KUEUE}


def test_they_come_in_the_order_in_which_one_knows_the_other() -> None:
    """Kueue looks for the kinds that it queues: JobSet's and Trainer's must be there by then. The order of the list does not matter."""
    planned = ["jobset", "trainer", "training-operator", "leaderworkerset", "dra-example-driver", "kueue", "metrics-server"]
    planned += ["metallb", "keda"]
    for listed in (planned[::-1], [*planned[3:], *planned[:3]]):
        assert [one.name for one in scheduler(addons=listed).addons] == planned


def test_each_has_the_image_of_its_part() -> None:
    assert all(one.image.startswith(f"rackwright.local/{one.name}:{one.version}-") for one in scheduler().addons)


def test_each_has_the_objects_that_run_it() -> None:
    both = {"dra-example-driver": ["daemon_set"], "metallb": ["deployment", "daemon_set"]}
    both["keda"] = ["deployment", "metrics_deployment"]
    for one in scheduler().addons:
        assert [key for key in ("deployment", "daemon_set", "metrics_deployment") if key in one.model_dump()] == both.get(
            one.name, ["deployment"]
        )


def balancers(cluster: Kubernetes) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in cluster.objects if one["apiVersion"] == "metallb.io/v1beta1"}


@pytest.mark.parametrize(
    ("declared", "ranges"),
    [([], ["10.83.0.12-10.83.0.15"]), (["10.83.0.4/31", "10.83.0.9"], ["10.83.0.4-10.83.0.5", "10.83.0.9-10.83.0.9"])],
    ids=["default", "declared"],
)
def test_metallb_announces_one_pool_of_the_addresses(declared: list[str], ranges: list[str]) -> None:
    cluster = scheduler(addons=["metallb"], load_balancer_addresses=declared)
    found = balancers(cluster)
    assert list(cluster.load_balancer_addresses) == found["IPAddressPool"]["spec"]["addresses"] == ranges
    assert found["L2Advertisement"]["spec"]["ipAddressPools"] == [found["IPAddressPool"]["metadata"]["name"]]
    assert {one["metadata"]["labels"]["app.kubernetes.io/managed-by"] for one in found.values()} == {"rackwright"}


def test_without_metallb_no_address_is_assigned() -> None:
    cluster = scheduler(addons=["jobset"])
    assert balancers(cluster) == {} and "load_balancer_addresses" not in cluster.model_dump()


def test_pool_that_is_printed_is_the_one_that_is_applied() -> None:
    plan = planned(addons=["metallb"], load_balancer_addresses=["10.83.0.4/31"])
    assert [one["spec"] for one in render(plan, "metallb")] == [one["spec"] for one in balancers(plan.scheduler).values()]  # type: ignore[arg-type]


def test_without_kueue_there_are_no_queues() -> None:
    assert queues(scheduler(addons=["jobset"])) == {} and scheduler(addons=[]).addons == ()


def test_the_queues_are_those_that_are_printed_and_ours_to_take_away() -> None:
    """One source: what is printed for a foreign Kueue lacks the label by which roles delete."""
    applied = [one for one in planned().scheduler.objects if one["apiVersion"] == KUEUE]  # type: ignore[union-attr]
    assert all(one["metadata"].pop("labels") == {"app.kubernetes.io/managed-by": "rackwright"} for one in applied)
    assert applied == list(render(planned(), "queues"))


def test_they_come_after_the_namespaces_that_they_are_for() -> None:
    kinds = [one["kind"] for one in scheduler().objects]
    assert kinds.index("LocalQueue") > max(place for place, kind in enumerate(kinds) if kind == "Namespace")


@pytest.mark.parametrize(
    ("namespaces", "gpus"),
    [
        ({"research": {"gpus": 12}, "vision": {}}, {"research": 12, "vision": 0, "spare": 4}),
        ({"research": {"gpus": 16}}, {"research": 16}),
        ({"research": {"gpus": 16}, "vision": {"gpus": 8}}, {"research": 16, "vision": 8}),
        ({"vision": {}}, {"vision": 0, "spare": 16}),
    ],
    ids=["some-spare", "none-spare", "more-than-there-are", "all-spare"],
)
def test_every_gpu_is_owned_once(namespaces: dict[str, Any], gpus: dict[str, int]) -> None:
    found = {
        name.partition("/")[2]: one for name, one in queues(scheduler(namespaces=namespaces)).items() if name.startswith("ClusterQueue/")
    }
    shares = {name: one["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] for name, one in found.items()}
    assert {name: int(share["nominalQuota"]) for name, share in shares.items()} == gpus
    assert {name for name, share in shares.items() if share.get("borrowingLimit") == "0"} == {
        name for name, one in namespaces.items() if "gpus" in one
    }
