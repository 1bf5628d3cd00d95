"""Monitoring in the plan: which targets exist, and what each node is expected to report."""

from __future__ import annotations

from typing import Any

import pytest
from support.monitored import cluster, monitored

from rackwright.plan import Plan, expand


def of_node(plan: Plan, name: str) -> Any:
    assert plan.monitoring is not None
    return next(node for node in plan.monitoring.nodes if node.name == name)


def test_plan_without_monitoring_has_no_trace_of_it() -> None:
    plan = expand(cluster(monitoring=None), "small")
    assert plan.monitoring is None
    assert "monitoring" not in plan.to_data()
    assert not {name for name in plan.groups if name.startswith("monitoring")}


def test_plan_is_read_back() -> None:
    assert Plan.from_data(monitored().to_data()) == monitored()


@pytest.mark.parametrize(("node", "server"), [(None, "login0"), ("storage0", "storage0")])
def test_server_is_first_controller_or_declared_node(node: str | None, server: str) -> None:
    plan = monitored(monitoring={"kind": "builtin", "node": node})
    assert plan.monitoring is not None
    assert plan.monitoring.server == server
    assert plan.groups["monitoring_server"] == (server,)
    assert [one.node for one in plan.monitoring.targets if one.job != "node"] == [server, server]
    assert "prometheus.service" in of_node(plan, server).units


def test_every_node_that_is_in_is_a_target() -> None:
    plan = monitored(nodes={"worker1": {"state": "out", "reason": "bad DIMM", "until": "2026-12-31"}})
    assert plan.monitoring is not None
    names = ["login0", "worker0", "storage0"]
    assert [one.node for one in plan.monitoring.targets if one.job == "node"] == names
    assert [one.name for one in plan.monitoring.nodes] == names
    assert plan.groups["monitoring_node"] == tuple(names)


@pytest.mark.parametrize(
    ("node", "collectors", "units"),
    [
        pytest.param(
            "login0",
            ("units", "slurm", "jobs", "fabric", "storage"),
            {"munge", "slurmctld", "slurmdbd", "mariadb", "prometheus", "prometheus-alertmanager", "rackwright-ibsim", "rackwright-opensm"},
            id="controller",
        ),
        pytest.param("worker0", ("units", "gpu", "ranks", "storage"), {"munge", "slurmd"}, id="worker"),
        pytest.param("storage0", ("units", "storage"), {"moosefs-master", "moosefs-chunkserver"}, id="storage"),
    ],
)
def test_node_is_expected_to_run(node: str, collectors: tuple[str, ...], units: set[str]) -> None:
    found = of_node(monitored(), node)
    assert found.collectors == collectors
    assert {unit.removesuffix(".service") for unit in found.units} == units | {"nftables", "ssh", "prometheus-node-exporter"}
    assert found.mounts == ("/mnt/sharedfs",)


def test_gpus_are_counted_where_they_are() -> None:
    plan = monitored()
    assert (of_node(plan, "worker0").gpus, of_node(plan, "worker0").simulated_gpus) == (8, True)
    assert (of_node(plan, "login0").gpus, of_node(plan, "login0").simulated_gpus) == (0, False)


def test_cluster_without_fabric_and_storage_has_fewer_collectors() -> None:
    plan = monitored(fabric=None, storage={})
    assert {name for node in plan.monitoring.nodes for name in node.collectors} == {"units", "slurm", "gpu", "ranks", "jobs"}  # type: ignore[union-attr]


def test_jobs_are_judged_beside_prometheus_where_slurm_answers() -> None:
    """A storage node has no key of munge: the samples are written, and nothing judges them."""
    plan = monitored(monitoring={"kind": "builtin", "node": "storage0"})
    assert plan.monitoring is not None
    collectors = {node.name: set(node.collectors) & {"ranks", "jobs"} for node in plan.monitoring.nodes}
    assert collectors == {"login0": set(), "worker0": {"ranks"}, "worker1": {"ranks"}, "storage0": set()}


def test_kubernetes_is_read_on_controllers() -> None:
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 1}, "storage": {"count": 1}}
    plan = monitored(scheduler={"kind": "kubernetes"}, groups=groups, fabric=None)
    assert of_node(plan, "login0").collectors == ("units", "kubernetes", "etcd", "storage")
    assert {"kubelet.service", "containerd.service"} <= set(of_node(plan, "worker0").units)
    assert not {"munge.service", "slurmd.service", "slurmctld.service"} & {
        unit for name in groups for unit in of_node(plan, f"{name}0").units
    }
    assert not {"kubelet.service", "keepalived.service"} & set(of_node(plan, "storage0").units)
    assert plan.scheduler.kind == "kubernetes"
    (role,) = [one for one in plan.scheduler.objects if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "rackwright-monitoring"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list"}
    assert "secrets" not in {resource for rule in role["rules"] for resource in rule["resources"]}


KUBERNETES: dict[str, Any] = {
    "scheduler": {"kind": "kubernetes"},
    "groups": {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 2}, "storage": {"count": 1}},
    "fabric": None,
}
EXTERNAL = {"kind": "external", "sources": ["192.0.2.10/32"]}


def roles_of(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    assert plan.scheduler.kind == "kubernetes"
    return {one["metadata"]["name"]: one["rules"] for one in plan.scheduler.objects if one["kind"] == "ClusterRole"}


def test_api_servers_and_kubelets_are_targets() -> None:
    plan = monitored(**KUBERNETES, nodes={"worker1": {"state": "out", "reason": "bad DIMM", "until": "2026-12-31"}})
    assert plan.monitoring is not None
    found = {(one.job, one.node, one.port) for one in plan.monitoring.targets if one.job not in ("node", "prometheus", "alertmanager")}
    kubelets = {(job, node, 10250) for job in ("kubelet", "cadvisor") for node in ("login0", "worker0")}
    assert found == kubelets | {("apiserver", "login0", 6443)}
    assert Plan.from_data(plan.to_data()) == plan


def test_prometheus_may_read_metrics_only() -> None:
    assert roles_of(monitored(**KUBERNETES))["rackwright-prometheus"] == [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]


@pytest.mark.parametrize("monitoring", [EXTERNAL, None], ids=["external", "none"])
def test_cluster_without_own_prometheus_grants_it_nothing(monitoring: dict[str, Any] | None) -> None:
    plan = monitored(**KUBERNETES, monitoring=monitoring)
    assert "rackwright-prometheus" not in roles_of(plan) and "scraped" not in plan.to_data()["scheduler"]
    assert {one.job for one in plan.monitoring.targets} == {"node"} if plan.monitoring else monitoring is None
