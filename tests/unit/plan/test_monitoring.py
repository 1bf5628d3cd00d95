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
            ("units", "slurm", "fabric", "storage"),
            {"munge", "slurmctld", "slurmdbd", "mariadb", "prometheus", "prometheus-alertmanager", "rackwright-ibsim", "rackwright-opensm"},
            id="controller",
        ),
        pytest.param("worker0", ("units", "gpu", "storage"), {"munge", "slurmd"}, id="worker"),
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
    assert {name for node in plan.monitoring.nodes for name in node.collectors} == {"units", "slurm", "gpu"}  # type: ignore[union-attr]


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
