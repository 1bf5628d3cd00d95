"""Steps of roles on this machine, where what they ask is answered by stand-ins and what they change is recorded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import pytest

from rackwright import layout

from .written import Step

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]


@dataclass(frozen=True)
class Ran:
    """What came of some steps."""

    good: bool
    said: str
    told: dict[str, str]
    """By name of a task: changed, ok, skipped or failed."""
    recorded: list[dict[str, Any]]
    """What the modules of the collection were asked."""


def stand_ins(folder: Path) -> str:
    """Write the project's collection with `stand_in.py` in place of each module, and return the folder in which Ansible finds it."""
    product, own = layout.product_root(), folder / "stand-ins" / layout.COLLECTION
    if not own.exists():
        (own / "plugins" / "action").mkdir(parents=True)
        for name in ("roles", "meta", "plugins/filter", "plugins/modules", "plugins/module_utils"):
            (own / name).symlink_to(product / layout.COLLECTION / name)
        for module in (product / layout.MODULES).glob("*.py"):
            (own / "plugins" / "action" / module.name).symlink_to(HERE / "stand_in.py")
    return str(folder / "stand-ins")


def play(
    folder: Path, playbook: str, inventory: Path, variables: Mapping[str, Any], words: str, **environment: str
) -> list[dict[str, Any]]:
    """Run a playbook beside this file on made-up nodes, of which nothing is asked; return the events of the tasks that went well.

    It runs with --check: should a real module ever run, it must not touch this machine.
    """
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    done = ansible_runner.run(
        private_data_dir=str(folder),
        playbook=str(HERE / playbook),
        inventory=str(inventory),
        extravars={**local, **variables},
        cmdline=f"--check {words}",
        envvars={
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": stand_ins(folder),
            "ANSIBLE_STRATEGY": "unforked",
            "ANSIBLE_STRATEGY_PLUGINS": str(HERE / "strategy_plugins"),
            "PATH": os.environ["PATH"],
            **environment,
        },
        quiet=True,
    )
    assert done.rc == 0, done.stdout.read()
    return [event["event_data"] for event in done.events if event["event"] == "runner_on_ok"]


def recorded_steps(events: list[dict[str, Any]]) -> list[Step]:
    """What the modules of the collection were asked; other tasks check arguments against their specs."""
    return [
        Step(event["host"], f"{event['play_uuid']} {event['task_path']}", event["res"]["recorded"])
        for event in events
        if "recorded" in event.get("res", {})
    ]


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., Ran]:
    """Task files of a role, in order, on a node with such variables and such tools before its own; `words` go to ansible-playbook."""

    def run(role: str, *files: str, variables: Mapping[str, Any], tools: Mapping[str, str], words: str = "") -> Ran:
        (tmp_path / "runner").mkdir(exist_ok=True)
        (tmp_path / "tools").mkdir(exist_ok=True)
        for name, body in tools.items():
            (tmp_path / "tools" / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / "tools" / name).chmod(0o755)
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        tasks = [
            {"ansible.builtin.include_role": {"name": f"{layout.COLLECTION_NAME}.{role}", "tasks_from": file, "rolespec_validate": False}}
            for file in files
        ]
        play = [{"hosts": "all", "gather_facts": False, "vars": {**local, **variables}, "tasks": tasks}]
        (tmp_path / "play.yml").write_text(json.dumps(play))
        done = ansible_runner.run(
            private_data_dir=str(tmp_path / "runner"),
            playbook=str(tmp_path / "play.yml"),
            inventory="node0,",
            cmdline=words,
            envvars={
                "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": stand_ins(tmp_path),
                "ANSIBLE_STRATEGY": "unforked",
                "ANSIBLE_STRATEGY_PLUGINS": str(HERE / "strategy_plugins"),
                "PATH": f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}",
            },
            quiet=True,
        )
        told: dict[str, str] = {}
        for event in done.events:
            word = event["event"].removeprefix("runner_on_")
            if word in ("ok", "skipped", "failed"):
                data = event["event_data"]
                told[data["task"]] = "changed" if word == "ok" and data["res"].get("changed") else word
        recorded = [event.get("event_data", {}).get("res", {}).get("recorded") for event in done.events]
        return Ran(done.rc == 0, " ".join(done.stdout.read().split()), told, [step for step in recorded if step])

    return run
