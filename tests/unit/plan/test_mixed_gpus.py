"""Nodes with GPUs of several models: the plan, what Slurm gets, the inventory, and what jobs do not measure."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright.catalog.checks import Feature
from rackwright.checks.acceptance.phase import PhaseScope
from rackwright.checks.cluster.probes.smoke import parts
from rackwright.cli.render import plan as rendered_plan
from rackwright.inventory import Host, inventory, schema_errors
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.plan import Plan, expand
from rackwright.plan.schema import NodeGpu
from rackwright.plan.slurm.schema import Slurm
from rackwright.stackfile.load import load_cluster

MIXED = {"model": "a100-pcie", "count": 3, "others": [{"model": "t4", "devices": [1]}]}
UNIFORM = {"model": "a100-pcie", "count": 3}


def planned(gpus: dict[str, Any], count: int = 1, **more: Any) -> Plan:
    """Return the plan of machines with these GPUs in each worker."""
    names = ["login0", *(f"worker{index}" for index in range(count))]
    machines = {name: {"address": f"192.0.2.{10 + index}", "host_key": "ssh-ed25519 AAAA"} for index, name in enumerate(names)}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "ubuntu-24.04", "user": "root", "machines": machines},
            "network": {"cidr": "192.0.2.0/24"},
            "access": {"allowed_cidrs": ["198.51.100.0/24"]},
            "groups": {
                "login": {"count": 1, "roles": ["login", "controller"], "cpus": 8, "memory": "16GiB"},
                "worker": {"count": count, "cpus": 32, "memory": "128GiB", "gpus": gpus},
            },
            **more,
        },
        "rack",
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "rack")


def written(plan: Plan) -> dict[str, Any]:
    """Return the inventory of a plan."""
    return inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", "life-1") for node in plan.nodes})


def read(plan: Plan) -> Inventory:
    """Return the inventory of a plan, as checks read it."""
    assert schema_errors(written(plan)) == []
    return from_inventory(written(plan))


def gpus_of(plan: Plan, name: str = "worker0") -> NodeGpu:
    """Return the GPUs of a node."""
    found = next(node.gpus for node in plan.nodes if node.name == name)
    assert found is not None
    return found


def gres_of(plan: Plan) -> list[tuple[str, int, int | None]]:
    """Return the GPUs that Slurm allocates on the first worker."""
    assert isinstance(plan.scheduler, Slurm)
    return [(one.type, one.gpu, one.instance) for one in plan.scheduler.nodes[0].gres]


def test_slurm_gets_each_device_file_with_its_model() -> None:
    plan = planned(MIXED)
    assert isinstance(plan.scheduler, Slurm)
    node = plan.scheduler.nodes[0]
    assert gres_of(plan) == [("a100-pcie", 0, None), ("t4", 1, None), ("a100-pcie", 2, None)]
    assert (node.gpus, node.gpu_type, node.gpu_vendor) == (3, None, "nvidia")


def test_plan_has_product_and_memory_of_each_model() -> None:
    gpus = gpus_of(planned(MIXED))
    assert (gpus.count, gpus.product, gpus.memory_mib) == (3, "NVIDIA A100 80GB PCIe", 81920)
    assert [one.model_dump() for one in gpus.others] == [{"model": "t4", "product": "Tesla T4", "memory_mib": 15360, "devices": (1,)}]


@given(count=st.integers(1, 16), data=st.data())
@settings(max_examples=30, deadline=None)
def test_each_device_file_has_one_model(count: int, data: st.DataObject) -> None:
    """Whatever devices are declared for other models, Slurm gets every device file once, and as many of each model as are declared."""
    models = data.draw(st.lists(st.sampled_from(["a100-pcie", "t4", "l4"]), min_size=count, max_size=count))
    main = models[0]
    others = [{"model": name, "devices": [n for n in range(count) if models[n] == name]} for name in dict.fromkeys(models) if name != main]
    plan = planned({"model": main, "count": count, "others": others})
    found = gres_of(plan) or [(main, device, None) for device in range(count)]
    assert [(type_, device) for type_, device, _ in found] == [(model, device) for device, model in enumerate(models)]
    assert gpus_of(plan).models == tuple(models) and Counter(gpus_of(plan).models) == Counter(models)


def test_nodes_of_one_model_have_records_without_other_models() -> None:
    """Inventories and plans of stacks that are up stay as they were."""
    for gpus in (UNIFORM, {**UNIFORM, "others": []}):
        plan = planned(gpus)
        assert "others" not in plan.model_dump(mode="json")["nodes"][1]["gpus"]
        assert "gpu_mixed" not in plan.groups and gres_of(plan) == []
        assert "others" not in written(plan)["all"]["hosts"]["worker0"]["node"]["gpus"]


def test_override_of_one_node() -> None:
    plan = planned(
        MIXED, 3, nodes={"worker1": {"gpus": {"others": []}}, "worker2": {"gpus": {"others": [{"model": "l4", "devices": [0, 2]}]}}}
    )
    assert [gpus_of(plan, f"worker{index}").models for index in range(3)] == [
        ("a100-pcie", "t4", "a100-pcie"),
        ("a100-pcie", "a100-pcie", "a100-pcie"),
        ("l4", "a100-pcie", "l4"),
    ]
    assert plan.groups["gpu_mixed"] == ("worker0", "worker2") and plan.groups["gpu_whole"] == ("worker1",)


def test_jobs_do_not_measure_gpus_of_several_models() -> None:
    """Programs use all GPUs of a node, and thresholds are those of one model: such a node is in no part with GPUs."""
    declared = read(planned(MIXED))
    assert Feature.GPUS in declared.features
    assert not {Feature.WHOLE_GPUS, Feature.SHARED_GPUS, Feature.MIG} & declared.features
    assert declared.members("gpu") == declared.members("gpu_mixed") == ("worker0",) and declared.members("gpu_whole") == ()
    sender = type("Sender", (), {"node": declared.nodes["login0"], "declared": declared})()
    assert [(one["nodes"], one["first"], one["second"]) for one in parts(sender)] == [(["worker0"], 0, 0)]
    scope = object.__new__(PhaseScope)
    object.__setattr__(scope, "declared", declared)
    assert scope.gpus("worker0") == 0
    object.__setattr__(scope, "declared", read(planned(UNIFORM)))
    assert scope.gpus("worker0") == 3


def test_other_nodes_are_measured() -> None:
    plan = planned(MIXED, 2, nodes={"worker1": {"gpus": {"others": []}}})
    assert {Feature.WHOLE_GPUS, Feature.SHARED_GPUS} <= read(plan).features


@pytest.mark.parametrize(
    ("other", "flavour"), [("t4", "open"), ("v100-pcie", "proprietary"), ("p100-pcie", "proprietary")], ids=["turing", "volta", "pascal"]
)
def test_kernel_modules_are_those_that_serve_all_gpus(other: str, flavour: str) -> None:
    assert gpus_of(planned({**MIXED, "others": [{"model": other, "devices": [2]}]})).modules == flavour


def test_table_of_nodes_lists_each_model() -> None:
    text = rendered_plan.text(planned(MIXED))
    assert "2 x a100-pcie, 1 x t4" in text and "3 GPUs" in text
    assert "3 x a100-pcie" in rendered_plan.text(planned(UNIFORM))
