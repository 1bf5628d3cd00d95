"""Power saving on existing machines: Slurm's controller switches an idle worker off and on through its BMC.

Simulated: the BMC (tests/standins/bmc), and the machine behind it, which is a container. Real: Slurm's requests, the service on the
controller, Redfish over TLS with a pinned certificate, and the boot of the worker's system.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from standins.bmc.container_machine import MachineInContainer
from standins.bmc.profiles import IDRAC
from standins.bmc.service import EmulatedBmc, serving
from support.hang import HANG_SECONDS
from support.machines import PORT, USER, Machines
from support.project import Project, clone

PASSWORD = "canary-of-a-bmc"
SAVING = {"suspend_time": "90s", "suspend_timeout": "60s", "resume_timeout": "120s"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a copy of the project, whose network no other test has."""
    project = clone(tmp_path_factory.mktemp("sleeping") / "checkout", like="lab-small")
    yield project
    project.remove()


@pytest.fixture(scope="module")
def machines(lab: Project, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Yield a controller and a worker; the lab's image is their system, so that no package is downloaded."""
    network = project.stack.split("-")[0].replace("t", "10.") + ".0"
    folder = tmp_path_factory.mktemp("vms")
    made = Machines(f"{project.stack}-vms", network, lab.resources()["image"]["outputs"]["image"], folder / "id_ed25519")
    try:
        made.start("login0", "worker0")
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def bmc(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBmc]:
    """Yield the worker's BMC, at this machine's address in the machines' network."""
    machine = MachineInContainer(f"{machines.name}-worker0")
    bmc = EmulatedBmc(IDRAC, machine, PASSWORD)
    with ExitStack() as running:
        running.callback(machine.end)
        yield running.enter_context(serving(bmc, tmp_path_factory.mktemp("bmc"), f"{machines.network}.1"))


@pytest.fixture(scope="module")
def sleeping(project: Project, machines: Machines, bmc: EmulatedBmc) -> Project:
    """Return the stack on these machines, up and verified."""
    secret = machines.identity.with_name("bmc-password")
    secret.write_text(f"{PASSWORD}\n")
    secret.chmod(0o600)
    power = {"kind": "redfish", "username": bmc.username, "password_file": str(secret)}
    own = {"address": f"{machines.network}.1", "port": bmc.port, "certificate": bmc.fingerprint}

    def describe(cluster: dict[str, Any]) -> None:
        cluster["target"] = {
            "kind": "hosts",
            "os": "debian-13",
            "user": USER,
            "port": PORT,
            "machine_type": "system-container",
            "power": power,
            "ssh_private_key_file": str(machines.identity),
            "machines": {"login0": machines.found["login0"], "worker0": {**machines.found["worker0"], "power": own}},
        }
        del cluster["access"]["port"], cluster["access"]["bind_address"], cluster["storage"]
        cluster["groups"] = {
            "login": {"count": 1, "roles": ["login", "controller", "accounting"], "cpus": 2, "memory": "1536MiB"},
            "worker": {"count": 1, "cpus": 2, "memory": "1GiB"},
        }
        cluster["scheduler"]["power_saving"] = dict(SAVING)

    project.edit(describe)
    project.run_checked("up", timeout=2400)
    assert project.report()["verdict"] == "passed"
    return project


def _state(sleeping: Project) -> str:
    said = sleeping.ssh("login0", "scontrol --oneliner show node worker0")
    return next(word for word in said.output.split() if word.startswith("State="))


def _journal(sleeping: Project) -> str:
    return sleeping.ssh("login0", "sudo journalctl --unit rackwright-slurm-power --no-pager --output cat").output


def _falls_asleep(sleeping: Project, bmc: EmulatedBmc) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while bmc.machine.is_on() or "POWERED_DOWN" not in _state(sleeping):
        assert time.monotonic() < deadline, f"{_state(sleeping)}\n{_journal(sleeping)}"
        time.sleep(2)


def test_idle_machine_is_shut_down_and_up_changes_nothing(sleeping: Project, bmc: EmulatedBmc) -> None:
    _falls_asleep(sleeping, bmc)
    assert bmc.machine.resets == ["GracefulShutdown"] and bmc.sessions == {}, _journal(sleeping)
    said = sleeping.run_checked("up")
    assert "no changes. " in said.output and not bmc.machine.is_on(), said.output


def test_drift_scan_powers_the_machine_on_and_finds_nothing(sleeping: Project, bmc: EmulatedBmc) -> None:
    said = sleeping.rackwright("drift", sleeping.stack)
    assert said.ok and bmc.machine.resets[-1] == "On", said.end + _journal(sleeping)


def test_job_powers_the_machine_on(sleeping: Project, bmc: EmulatedBmc) -> None:
    _falls_asleep(sleeping, bmc)
    before = len(bmc.machine.resets)
    said = sleeping.ssh("login0", "sudo runuser -l alice -c 'srun hostname'", timeout=HANG_SECONDS)
    assert said.ok and said.output.splitlines()[-1] == "worker0", said.output + _journal(sleeping)
    assert bmc.machine.resets[before:] == ["On"]


def test_refresh_finds_nothing(sleeping: Project, bmc: EmulatedBmc) -> None:
    _falls_asleep(sleeping, bmc)
    said = sleeping.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output
    assert bmc.machine.is_on()


def test_password_is_on_the_controller_alone(sleeping: Project) -> None:
    mode = sleeping.ssh("login0", "sudo stat --format '%a %U' /etc/rackwright/bmc-power.json").output.split()
    assert mode[-2:] == ["600", "root"]
    files = [file for file in sleeping.home.rglob("*") if file.is_file()]
    assert [str(file) for file in files if PASSWORD.encode() in file.read_bytes()] == []
    assert PASSWORD not in _journal(sleeping)


def test_machine_stays_on_and_logins_are_removed_without_power_saving(sleeping: Project) -> None:
    sleeping.edit(lambda cluster: cluster["scheduler"].pop("power_saving"))
    sleeping.run_checked("up")
    said = sleeping.ssh("login0", "ls /etc/rackwright/bmc-power.json; systemctl is-active rackwright-slurm-power").output
    assert "No such file" in said and "inactive" in said, said


def test_destroy_releases_the_machines(sleeping: Project, machines: Machines) -> None:
    sleeping.run_checked("destroy")
    assert machines.on("worker0", "cat /home/admin/.ssh/authorized_keys").count("\n") == 1
