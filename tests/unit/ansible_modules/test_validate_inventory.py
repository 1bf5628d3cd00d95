"""What validate.yml says about an inventory that cannot be worked with."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError

from ansible_collections.rackwright.cluster.plugins.action import validate_inventory as handover
from ansible_collections.rackwright.cluster.plugins.plugin_utils import role_arguments
from rackwright.yaml_loader import load_yaml

SCHEMA = "rackwright.inventory/7"


def node(name: str, address: str, roles: list[str], gpus: dict[str, Any] | None = None) -> dict[str, Any]:
    fqdn = f"{name}.lab.internal"
    about = {"name": name, "group": name[:-1], "index": 0, "roles": roles, "fqdn": fqdn, "address": address, "os": "debian-13"}
    return {**about, "gpus": gpus, "neuron_devices": 0, "devices": {}}


@pytest.fixture
def good() -> tuple[dict[str, list[str]], dict[str, dict[str, Any]]]:
    """Groups and variables of two nodes."""
    cluster = {
        "stack": "lab",
        "target": "lab",
        "time_zone": "Etc/UTC",
        "preinstalled_roles": [],
        "metadata_service": False,
        "network": {},
        "access": {"jump_hosts": ["login0"]},
        "hosts": [{"name": "login0", "address": "10.0.0.1"}, {"name": "worker0", "address": "10.0.0.2"}],
        "users": [],
        "storage": [{"name": "sharedfs", "servers": ["login0"], "clients": ["login0", "worker0"]}],
        "scheduler": {},
    }
    shared = {"handover": {"schema": SCHEMA}, "cluster": cluster, "secrets": {"munge_key": "", "accounting_password": ""}}
    groups = {
        "nodes": ["login0", "worker0"],
        "role_login": ["login0"],
        "role_storage": ["login0"],
        "role_worker": ["worker0"],
        "gpu": ["worker0"],
    }
    variables = {
        "login0": {**copy.deepcopy(shared), "node": node("login0", "10.0.0.1", ["login", "storage"])},
        "worker0": {**copy.deepcopy(shared), "node": node("worker0", "10.0.0.2", ["worker"], {"count": 8})},
    }
    return groups, variables


def test_a_good_handover_has_no_problems(good: Any) -> None:
    assert handover.problems(SCHEMA, *good) == []


def everywhere(variables: dict[str, dict[str, Any]], key: str, value: Any) -> None:
    for host in variables.values():
        host[key] = value


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda groups, _: groups.pop("nodes"), "inventory: the group `nodes` is missing"),
        (
            lambda _, hosts: everywhere(hosts, "handover", {"schema": "rackwright.inventory/9"}),
            "handover.schema: expected rackwright.inventory/7, found rackwright.inventory/9",
        ),
        (lambda _, hosts: hosts["login0"].pop("handover"), "handover.schema: expected rackwright.inventory/7, found none"),
        (lambda _, hosts: hosts["login0"]["cluster"].pop("storage"), "cluster.storage: missing"),
        (
            lambda _, hosts: hosts["login0"]["cluster"]["access"].update(jump_hosts=["login9"]),
            "cluster.access.jump_hosts: login9 is not a host",
        ),
        (
            lambda _, hosts: hosts["login0"]["cluster"]["storage"][0].update(servers=["storage0"]),
            "cluster.storage.sharedfs: storage0 is not a host",
        ),
        (lambda _, hosts: hosts["login0"]["secrets"].pop("munge_key"), "secrets.munge_key: missing"),
        (lambda _, hosts: hosts["login0"].pop("secrets"), "secrets.accounting_password: missing"),
        (lambda _, hosts: hosts["login0"].update(monitoring={"server": "login0"}), "secrets.monitoring: missing"),
        (lambda _, hosts: hosts["worker0"].pop("node"), "worker0: variable `node` is missing"),
        (lambda _, hosts: hosts["worker0"]["node"].pop("os"), "worker0.node.os: missing"),
        (lambda _, hosts: hosts["worker0"]["node"].update(name="worker1"), "worker0.node.name: expected worker0, found worker1"),
        (
            lambda _, hosts: hosts["worker0"]["node"].update(address="10.0.0.9"),
            "worker0.node.address: expected 10.0.0.2 (cluster.hosts), found 10.0.0.9",
        ),
        (lambda _, hosts: hosts["login0"]["cluster"]["hosts"].pop(1), "worker0: missing from cluster.hosts"),
        (lambda groups, _: groups["role_worker"].clear(), "group role_worker: worker0 is missing, its record belongs there"),
        (lambda groups, _: groups["role_worker"].append("login0"), "group role_worker: login0 is a member"),
        (lambda groups, _: groups["gpu"].clear(), "group gpu: worker0 is missing, its record belongs there"),
        (lambda _, hosts: hosts["worker0"]["node"].update(neuron_devices=1), "group neuron: worker0 is missing, its record belongs there"),
        (lambda _, hosts: hosts["worker0"]["node"].pop("devices"), "worker0.node.devices: missing"),
        (lambda _, hosts: hosts["login0"]["cluster"].pop("metadata_service"), "cluster.metadata_service: missing"),
        (
            lambda _, hosts: hosts["login0"]["cluster"]["storage"][0].update(servers=[], source=None),
            "cluster.storage.sharedfs: no server and no `source`",
        ),
    ],
)
def test_each_problem_is_named_with_its_place(good: Any, spoil: Any, found: str) -> None:
    groups, variables = good
    spoil(groups, variables)
    told = handover.problems(SCHEMA, groups, variables)
    assert [line for line in told if line.startswith(found)], told


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    """A folder of two roles, of which one name begins with the other."""
    specs = {
        "slurm": {"slurm_ports": {"type": "list", "elements": "int"}},
        "slurm_worker": {"slurm_worker_mode": {"choices": ["on", "off"]}, "slurm_worker_key": {"choices": ["a"], "no_log": True}},
    }
    for role, options in specs.items():
        (tmp_path / role / "meta").mkdir(parents=True)
        (tmp_path / role / "meta" / "argument_specs.yml").write_text(json.dumps({"argument_specs": {"main": {"options": options}}}))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("slurm_ports", [6817, 6818], None),
        ("slurm_ports", ["ssh"], "w0.slurm_ports: Elements value for option 'slurm_ports'"),
        ("slurm_worker_mode", "on", None),
        ("slurm_worker_mode", "auto", "w0.slurm_worker_mode: value of slurm_worker_mode must be one of: on, off, got: auto"),
        ("slurm_worker_key", "canary", "w0.slurm_worker_key: the value does not match the role's argument spec - correct"),
        ("slurm_worker_else", "x", None),
        ("node", {}, None),
        ("_slurm_ports", "x", None),
    ],
)
def test_role_variable_must_match_argument_spec(roles: Path, name: str, value: object, found: str | None) -> None:
    said = role_arguments.problems(roles, {"w0": {name: value}, "w1": {name: value}})
    assert [line[: len(found or "")] for line in said] == ([found] if found else [])
    assert "canary" not in str(said)


def test_variable_of_later_facts_is_not_validated(roles: Path) -> None:
    class Unready(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            raise AnsibleError(name)

    assert role_arguments.problems(roles, {"w0": Unready(slurm_worker_mode="{{ later }}")}) == []


def test_plain_defaults_match_argument_specs() -> None:
    """Of those that are no templates: the others are known on a node only."""
    for role in handover.ROLES_FOLDER.iterdir():
        defaults = load_yaml((role / "defaults" / "main.yml").read_text(encoding="utf-8")) or {}
        plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
        assert role_arguments.problems(handover.ROLES_FOLDER, {"w0": plain}) == [], role.name


def test_all_problems_are_told_at_once(good: Any) -> None:
    groups, variables = good
    variables["login0"]["node"]["name"] = "x"
    variables["worker0"]["node"]["name"] = "y"
    del variables["login0"]["secrets"]
    assert len(handover.problems(SCHEMA, groups, variables)) == 4


def test_a_secret_is_never_part_of_a_message(good: Any) -> None:
    groups, variables = good
    everywhere(variables, "secrets", {"munge_key": "canary"})
    told = handover.problems(SCHEMA, groups, variables)
    assert told
    assert "canary" not in repr(told)
