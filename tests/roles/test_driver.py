"""When nvidia_driver takes a driver away, on a machine with stand-ins for its driver and its nvidia-smi."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
SET = {"packages": {"pinning": [], "driver": ["nvidia-open=580.1"], "per-kernel": []}}


@pytest.fixture
def replaced(tmp_path: Path) -> Any:
    """Whether the role installs over a loaded 570.1, and what it said, with an nvidia-smi that says and ends as told."""

    def run(says: str, status: int, *, rolled: bool = False) -> tuple[bool, str]:
        node = {"name": "login0", "os": "debian-12", "roles": ["login"], "gpus": {"driver": "580.1", "modules": "open"}}
        cluster = {"software": {"sets": {"debian-12-open": SET}, "gpudirect": "off"}}
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (tmp_path / "runner").mkdir(exist_ok=True)
        (tmp_path / "vars.json").write_text(json.dumps({**local, "node": node, "cluster": cluster, "rolled": ["login0"] if rolled else []}))
        tools = {
            "nvidia-smi": f"echo '{says}'; exit {status}",
            "cat": 'case $1 in */nvidia/version) echo 570.1;; *) exec /bin/cat "$@";; esac',
        }
        for name, body in tools.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / name).chmod(0o755)
        done = ansible_runner.run(
            private_data_dir=str(tmp_path / "runner"),
            playbook=str(HERE / "driver.yml"),
            inventory="login0,",
            cmdline=f"-e @{tmp_path / 'vars.json'}",
            envvars={
                "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
                "ANSIBLE_STRATEGY": "linear",
                "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            },
            quiet=True,
        )
        asked = [event.get("event_data", {}).get("res", {}).get("recorded", {}) for event in done.events]
        return done.rc == 0 and any("nvidia-open=580.1" in step.get("name", []) for step in asked), " ".join(done.stdout.read().split())

    return run


def test_programs_keep_their_driver(replaced: Any) -> None:
    gone, said = replaced("4711, python", 0)
    assert not gone and "programs use driver 570.1, which 580.1 replaces (4711, python)" in said, said
    assert replaced("", 0)[0]


def test_a_broken_nvidia_smi_is_no_program_and_nobody_knows_who_computes(replaced: Any) -> None:
    gone, said = replaced(MISMATCH, 18)
    assert not gone and f"nobody can tell who uses driver 570.1 ({MISMATCH})" in said and "reboot it" in said, said
    gone, said = replaced(MISMATCH, 18, rolled=True)
    assert gone, said


def test_every_kernel_gets_its_initial_ram_disk_anew() -> None:
    """The next start may be of the newest kernel, and it was the running one's that was found stale."""
    tasks = yaml.safe_load((PROJECT / "roles/nvidia_driver/tasks/service.yml").read_text(encoding="utf-8"))
    (command,) = (task["ansible.builtin.command"] for task in tasks if task["name"] == "Make the initial RAM disk anew")
    assert "update-initramfs -u -k all" in command and "dracut --force --regenerate-all" in command
