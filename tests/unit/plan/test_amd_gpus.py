"""GPUs of AMD in the plan: groups, what Slurm gets, and features by which checks apply; nodes with GPUs of NVIDIA beside them."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.catalog.checks import Feature, Kind, Level, acceptance, checks
from rackwright.checks.hardware.collection import probes_of
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.inventory import Host, inventory, schema_errors
from rackwright.inventory.reader import Inventory, from_inventory
from rackwright.plan import Plan, expand
from rackwright.plan.slurm.schema import Slurm
from rackwright.report.check_plan import plan_checks
from rackwright.report.hardware.compare import planned as planned_parts
from rackwright.report.hardware.facts import Part
from rackwright.stackfile.load import load_cluster

ROCM = {"rocm": {"version": "7.0.2"}}


def planned(groups: dict[str, Any], software: dict[str, Any] | None = ROCM) -> Plan:
    """Return the plan of machines with these groups of workers."""
    names = ["login0", *(f"{name}{index}" for name, group in groups.items() for index in range(group["count"]))]
    machines = {name: {"address": f"192.0.2.{10 + index}", "host_key": "ssh-ed25519 AAAA"} for index, name in enumerate(names)}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "ubuntu-24.04", "user": "root", "machines": machines},
            "network": {"cidr": "192.0.2.0/24"},
            "access": {"allowed_cidrs": ["198.51.100.0/24"]},
            "groups": {
                "login": {"count": 1, "roles": ["login", "controller"], "cpus": 8, "memory": "16GiB"},
                **{name: {"roles": ["worker"], "cpus": 96, "memory": "512GiB", **group} for name, group in groups.items()},
            },
            "users": {"alice": {"uid": 2001}},
            **({"software": software} if software is not None else {}),
        },
        "rack",
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "rack")


def read(plan: Plan) -> Inventory:
    """Return the inventory of a plan, as checks read it."""
    written = inventory(plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", "life-1") for node in plan.nodes})
    assert schema_errors(written) == []
    return from_inventory(written)


AMD_ONLY = {"worker": {"count": 2, "gpus": {"model": "mi300x", "count": 8}}}
BOTH = {**AMD_ONLY, "old": {"count": 1, "gpus": {"model": "h100", "count": 8}}}


def test_plan_states_vendor_of_gpus() -> None:
    plan = planned(BOTH)
    assert {node.name: node.gpus.vendor for node in plan.nodes if node.gpus} == {"worker0": "amd", "worker1": "amd", "old0": "nvidia"}
    worker = next(node.gpus for node in plan.nodes if node.name == "worker0")
    assert worker is not None and (worker.driver, worker.modules, worker.product) == (None, None, "AMD Instinct MI300X")


def test_groups_are_by_vendor() -> None:
    groups = planned(BOTH).groups
    assert groups["amd_gpu"] == groups["amd_xgmi"] == groups["amd_software"] == ("worker0", "worker1")
    assert groups["gpu"] == groups["gpu_whole"] == groups["gpu_software"] == groups["nvswitch"] == ("old0",)


def test_machines_with_own_rocm_get_no_role() -> None:
    for software in (None, {}, {"tools": ["fio"]}):
        plan = planned(AMD_ONLY, software)
        assert plan.groups["amd_gpu"] and not plan.groups["amd_software"] and not plan.groups["gpu_software"]
        assert Feature.ROCM not in read(plan).features


def test_software_is_rocm_with_its_driver() -> None:
    software = planned(AMD_ONLY).software
    assert software is not None and software.rocm is not None
    assert software.rocm.model_dump() == {"version": "7.0.2", "driver": "30.10.2", "driver_package": "*.30100200-*"}
    assert dict(software.package_sets) == {}


def test_slurm_gets_vendor_and_type() -> None:
    scheduler = planned(BOTH).scheduler
    assert isinstance(scheduler, Slurm)
    found = [(node.name, node.gpus, node.gpu_type, node.gpu_vendor) for node in scheduler.nodes]
    assert found == [("worker0", 8, "mi300x", "amd"), ("worker1", 8, "mi300x", "amd"), ("old0", 8, "h100", "nvidia")]


NVIDIA_FEATURES = {Feature.GPUS, Feature.WHOLE_GPUS, Feature.SHARED_GPUS, Feature.GPU_SOFTWARE, Feature.DCGM, Feature.NVSWITCH}
NVIDIA_SUBJECTS = ("gpu", "software", "neuron")


def test_checks_of_nvidia_do_not_apply() -> None:
    declared = read(planned(AMD_ONLY))
    assert NVIDIA_FEATURES.isdisjoint(declared.features)
    assert {Feature.AMD_GPUS, Feature.AMD_XGMI, Feature.ROCM} <= declared.features
    plan = plan_checks(declared, checks(), Level.FULL)
    assert plan.empty_groups == {}
    assert {item.spec.subject for item in plan.expected.values()}.isdisjoint(NVIDIA_SUBJECTS)
    assert {item.node for item in plan.expected.values() if item.spec.subject == "amd_gpu"} == {"worker0", "worker1"}


def test_checks_apply_by_vendor_in_a_mixed_cluster() -> None:
    plan = plan_checks(read(planned(BOTH)), checks(), Level.FULL)
    assert plan.empty_groups == {}
    assert {item.node for item in plan.expected.values() if item.spec.subject == "amd_gpu"} == {"worker0", "worker1"}
    assert {item.node for item in plan.expected.values() if item.spec.subject in NVIDIA_SUBJECTS} == {"old0"}


@pytest.mark.parametrize("catalogue", [checks, acceptance])
def test_report_states_why_jobs_measure_no_gpu(catalogue: Any) -> None:
    plan = plan_checks(read(planned(AMD_ONLY)), catalogue(), Level.FULL)
    details = {item.detail for item in plan.not_run if Feature.WHOLE_GPUS in catalogue()[item.id].needs}
    assert details == {"its programs use CUDA, and the plan's GPUs are those of AMD"}
    about_gpus = [item.spec.key for item in plan.expected.values() if item.spec.kind is Kind.JOB and "gpu" in item.spec.name]
    assert about_gpus == []


@pytest.mark.parametrize(("model", "count", "groups"), [("mi210", 4, 0), ("mi250x", 8, 0), ("mi300a", 4, 1), ("mi300x", 1, 0)])
def test_links_are_checked_where_gpus_have_some(model: str, count: int, groups: int) -> None:
    plan = planned({"worker": {"count": 1, "gpus": {"model": model, "count": count}}})
    assert len(plan.groups["amd_xgmi"]) == groups
    assert (Feature.AMD_XGMI in read(plan).features) == bool(groups)


def test_hardware_report_expects_gpus_that_it_reads() -> None:
    declared = read(planned(BOTH))
    assert planned_parts(declared, "worker0")["gpus"] is None
    assert planned_parts(declared, "old0")["gpus"]["count"] == 8
    assert HARDWARE_PROBES[Part.GPUS] not in probes_of(declared, "worker0", tuple(Part))
    assert HARDWARE_PROBES[Part.GPUS] in probes_of(declared, "old0", tuple(Part))
