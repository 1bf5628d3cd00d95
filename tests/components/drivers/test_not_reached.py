"""Nodes that a real run of Ansible with Mitogen leaves out, because a node that they need has failed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rackwright import layout
from rackwright.drivers import ansible
from rackwright.report import run_record
from rackwright.yaml_loader import load_yaml

NODES = ("login0", "worker0", "worker1", "storage0")
GROUPS = {
    "nodes": NODES,
    "slurm": NODES[:3],
    "role_controller": NODES[:1],
    "role_accounting": NODES[:1],
    "role_worker": NODES[1:3],
    "role_login": NODES[:1],
}
FAIL = {"ansible.builtin.fail": {"msg": "no space left on device"}}
TOUCH = {"ansible.builtin.debug": {"msg": "here"}}


def check_of(phase: str) -> dict[str, Any]:
    """Return the product's play that leaves nodes out of a phase."""
    plays = load_yaml((layout.product_root() / layout.PLAYBOOKS / f"{phase}.yml").read_text())
    (found,) = [play for play in plays if any("rackwright.cluster.prerequisites" in task for task in play.get("tasks", ()))]
    return dict(found)


def play(name: str, hosts: str, *tasks: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "hosts": hosts, "gather_facts": False, "tasks": [{"name": name, **task} for task in tasks]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write an inventory of nodes that are this machine, and two phases; the first fails on a node."""
    hosts = {name: {"ansible_connection": "local", "ansible_python_interpreter": sys.executable} for name in NODES}
    children = {group: {"hosts": {name: {} for name in names}} for group, names in GROUPS.items()}
    variables = {"cluster": {"storage": []}}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts, "children": children, "vars": variables}}))
    (tmp_path / "bootstrap.yml").write_text(json.dumps([play("Bootstrap", "nodes", {**FAIL, "when": "inventory_hostname in bad"})]))
    phase = [check_of("scheduler"), play("Run the workers", "role_worker", TOUCH), play("Watch the nodes", "nodes", TOUCH)]
    (tmp_path / "scheduler.yml").write_text(json.dumps(phase))
    site = [{"name": name, "ansible.builtin.import_playbook": str(tmp_path / f"{name}.yml")} for name in ("bootstrap", "scheduler")]
    (tmp_path / "site.yml").write_text(json.dumps(site))
    return tmp_path


def run(project: Path, *bad: str, **other: Any) -> ansible.PlaybookResult:
    async def quiet(_: str) -> None:
        pass

    return asyncio.run(
        ansible.play(
            layout.product_root(),
            str(project / "site.yml"),
            inventory=project / "inventory.yml",
            values={"bad": list(bad)},
            record=project / "1.jsonl",
            on_progress=quiet,
            **other,
        )
    )


def tasks_of(project: Path, host: str) -> list[tuple[str, str]]:
    """Return task and status of each result of a host."""
    lines = [json.loads(line) for line in (project / "1.jsonl").read_text().splitlines()]
    return [(task.task, task.status.value) for task in run_record.read_tasks(lines) if task.host == host]


@pytest.mark.parametrize("check", [False, True], ids=["apply", "check-mode"])
def test_workers_are_not_reached_after_their_controller_failed(project: Path, check: bool) -> None:
    applied = run(project, "login0", check=check)
    assert sorted(applied.reasons) == [
        "login0: bootstrap: Bootstrap: no space left on device",
        "worker0: not reached, because login0 failed in bootstrap",
        "worker1: not reached, because login0 failed in bootstrap",
    ]
    assert "Run the workers" not in dict(tasks_of(project, "worker0"))
    assert ("Watch the nodes", "ok") in tasks_of(project, "storage0"), "a node without failed prerequisites goes on"


def test_workers_are_not_reached_without_their_controller(project: Path) -> None:
    applied = run(project, lost=["login0"], limit=NODES[1:])
    assert sorted(applied.reasons) == [f"worker{number}: not reached, because login0 is unreachable" for number in range(2)]
    assert ("Watch the nodes", "ok") in tasks_of(project, "storage0")


def test_run_without_failure_has_no_task_for_it(project: Path) -> None:
    applied = run(project)
    assert not applied.reasons and tasks_of(project, "worker0")[-2:] == [("Run the workers", "ok"), ("Watch the nodes", "ok")]
    assert len(tasks_of(project, "worker0")) == 3


def test_run_that_ends_early_names_the_nodes_that_are_left(project: Path) -> None:
    """Ansible ends the run if all nodes of a play fail."""
    failing = [play("Run the controller", "role_controller", FAIL), play("Run the workers", "role_worker", TOUCH)]
    (project / "scheduler.yml").write_text(json.dumps([play("Prepare the nodes", "nodes", TOUCH), *failing]))
    (project / "monitoring.yml").write_text(json.dumps([play("Watch the nodes", "nodes", TOUCH)]))
    site = [{"name": name, "ansible.builtin.import_playbook": str(project / f"{name}.yml")} for name in ("scheduler", "monitoring")]
    (project / "site.yml").write_text(json.dumps(site))
    assert run(project).reasons == [
        "login0: scheduler: Run the controller: no space left on device",
        "the run ended in scheduler; storage0,worker[0-1] did not get the rest of it, nor the phases after it: monitoring",
    ]
