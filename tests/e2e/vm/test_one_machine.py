"""One machine with a kernel of its own, one role, one reboot: software RDMA, which no container can show, is there again afterwards.

An emulated machine, which gives no information on speed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml
from support.emulated_machines import EmulatedMachines, missing_requirements

pytestmark = pytest.mark.essential

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = ROOT / "tests/roles/inventories/vm.yml"
NODE, ADDRESS, CARD, DEVICE = "worker0", "10.20.0.10", "eth1", "rxe0"
_BOOT = 900
"""Seconds for an emulated machine to come back after a reboot; 48 on two quiet cores, 385 beside other work."""


class Rail:
    """The machine and its part of a plan: one card, on which the role `roce` creates an RDMA device."""

    def __init__(self, folder: Path) -> None:
        packages = ("ibverbs-utils", "perftest", "rdma-core")
        self.machines = EmulatedMachines(folder / "machines", packages=packages, kernel="linux-image-amd64", reboots=True)
        self.inventory = folder / "inventory.yml"
        self.runner = folder / "runner"

    def describe(self) -> None:
        """Write the inventory of the role tests' virtual machines, with this one as the only node."""
        described: dict[str, Any] = yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))
        node = described["all"]["hosts"][NODE]["node"]
        node |= {"rails": [DEVICE], "rail_interfaces": [{**node["rail_interfaces"][0], "name": CARD, "device": DEVICE}]}
        reached = {"ansible_host": "127.0.0.1", "ansible_port": self.machines.ports[NODE], "ansible_user": "root"}
        described["all"]["hosts"] = {NODE: {"node": node, **reached}}
        described["all"]["children"] = {"with_roce": {"hosts": {NODE: {}}}}
        self.inventory.write_text(yaml.safe_dump(described), encoding="utf-8")

    def converge(self, *words: str) -> int:
        """Run the phase rdma; return the number of changed tasks."""
        shutil.rmtree(self.runner, ignore_errors=True)  # ansible-runner stores the last command line there, with --check, for a next run
        self.runner.mkdir()
        done = ansible_runner.run(
            private_data_dir=str(self.runner),
            playbook=str(ROOT / "playbooks/rdma.yml"),
            inventory=str(self.inventory),
            extravars={"ansible_ssh_common_args": f"-F {self.machines.ssh_config}"},
            cmdline=" ".join(words),
            envvars={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PATH": os.environ["PATH"]},
            quiet=True,
        )
        assert done.rc == 0, done.stdout.read()
        return int(done.stats["changed"].get(NODE, 0))

    def on(self, command: str) -> str:
        """Return the output of a command on the machine."""
        return self.machines.on(NODE, command)

    def reboot(self) -> None:
        """Reboot the machine and wait until it is up."""
        boot_id = "cat /proc/sys/kernel/random/boot_id"
        before = self.on(boot_id)
        self.machines.try_on(NODE, "systemd-run --on-active=1 systemctl reboot")
        deadline = time.monotonic() + _BOOT
        while (
            said := self.machines.try_on(NODE, f"{boot_id}; systemctl is-system-running --wait")
        ).returncode == 255 or before in said.stdout:
            assert time.monotonic() < deadline, said.stderr
            time.sleep(1)


@pytest.fixture(scope="module")
def rail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rail]:
    """Yield the machine, up and configured."""
    if why := missing_requirements():
        pytest.skip(why)
    made = Rail(tmp_path_factory.mktemp("rail"))
    made.machines.build()
    try:
        made.machines.start(**{NODE: ADDRESS})
        made.describe()
        assert made.converge() > 0
        yield made
    finally:
        made.machines.remove()


def test_role_creates_an_active_device_and_a_second_run_changes_nothing(rail: Rail) -> None:
    assert f"link {DEVICE}/1 state ACTIVE" in rail.on("rdma link show") and f"netdev {CARD}" in rail.on("rdma link show")
    assert (rail.converge(), rail.converge("--check")) == (0, 0)


def test_device_transfers_messages(rail: Rail) -> None:
    words = f"timeout 300 ibv_rc_pingpong -d {DEVICE} -g 1 -n 20 -s 4096 -c"  # not perftest, which needs a steady clock for its report
    said = rail.on(f"{words} > /tmp/server 2>&1 & sleep 2; {words} {ADDRESS} 2>&1")
    assert "20 iters in" in said and "invalid data" not in said, said


def test_device_exists_again_after_a_reboot(rail: Rail) -> None:
    rail.reboot()
    assert f"link {DEVICE}/1 state ACTIVE" in rail.on("rdma link show")
    assert rail.converge("--check") == 0


def test_check_mode_reports_a_removed_device_and_the_role_restores_it(rail: Rail) -> None:
    rail.on(f"rdma link delete {DEVICE}")
    assert rail.converge("--check") > 0
    assert (rail.converge() > 0, rail.converge()) == (True, 0)
