"""The facts that a report reads from an inventory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rackwright.catalog.checks import Feature
from rackwright.errors import InputError
from rackwright.inventory.reader import WITHOUT_SACKD, from_inventory, load
from rackwright.yaml_loader import load_yaml

PROJECT = Path(__file__).parents[3]
JOBS = {Feature.JOBS, Feature.JOBS_SHARE}
CONSTRAINED = {Feature.CONSTRAINED_MEMORY, Feature.CONSTRAINED_CORES, Feature.CONSTRAINED_DEVICES}
SLURMS = CONSTRAINED | {Feature.HEALTH, Feature.ACCOUNTING, Feature.ACCOUNTS, Feature.QOS, Feature.JOBS_ON_STORAGE, Feature.JOBS_ON_FABRIC}
SLURMS |= {Feature.FIO, Feature.HPCC}
ADDONS = {Feature.ADDONS, Feature.ADDON_HOOKS, Feature.QUEUES, Feature.MEASUREMENTS, Feature.LEADER_WORKER_SETS}
ADDONS |= {Feature.DEVICE_CLAIMS, Feature.PYTORCH_JOBS, Feature.LOAD_BALANCERS, Feature.AUTOSCALING}
KUBERNETESES = ADDONS | {
    *(Feature.KUBERNETES, Feature.KUBERNETES_GPUS, Feature.NAMESPACES, Feature.QUOTAS, Feature.CLAIMS, Feature.POD_ROUTES),
    *(Feature.VIRTUAL_ADDRESS, Feature.POD_NEIGHBOURS),
}
LOGINS = {Feature.SACKD}
"""Parts of a plan whose login nodes are no controllers."""
NETWORKS = LOGINS | {Feature.POD_NETWORK, Feature.FLANNEL, Feature.VXLAN, Feature.POLICIES}
"""Parts of a plan that replace plain routes."""
ABSENT = NETWORKS | {Feature.MONITORING, Feature.PROMETHEUS, Feature.SITE_MONITORING, Feature.STACK_CLIENT, Feature.SITE_API}
ABSENT |= {Feature.AMD_GPUS, Feature.AMD_XGMI, Feature.ROCM, Feature.SOFTWARE_RDMA, Feature.PAM_SLURM_ADOPT, Feature.ACTIONS_RUNNER}
ABSENT |= {Feature.WORKLOAD_IMAGES, Feature.EXISTING_STORAGE, Feature.EXISTING_MACHINES, Feature.BONDS, Feature.VLANS, Feature.OWN_KERNEL}
"""Parts that neither of the two inventories has."""


def without(inventory, *path):
    """Return the inventory with one value of its cluster emptied."""
    place = inventory["all"]["vars"]["cluster"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = [] if isinstance(place[path[-1]], list) else None
    return from_inventory(inventory)


def test_lab_has_every_part(declared):
    assert declared.features == frozenset(Feature) - KUBERNETESES - ABSENT


@pytest.mark.parametrize(
    ("os", "controller", "sackd"), [("debian-13", "storage0", ("login0",)), ("debian-12", "storage0", ()), ("debian-13", "login0", ())]
)
def test_login_node_without_controller_has_sackd(inventory, os, controller, sackd):
    inventory["all"]["children"]["role_controller"]["hosts"] = {controller: None}
    inventory["all"]["hosts"]["login0"]["node"]["os"] = os
    declared = from_inventory(inventory)
    assert (declared.members("@sackd"), Feature.SACKD in declared.features) == (sackd, bool(sackd))


def test_systems_without_sackd_are_those_of_the_role():
    role = load_yaml((PROJECT / "roles" / "slurm_login" / "vars" / "main.yml").read_text(encoding="utf-8"))
    assert set(re.findall(r"'([a-z]+-[0-9.]+)'", role["_slurm_login_has_sackd"])) == WITHOUT_SACKD


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (("users",), {Feature.USERS}),
        (("software",), {Feature.GPU_SOFTWARE, Feature.NVSWITCH, Feature.NVLINK, Feature.NVLINK_RACK, Feature.DCGM}),
        (("software", "versions", "dcgm"), {Feature.DCGM}),
        (
            ("storage",),
            {Feature.STORAGE, Feature.CREATED_STORAGE, Feature.NFS, Feature.NFS_SERVER, Feature.JOBS_ON_STORAGE, Feature.JOBS_SHARE},
        ),
        (("scheduler",), SLURMS | JOBS | {Feature.SLURM, Feature.SUBMIT}),
        (("scheduler", "health_interval_s"), {Feature.HEALTH}),
        (("scheduler", "accounting"), {Feature.ACCOUNTING, Feature.ACCOUNTS, Feature.QOS}),
        (("scheduler", "accounts"), {Feature.ACCOUNTS}),
        (("scheduler", "qos"), {Feature.QOS}),
        (("scheduler", "constrains"), CONSTRAINED),
        (("network", "gateway"), {Feature.GATEWAY}),
        (("access", "jump_hosts"), {Feature.ENTRY}),
        (("metadata_service",), {Feature.METADATA_SERVICE}),
    ],
)
def test_missing_parts_of_plan_are_listed(inventory, path, gone):
    assert set(Feature) - KUBERNETESES - ABSENT - without(inventory, *path).features == gone


def test_kubernetes_cluster_lacks_only_slurm_parts(kubernetes_inventory):
    assert from_inventory(kubernetes_inventory).features == frozenset(Feature) - SLURMS - ABSENT - {Feature.SLURM, Feature.SUBMIT}


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (("scheduler", "folders"), {Feature.CLAIMS, Feature.JOBS_SHARE}),
        (("scheduler", "namespaces"), {Feature.NAMESPACES, Feature.QUOTAS, Feature.JOBS}),
        (("scheduler", "namespaces", 0, "gpus"), {Feature.QUOTAS}),
        (("scheduler", "nodes"), {Feature.KUBERNETES_GPUS}),
        (("scheduler", "cni"), {Feature.POD_ROUTES}),
        (("scheduler", "virtual_address"), {Feature.VIRTUAL_ADDRESS}),
        (("scheduler", "addons"), ADDONS),
        (("scheduler",), KUBERNETESES | JOBS),
    ],
)
def test_missing_parts_of_kubernetes_plan_are_listed(kubernetes_inventory, path, gone):
    whole = from_inventory(kubernetes_inventory).features
    assert whole - without(kubernetes_inventory, *path).features == gone


def test_monitoring_is_read_where_it_is_declared(inventory):
    assert from_inventory(inventory).monitoring is None
    without_it = from_inventory(inventory).plan
    inventory["all"]["vars"]["monitoring"] = {"server": "login0"}
    declared = from_inventory(inventory)
    assert declared.monitoring == {"server": "login0"} and {Feature.MONITORING, Feature.PROMETHEUS} <= declared.features
    assert declared.plan != without_it


@pytest.mark.parametrize(
    ("site", "parts"),
    [
        ({"client_authority": None, "url": None}, {Feature.STACK_CLIENT}),
        ({"client_authority": "PEM", "url": "https://prometheus.example.org"}, {Feature.SITE_API}),
    ],
    ids=["own-client", "queried"],
)
def test_parts_of_external_monitoring(inventory, site, parts):
    without_it = from_inventory(inventory).features
    inventory["all"]["vars"]["monitoring"] = {"server": None, "external": site}
    assert from_inventory(inventory).features - without_it == parts | {Feature.MONITORING, Feature.SITE_MONITORING}


def test_single_worker_has_no_peers(kubernetes_inventory):
    nodes = kubernetes_inventory["all"]["children"]["nodes"]["hosts"]
    workers = [name for name in nodes if "worker" in kubernetes_inventory["all"]["hosts"][name]["node"]["roles"]]
    for name in workers[1:]:
        del nodes[name]
    assert Feature.POD_NEIGHBOURS not in from_inventory(kubernetes_inventory).features


@pytest.mark.parametrize(
    ("cni", "encapsulation", "enforces", "has"),
    [
        ("flannel", "vxlan", False, NETWORKS - LOGINS - {Feature.POLICIES}),
        ("flannel", "none", False, {Feature.POD_NETWORK, Feature.FLANNEL}),
        ("calico", "vxlan", True, {Feature.POD_NETWORK, Feature.POLICIES}),
    ],
)
def test_networks_have_parts_instead_of_routes(kubernetes_inventory, cni, encapsulation, enforces, has):
    routed = from_inventory(kubernetes_inventory).features
    kubernetes_inventory["all"]["vars"]["cluster"]["scheduler"] |= {
        "cni": cni,
        "network": {"encapsulation": encapsulation, "mtu": 1450, "enforces_network_policy": enforces},
    }
    assert from_inventory(kubernetes_inventory).features == (routed - {Feature.POD_ROUTES}) | has


def test_ethernet_fabric_is_known_to_switches_only(inventory):
    inventory["all"]["vars"]["fabric"]["kind"] = "roce"
    declared = from_inventory(inventory)
    assert Feature.FABRIC in declared.features
    assert Feature.INFINIBAND not in declared.features
    assert declared.members("@observer") == ()


def test_plan_without_fabric_skips_fabric_checks(inventory):
    inventory["all"]["vars"]["fabric"] = None
    declared = from_inventory(inventory)
    assert not {Feature.FABRIC, Feature.INFINIBAND} & declared.features


def test_fabric_is_queried_from_manager_or_first_node(inventory):
    assert from_inventory(inventory).members("@observer") == ("login0",)
    inventory["all"]["vars"]["fabric"]["subnet_manager"] = None
    inventory["all"]["children"]["fabric"]["hosts"] = {"worker0": {}, "worker1": {}}
    assert from_inventory(inventory).members("@observer") == ("worker0",)


def test_changed_cable_changes_the_plan(inventory):
    before = from_inventory(inventory).plan
    inventory["all"]["vars"]["fabric"]["cables"].pop()
    assert from_inventory(inventory).plan != before


def test_gpus_are_read_from_nodes(inventory):
    inventory["all"]["children"]["gpu"]["hosts"] = {}
    assert Feature.GPUS in from_inventory(inventory).features


def test_inference_chips_are_read_from_nodes(inventory):
    inventory["all"]["children"]["neuron"]["hosts"] = {}
    assert Feature.NEURON in from_inventory(inventory).features
    inventory["all"]["hosts"]["worker1"]["node"]["neuron_devices"] = 0
    assert Feature.NEURON not in from_inventory(inventory).features


def test_single_gpu_cannot_be_shared(inventory):
    inventory["all"]["hosts"]["worker0"]["node"]["gpus"]["count"] = 1
    assert Feature.SHARED_GPUS not in from_inventory(inventory).features


def test_mig_nodes_have_no_whole_gpus(inventory):
    assert {Feature.MIG, Feature.WHOLE_GPUS, Feature.GPUS} <= from_inventory(inventory).features
    inventory["all"]["hosts"]["worker0"]["node"]["gpus"] |= {"mig": [[{"profile": "7g.80gb", "start": 0}]]}
    features = from_inventory(inventory).features
    assert {Feature.MIG, Feature.GPUS} <= features and not {Feature.WHOLE_GPUS, Feature.SHARED_GPUS} & features
    for name in ("worker0", "worker1"):
        del inventory["all"]["hosts"][name]["node"]["gpus"]["mig"]
    assert Feature.MIG not in from_inventory(inventory).features


def test_nodes_out_are_in_no_group(inventory):
    for group in inventory["all"]["children"].values():
        group["hosts"].pop("worker1", None)
    inventory["all"]["children"]["out"]["hosts"]["worker1"] = {}
    found = from_inventory(inventory)
    assert "worker1" not in found.nodes
    assert list(found.out) == ["worker1"]


def test_unknown_group_is_an_error(declared):
    with pytest.raises(InputError, match="unknown group"):
        declared.members("gpus")


def test_equal_plans_have_equal_digests(inventory, declared):
    assert from_inventory(inventory).plan == declared.plan
    inventory["all"]["hosts"]["worker0"]["node"]["memory_mib"] += 1
    assert from_inventory(inventory).plan != declared.plan


def test_capacity_is_simulated_with_config_overrides(inventory, declared):
    assert "capacity" in declared.simulated
    inventory["all"]["vars"]["cluster"]["scheduler"]["config_overrides"] = False
    assert "capacity" not in from_inventory(inventory).simulated


class TestFiles:
    def test_inventory_file_is_read(self, inventory, declared, tmp_path):
        (tmp_path / "inventory.yml").write_text(yaml.safe_dump(inventory, sort_keys=False))
        assert load(tmp_path / "inventory.yml") == declared

    def test_missing_file_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="no inventory found"):
            load(tmp_path / "inventory.yml")

    @pytest.mark.parametrize("text", ["", "all: {}", "[1, 2]", "all: [", "all: {vars: {handover: {schema: other/1}}}"])
    def test_invalid_file_is_refused(self, text, tmp_path):
        (tmp_path / "inventory.yml").write_text(text)
        with pytest.raises(InputError):
            load(tmp_path / "inventory.yml")
