"""Four machines that rackwright did not create, slow and one of them behind a mapped port: adopted, configured, verified and released.

Emulated machines with kernels of their own, on a machine that has other work: target `hosts` as with the cheapest VMs of a provider.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.emulated_machines import EmulatedMachines, missing_requirements
from support.project import Project, clone
from support.role_packages import packages_of

USER = "admin"
ADDRESSES = {"login0": "10.20.0.2", "worker0": "10.20.0.3", "worker1": "10.20.0.4", "storage0": "10.20.0.5"}
MEMORY_MIB = {"login0": 1664, "worker0": 960, "worker1": 960, "storage0": 960}
ROLES = ("base", "firewall", "moosefs_client", "moosefs_server", "munge", "slurm_controller", "slurm_worker", "slurmdbd")
"""Roles whose packages are in the image: the emulator takes minutes for a package."""
UP = 5400
"""Seconds: four emulated machines share two cores with a busy loop."""


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core of this machine busy."""
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedMachines]:
    """Yield four machines with a user and sudo, as a provider delivers them."""
    if why := missing_requirements():
        pytest.fail(why)
    packages = tuple(sorted({name for role in ROLES for name in packages_of(role)}))
    folder = tmp_path_factory.mktemp("machines") / "machines"
    # They fail without a configuration on machines that are not theirs, or have 150 MiB of their memory.
    daemons = ("slurmctld", "slurmd", "slurmdbd", "mariadb")
    made = EmulatedMachines(folder, packages=packages, disabled=daemons, disk_mib=6000, memory_mib=MEMORY_MIB, user=USER)
    made.build()
    try:
        made.start(**ADDRESSES)
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def hosts(machines: EmulatedMachines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a stack that describes them; only the login node can be reached from here, through a mapped port."""
    project = clone(tmp_path_factory.mktemp("adopted") / "checkout", like="budget-vms")
    keys = {name: machines.on(name, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1] for name in ADDRESSES}

    def describe(cluster: dict[str, Any]) -> None:
        described: dict[str, Any] = {name: {"address": address, "host_key": keys[name]} for name, address in ADDRESSES.items()}
        described["login0"] |= {"ssh_address": "127.0.0.1", "port": machines.ports["login0"], "sshd_port": 22}
        cluster["target"] |= {"machines": described, "user": USER, "ssh_private_key_file": str(machines.folder / "id")}
        cluster["network"] = {"cidr": "10.20.0.0/24"}
        cluster["access"] = {"allowed_cidrs": ["10.0.2.0/24"]}
        cluster["storage"]["sharedfs"]["size"] = "1GiB"
        cluster["groups"]["login"] |= {"cpus": 1, "memory": "1500MiB"}
        for group in ("worker", "storage"):
            cluster["groups"][group] |= {"cpus": 1, "memory": "850MiB"}

    project.edit(describe)
    try:
        yield project
    finally:
        project.remove()


def test_first_up_verifies_four_slow_machines(hosts: Project, machines: EmulatedMachines) -> None:
    with busy_core():
        said = hosts.pulumi("up", timeout=UP)
    assert said.ok, said.end
    report = hosts.report()
    assert (report["verdict"], sorted(node["name"] for node in report["nodes"])) == ("passed", sorted(ADDRESSES)), report["totals"]
    assert not [check for check in report["checks"] if check["verdict"] in ("failed", "unknown")]


def test_second_up_changes_nothing(hosts: Project) -> None:
    said = hosts.run_checked("up", timeout=UP)
    assert "unchanged" in said.output and "updated" not in said.output, said.end


def test_job_of_an_ordinary_user_runs_on_both_workers(hosts: Project) -> None:
    said = hosts.ssh("login0", "sudo runuser -l alice -c 'srun -N2 hostname'", timeout=300)
    # slurmd sends srun a message about a prolog that takes longer than 8 s, which it does where Python needs a second to start.
    printed = [line for line in said.output.splitlines() if not line.startswith("srun: Prolog hung on node")]
    assert sorted(printed) == ["worker0", "worker1"], said.end


def test_release_keeps_the_machines_and_their_owners_key(hosts: Project, machines: EmulatedMachines) -> None:
    hosts.run_checked("destroy", timeout=UP)
    for name, address in ADDRESSES.items():
        # The packet filter stays (`on_removal: keep`): it admits connections from outside to the login node only.
        through = () if name == "login0" else ("ProxyJump=login0", f"HostName={address}", "Port=22", "ControlPath=none")
        keys = machines.on(name, f"cat /home/{USER}/.ssh/authorized_keys", *through)
        assert keys.count("\n") == 0 and "ssh-ed25519" in keys, f"{name} has other keys than its owner's"
    assert not (hosts.home / hosts.stack / "inventory.yml").exists()
