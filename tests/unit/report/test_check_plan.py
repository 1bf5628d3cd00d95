"""The results that a run owes."""

from __future__ import annotations

import copy

import pytest
from support.rows import each_row

from rackwright.catalog.checks import Kind, Level, checks
from rackwright.inventory.reader import from_inventory
from rackwright.report.check_plan import Kinds, plan_checks
from rackwright.report.verdict import Evidence, NotRunReason


def test_check_is_owed_per_node_of_group(check_plan):
    assert {id_ for id_ in check_plan.expected if id_.startswith("gpu.count_")} == {
        "gpu.count_matches_plan[worker0]",
        "gpu.count_matches_plan[worker1]",
    }


def test_lab_owes_hundred_results_of_forty_checks(check_plan):
    assert len(check_plan.expected) >= 100
    assert len({item.spec.key for item in check_plan.expected.values()}) >= 40


def test_simulated_hardware_gives_simulated_evidence(check_plan):
    evidence = {item.spec.key: item.evidence for item in check_plan.expected.values()}
    assert evidence["gpu.count_matches_plan"] is Evidence.SIMULATED
    assert evidence["jobs.gpus_exclusive"] is Evidence.SIMULATED
    assert evidence["node.memory_matches_plan"] is Evidence.SIMULATED
    assert evidence["munge.service_runs"] is Evidence.REAL


def test_real_hardware_has_no_simulated_evidence(inventory):
    cluster = inventory["all"]["vars"]["cluster"]
    cluster["simulated"], cluster["scheduler"]["config_overrides"] = [], False
    declared = from_inventory(inventory)
    assert {item.evidence for item in plan_checks(declared, checks(), Level.FULL).expected.values()} == {Evidence.REAL}


def test_lowest_level_lists_jobs_as_left_out(declared):
    found = plan_checks(declared, checks(), Level.CHECKS)
    assert {item.spec.kind for item in found.expected.values()} == {Kind.PASSIVE}
    left_out = {item.id for item in found.not_run if item.reason is NotRunReason.LEVEL}
    assert left_out == {key for key, spec in checks().items() if spec.kind is Kind.JOB and set(spec.needs) <= declared.features}
    assert not found.partial


def test_passive_checks_claim_only_lowest_level(declared):
    assert plan_checks(declared, checks(), Level.FULL, Kinds.PASSIVE).level is Level.CHECKS


def test_jobs_alone_are_partial(declared):
    assert plan_checks(declared, checks(), Level.SMOKE, Kinds.JOB).partial


def test_some_nodes_are_partial(declared):
    found = plan_checks(declared, checks(), Level.SMOKE, nodes=["worker0"])
    assert {item.node for item in found.expected.values()} == {"worker0"}
    assert found.partial


def test_missing_part_of_plan_is_reported(inventory):
    inventory["all"]["vars"]["cluster"]["storage"] = []
    found = plan_checks(from_inventory(inventory), checks(), Level.SMOKE)
    assert not any(item.spec.subject == "storage" for item in found.expected.values())
    assert {item.id for item in found.not_run if item.reason is NotRunReason.NOT_IN_PLAN} >= {"storage.is_mounted", "storage.servers_run"}


@pytest.mark.parametrize(
    ("target", "constrains", "words"),
    [
        ("lab", [], {"memory": "cgroup v1", "cores": "cgroup v1", "gpus": "cgroup v1"}),
        ("lab", ["memory"], {"cores": "more CPUs than the machine has", "gpus": "only root"}),
        ("lab", ["cores", "memory", "devices"], {}),
        ("hosts", [], {"memory": "system containers", "cores": "system containers", "gpus": "system containers"}),
    ],
)
def test_unconfined_jobs_have_a_reason(inventory, target, constrains, words):
    shared = inventory["all"]["vars"]
    shared["cluster"]["scheduler"]["constrains"], shared["handover"]["target"] = constrains, target
    found = {item.id: item.detail for item in plan_checks(from_inventory(inventory), checks(), Level.SMOKE).not_run if item.detail}
    names = {f"jobs.{name}_{'are' if name != 'memory' else 'is'}_confined" for name in words}
    assert set(found) == names | ({"jobs.memory_overuse_is_killed"} if "memory" in words else set())
    assert all(words[id_.split(".")[1].split("_")[0]] in detail for id_, detail in found.items())


def test_kubernetes_has_no_slurm_confinement_reason(kubernetes_inventory):
    found = plan_checks(from_inventory(kubernetes_inventory), checks(), Level.SMOKE).not_run
    assert {item.detail for item in found if item.id == "jobs.cores_are_confined"} == {""}


