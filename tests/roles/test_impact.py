"""The predicted impact of an edit against the roles: a daemon restarts where a file that it reads at its start changes, nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from support.edited_stack import committed_stack, described

from rackwright.impact import Action, ClusterPlan, impact
from rackwright.inventory import Host, inventory

from .conftest import play

LIVE = frozenset({"ssh", "nftables"})
"""Reloaded without an effect on users, on almost every edit; they are not reported."""
SIMULATION = frozenset({"rackwright-ibsim", "rackwright-opensm"})
EDITS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "quiet": {
        "groups.storage.cpus": 4,
        "groups.worker.rack": "r1",
        "network.domain": "other.internal",
        "access.allowed_cidrs": ["10.0.0.0/8"],
        "storage.sharedfs.mode": "0755",
        "scheduler.partitions": {"gpu": {"groups": ["worker"], "gres": ["gpu"]}},
        "scheduler.drain_timeout": "1m",
        "users.bob": {"uid": 2002, "admin": True},
        "verify_level": "checks",
        "time_zone": "Europe/Berlin",
    },
    "recabled": {"fabric.max_nodes": 16},
    "other-adapters": {"fabric.hcas": [f"ibp{rail}" for rail in range(8)]},
    "grown": {"groups.worker.count": 3},
    "out": {"nodes": {"worker1": {"state": "out", "reason": "bad DIMM"}}},
    "hardware": {
        "groups.worker.cpus": 4,
        "groups.worker.gpus.model": "a100",
        "groups.login.memory": "16GiB",
        "storage.sharedfs.size": "9GiB",
    },
    "second-server": {"groups.storage.count": 2},
    "saving": {
        "scheduler.power_saving": {"suspend_time": "10m"},
        "scheduler.partitions": {"all": {"groups": ["worker"], "max_time": "1h"}},
    },
    "submit": {"groups": {"submit": {"count": 1, "roles": ["login"]}}},
}


def edited_lab(name: str) -> ClusterPlan:
    """Return the lab after one edit; mappings are merged."""
    said = committed_stack("lab")
    for path, value in EDITS[name].items():
        *above, last = path.split(".")
        place = said
        for key in above:
            place = place.setdefault(key, {})
        place[last] = {**place.get(last, {}), **value} if isinstance(value, dict) else value
    return described(said)


def all_clusters() -> dict[str, Any]:
    """One inventory of every edited cluster: hosts are named `<edit>.<node>` and carry what else the whole inventory would."""
    hosts: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name in EDITS:
        plan = edited_lab(name).plan
        made = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", "life-1") for node in plan.nodes}
        everything = inventory(plan, made)["all"]
        for node, record in everything["hosts"].items():
            hosts[f"{name}.{node}"] = {
                "node": record["node"],
                "cluster": everything["vars"]["cluster"],
                "fabric": everything["vars"]["fabric"],
            }
        for group, members in everything["children"].items():
            groups.setdefault(group, {"hosts": {}})["hosts"].update({f"{name}.{node}": {} for node in members["hosts"]})
    return {"all": {"hosts": hosts, "children": groups}}


Written = dict[str, str]
Units = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Written, Units]]:
    """By host: the files that are written there, and the units that are brought up on them."""
    folder, said = tmp_path_factory.mktemp("runner"), tmp_path_factory.mktemp("recorded")
    (folder / "inventory.yml").write_text(yaml.safe_dump(all_clusters()))
    secrets = {"munge_key": "bXVuZ2U=", "accounting_password": "not-a-secret", "access_key": ""}
    play(folder, "impact.yml", folder / "inventory.yml", {"secrets": secrets}, "--skip-tags install", RECORDED=str(said))
    found: dict[str, tuple[Written, Units]] = {}
    for record in said.iterdir():
        files, units = found.setdefault(record.name, ({}, {}))
        for asked in map(json.loads, record.read_text().splitlines()):
            files.update({file["path"]: str(file.get("content", "")) for file in asked.get("files") or []})
            units.update({unit["name"]: unit for unit in asked.get("units") or [] if unit.get("state", "started") == "started"})
    return found


def started_on(unit: Mapping[str, Any], files: Written) -> tuple[Written, Written]:
    """The unit's configuration and its own unit files."""
    config = {
        path: text for path, text in files.items() if any(path == one or path.startswith(f"{one}/") for one in unit.get("config") or [])
    }
    name = unit["name"]
    own = {
        path: text for path, text in files.items() if path.rsplit("/", 1)[-1] in (name, f"{name}.service") or f"/{name}.service.d/" in path
    }
    return config, own


def changes(recorded: dict[str, tuple[Written, Units]], name: str) -> dict[tuple[str, str], str]:
    """(unit, node) -> reload or restart, from the cluster as it was to the edited one."""
    found = {}
    for host, (files, units) in recorded.items():
        edit, node = host.split(".")
        old_files, old_units = recorded.get(f"nothing.{node}", ({}, {}))
        for unit in units if edit == name else ():
            if unit in old_units:
                (config, own), (old_config, old_own) = started_on(units[unit], files), started_on(old_units[unit], old_files)
                if own != old_own or config != old_config:
                    found[unit, node] = "reload" if units[unit].get("reload") and own == old_own else "restart"
    return found


@pytest.mark.parametrize("name", [name for name in EDITS if name != "nothing"])
def test_daemons_told_as_restarted_or_reloaded_are_those_whose_files_change(recorded: dict[str, Any], name: str) -> None:
    happens = {
        key: verb
        for key, verb in changes(recorded, name).items()
        if key[0] not in LIVE and (key[0] in SIMULATION or not key[0].startswith("rackwright-"))
    }
    told = {
        (unit, node): str(consequence.action)
        for consequence in impact(edited_lab("nothing"), edited_lab(name))
        if consequence.action in (Action.RELOAD, Action.RESTART)
        for unit in consequence.message.split(" on ")[0].split(" ", 1)[1].split(" and ")
        for node in consequence.affected
    }
    assert told == happens


def test_daemons_that_take_everything_as_they_run_are_reloaded(recorded: dict[str, Any]) -> None:
    verbs = {verb for name in EDITS for (unit, _), verb in changes(recorded, name).items() if unit in LIVE}
    assert verbs == {"reload"}
