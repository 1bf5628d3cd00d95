"""When a role takes a driver away that programs may use, on a machine with stand-ins for what it asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rackwright.yaml_loader import load_yaml

ROLES = Path(__file__).parents[2] / "roles"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
SET = {"packages": {"pinning": [], "driver": ["nvidia-open=580.1"], "per-kernel": []}}
NODE = {"name": "login0", "os": "debian-12", "roles": ["login"], "gpus": {"driver": "580.1", "modules": "open"}}


@pytest.fixture
def replaced(steps: Any) -> Callable[..., tuple[bool, str]]:
    """Whether the role installs over a loaded 570.1, and what it said, with an nvidia-smi whose output and exit status are given."""

    def run(says: str, status: int, *, rolled: bool = False) -> tuple[bool, str]:
        cluster = {"software": {"package_sets": {"debian-12-open": SET}, "gpudirect": "off"}}
        variables = {"node": NODE, "cluster": cluster, "nodes_in_maintenance": ["login0"] if rolled else []}
        tools = {
            "nvidia-smi": f"echo '{says}'; exit {status}",
            "cat": 'case $1 in */nvidia/version) echo 570.1;; *) exec /bin/cat "$@";; esac',
        }
        done = steps("nvidia_driver", "roll", "install", variables=variables, tools=tools)
        return done.good and any("nvidia-open=580.1" in step.get("name", []) for step in done.recorded), done.said

    return run


def test_programs_keep_their_driver(replaced: Any) -> None:
    gone, said = replaced("4711, python", 0)
    assert not gone and "programs use driver 570.1, which 580.1 replaces (4711, python)" in said, said
    assert replaced("", 0)[0]


def test_a_broken_nvidia_smi_is_no_program_and_nobody_knows_who_computes(replaced: Any) -> None:
    gone, said = replaced(MISMATCH, 18)
    assert not gone and f"unknown programs may use driver 570.1 ({MISMATCH})" in said and "reboot it" in said, said
    gone, said = replaced(MISMATCH, 18, rolled=True)
    assert gone, said


def test_every_kernel_gets_its_initial_ram_disk_anew() -> None:
    """The next start may be of the newest kernel, and it was the running one's that was found stale."""
    tasks = load_yaml((ROLES / "nvidia_driver" / "tasks" / "service.yml").read_text(encoding="utf-8"))
    (command,) = (task["ansible.builtin.command"] for task in tasks if task["name"] == "Rebuild the initramfs of every kernel")
    assert "update-initramfs -u -k all" in command and "dracut --force --regenerate-all" in command


@pytest.mark.parametrize(
    ("package", "release", "refused"),
    [
        ("installed", "3.2.1", True),
        ("installed", "3.2.3", False),
        ("", "", False),
    ],
)
def test_another_release_of_doca_is_refused_and_not_passed_over(steps: Any, package: str, release: str, refused: bool) -> None:
    """Without it, a changed version would be written to the list of sources and reported as done."""
    node = {"name": "worker0", "os": "debian-12", "roles": ["worker"]}
    tools = {"dpkg-query": f"echo '{package}'; test -n '{package}'", "sed": f"echo '{release}'; test -n '{release}'"}
    variables = {"node": node, "cluster": {"preinstalled_roles": []}, "node_stack": {"rdma": {"doca": {"version": "3.2.3"}}}}
    done = steps("doca_ofed", "release", variables=variables, tools=tools, words="--check")
    assert done.good is not refused, done.said
    assert ("worker0: DOCA-Host 3.2.1 is installed, 3.2.3 is declared" in done.said) is refused