def test_empty_group_of_planned_part_is_not_excused(inventory):
    inventory["all"]["children"]["gpu"]["hosts"] = {}
    found = plan_checks(from_inventory(inventory), checks(), Level.SMOKE)
    assert found.empty_groups["gpu.count_matches_plan"] == "gpu"


def with_gpus_of_amd(inventory):
    """Return the inventory with GPUs of AMD in worker0."""
    changed = copy.deepcopy(inventory)
    changed["all"]["hosts"]["worker0"]["node"]["gpus"] |= {"vendor": "amd", "model": "mi300x"}
    changed["all"]["vars"]["cluster"]["software"]["rocm"] = {"version": "7.0.2", "driver": "30.10.2", "driver_package": "*.30100200-*"}
    changed["all"]["children"] |= {name: {"hosts": {"worker0": {}}} for name in ("amd_gpu", "amd_xgmi", "amd_software")}
    return changed


def with_rails(inventory):
    """Return the inventory with the rails of virtual machines in worker0."""
    changed = copy.deepcopy(inventory)
    changed["all"]["hosts"]["worker0"]["node"]["rail_interfaces"] = [{"name": "eth1", "device": "rxe0"}]
    return changed


def test_every_check_can_be_owed(check_plan, inventory_with_separate_controller, kubernetes_inventory):
    """A lab with Slurm or one with Kubernetes, on one network or another, contains each row: every need can be met."""
    monitored = copy.deepcopy(inventory_with_separate_controller)
    monitored["all"]["vars"]["monitoring"] = {"server": "login0"}
    monitored["all"]["children"] |= {name: {"hosts": {"login0": {}}} for name in ("monitoring_server", "monitoring_node")}
    by_site = copy.deepcopy(monitored)
    by_site["all"]["vars"]["monitoring"] = {"server": None, "external": {"client_authority": None, "url": "https://prometheus.example.org"}}
    found, scheduler = (
        [check_plan, *(plan_checks(from_inventory(one), checks(), Level.SMOKE) for one in (monitored, by_site))],
        kubernetes_inventory["all"]["vars"]["cluster"]["scheduler"],
    )
    found.append(plan_checks(from_inventory(inventory_with_separate_controller), checks(), Level.SMOKE))
    found.append(plan_checks(from_inventory(with_gpus_of_amd(inventory_with_separate_controller)), checks(), Level.SMOKE))
    found.append(plan_checks(from_inventory(with_rails(inventory_with_separate_controller)), checks(), Level.SMOKE))
    adopting = copy.deepcopy(inventory_with_separate_controller)
    adopting["all"]["vars"]["cluster"]["scheduler"]["pam_slurm_adopt"] = ["worker0"]
    found.append(plan_checks(from_inventory(adopting), checks(), Level.SMOKE))
    building = copy.deepcopy(inventory_with_separate_controller)
    building["all"]["vars"]["cluster"]["scheduler"]["submit_hosts"] = []
    building["all"]["children"]["role_runner"] = {"hosts": {"worker0": {}}}
    found.append(plan_checks(from_inventory(building), checks(), Level.SMOKE))
    mounting = copy.deepcopy(inventory_with_separate_controller)
    mounting["all"]["vars"]["cluster"]["storage"][0] |= {"kind": "existing-nfs", "servers": [], "existing": {"sec": "sys"}}
    found.append(plan_checks(from_inventory(mounting), checks(), Level.SMOKE))
    bonded = copy.deepcopy(inventory_with_separate_controller)
    bonded["all"]["vars"]["handover"]["target"] = "hosts"
    bonded["all"]["vars"]["cluster"]["manage_kernel"] = True
    bonded["all"]["hosts"]["worker0"]["node"] |= {"bonds": {"bond0": {}}, "vlans": {"bond0.100": {}}}
    found.append(plan_checks(from_inventory(bonded), checks(), Level.SMOKE))
    scheduler["bundles_training_image"] = True
    for cni in ("bridge", "flannel", "calico"):
        scheduler |= {"cni": cni, "network": {"encapsulation": "vxlan", "mtu": 1450, "enforces_network_policy": cni == "calico"}}
        found.append(plan_checks(from_inventory(kubernetes_inventory), checks(), Level.SMOKE))
    assert {item.spec.key for one in found for item in one.expected.values()} == set(checks())


@each_row("key", checks())
def test_remedies_fit_any_node_and_stack(key):
    text = checks()[key].remedy.format(node="worker0", stack="lab")
    assert text
    assert "{" not in text
