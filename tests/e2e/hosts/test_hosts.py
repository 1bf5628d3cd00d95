"""The same stack on existing machines: adopted as they are, converged and verified, scanned for changes, and released."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.machines import Machines, describe
from support.project import Project, clone


@pytest.fixture(scope="module")
def machines(lab: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Yield four machines; the lab's image is their system, so that no package is downloaded."""
    image = lab.resources()["image"]["outputs"]["image"]
    number = int(lab.stack[1:].split("-")[0])
    made = Machines(f"{lab.stack}-vms", f"10.{180 + number % 60}.0", image, tmp_path_factory.mktemp("vms") / "id_ed25519")
    try:
        made.start("login0", "worker0", "worker1", "storage0")
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def hosts(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a stack on these machines, before its first `up`."""
    project = clone(tmp_path_factory.mktemp("hosts") / "checkout", number=int(machines.network.split(".")[1]))
    describe(project, machines)
    yield project
    project.remove()


def _ssh(hosts: Project, node: str, command: str) -> str:
    return hosts.ssh(node, f"sudo {command}").output


def _scanned(hosts: Project, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the results of a scan of the machines, by node."""
    said = hosts.rackwright("hosts", "scan", hosts.stack, "--json", *options)
    return said.status, {machine["node"]: machine for machine in json.loads(said.output[: said.output.rindex("}") + 1])["machines"]}


@pytest.mark.essential
def test_hosts_scan_reports_machines_and_leaves_nothing(hosts: Project, machines: Machines) -> None:
    status, seen = _scanned(hosts)
    assert status == 0 and sorted(seen) == ["login0", "storage0", "worker0", "worker1"], seen
    for name, machine in seen.items():
        assert machine["host_key"]["fingerprint"] == machines.found[name]["host_key"] and machine["root"]
        assert (machine["found"]["os"], machine["found"]["container"]) == ("debian-13", "podman")
        assert machines.on(name, "cat /home/admin/.ssh/authorized_keys").count("\n") == 1


def test_hosts_scan_writes_confirmed_host_key(hosts: Project, machines: Machines) -> None:
    hosts.edit(lambda cluster: cluster["target"]["machines"]["worker1"].pop("host_key"))
    status, seen = _scanned(hosts)
    assert status == 1 and seen["worker1"]["problems"] == ["has no host_key in the stack file"]
    vouched = machines.identity.with_name("fingerprints")
    vouched.write_text(f"worker1 {machines.found['worker0']['host_key']}\n")
    assert hosts.rackwright("hosts", "scan", hosts.stack, "--write", "--fingerprints", str(vouched)).status == 1
    vouched.write_text(f"worker1 {machines.found['worker1']['host_key']}\n")
    said = hosts.rackwright("hosts", "scan", hosts.stack, "--write", "--fingerprints", str(vouched))
    assert said.status == 0 and "1 of 1 missing host keys written" in said.output, said.output
    assert machines.found["worker1"]["host_key"] in hosts.stack_file.read_text()


def test_up_reports_all_unusable_machines_at_once(hosts: Project, machines: Machines) -> None:
    written = hosts.stack_file.read_text()
    hosts.stack_file.write_text(written.replace(machines.found["worker0"]["host_key"], "SHA256:" + "AB" * 21 + "A"))
    machines.on("worker1", "mv /etc/sudoers.d/admin /var/tmp/")
    machines.on("storage0", "sed -i 's/^VERSION_ID=.*/VERSION_ID=11/' /usr/lib/os-release")
    said = hosts.pulumi("up")
    machines.on("storage0", "sed -i 's/^VERSION_ID=.*/VERSION_ID=13/' /usr/lib/os-release")
    machines.on("worker1", "mv /var/tmp/admin /etc/sudoers.d/")
    hosts.stack_file.write_text(written)
    assert not said.ok and "Traceback" not in said.output, said.output
    assert "worker0" in said.output and "not the one the stack file gives" in said.output, said.output
    assert "admin has no passwordless sudo" in said.output and "/etc/sudoers.d/admin" in said.output, said.output
    assert "runs debian-11, declared is debian-13" in said.output, said.output
    for name in ("worker0", "worker1", "storage0"):
        keys = machines.on(name, "cat /home/admin/.ssh/authorized_keys")
        assert keys.count("\n") == 1, "only the owner's key is there"


@pytest.mark.essential
def test_up_verifies_cluster(hosts: Project) -> None:
    said = hosts.run_checked("up")
    report = hosts.report()
    assert (report["verdict"], len(report["nodes"])) == ("passed", 4), said.output
    assert {check["evidence"] for check in report["checks"]} == {"real"}


@pytest.mark.essential
def test_ordinary_user_runs_job(hosts: Project) -> None:
    said = _ssh(hosts, "login0", "runuser -l alice -c 'srun -N2 hostname'")
    assert sorted(said.split()) == ["worker0", "worker1"]


@pytest.mark.essential
def test_second_up_changes_nothing(hosts: Project) -> None:
    said = hosts.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output


def test_drift_reports_only_injected_changes(hosts: Project, machines: Machines) -> None:
    for how in ("check mode ran", "nodes answer as on"):
        said = hosts.rackwright("drift", hosts.stack)
        assert said.ok and how in said.output, said.end
    machines.on("worker1", "systemctl stop slurmd; cp -p /etc/sudoers.d/admin /etc/sudoers.d/other")
    found = hosts.rackwright("drift", hosts.stack, "--json")
    machines.on("worker1", "rm /etc/sudoers.d/other")
    named = {(one["layer"], one["node"], one["subject"]) for one in json.loads(found.output[found.output.index("{\n") :])["differences"]}
    assert {
        ("configuration", "worker1", "scheduler.Run slurmd"),
        ("behaviour", "worker1", "slurm.node_daemon_runs"),
        ("behaviour", "worker1", "baseline.etc /etc/sudoers.d/other"),
    } <= named, found.end
    healed = hosts.rackwright("drift", hosts.stack, "--reconcile", "configuration")
    assert healed.ok, healed.end


def test_refresh_reports_removed_package(hosts: Project, machines: Machines) -> None:
    """The roles do not run apt for installed packages; they read the list of installed ones."""
    machines.on("worker1", "sed -i.kept '/^Package: psmisc$/,/^$/ s/^Status: .*/Status: deinstall ok config-files/' /var/lib/dpkg/status")
    try:
        hosts.pulumi("refresh")
        said = hosts.resources()["converge"]["outputs"]
    finally:
        machines.on("worker1", "mv /var/lib/dpkg/status.kept /var/lib/dpkg/status")
    assert [reason.split(":")[:3] for reason in said["reasons"]] == [["worker1", " bootstrap", " Install the base packages"]]
    assert "psmisc" in said["reasons"][0] and not said["converged"]
    hosts.run_checked("up", "--refresh")
    assert hosts.report()["verdict"] == "passed"


def test_stack_key_is_added_beside_owner_key(hosts: Project, machines: Machines) -> None:
    keys = machines.on("worker0", "cat /home/admin/.ssh/authorized_keys").splitlines()
    assert keys[0] == machines.identity.with_suffix(".pub").read_text().strip()
    assert keys[1].endswith(f"rackwright {hosts.stack}")


def test_unreachable_machine_stays_in_stack(hosts: Project, machines: Machines) -> None:
    subprocess.run(["podman", "pause", f"{machines.name}-worker1"], check=True, capture_output=True)
    try:
        said = hosts.pulumi("refresh")
    finally:
        subprocess.run(["podman", "unpause", f"{machines.name}-worker1"], check=True, capture_output=True)
    assert "worker1" in said.output and "no SSH server responds" in hosts.resources()["worker1"]["outputs"]["status"], said.output
    hosts.run_checked("up", "--refresh")
    assert hosts.report()["verdict"] == "passed"


def test_running_job_survives_lost_state(hosts: Project) -> None:
    """A user who has lost the state directory declares the same machines again; they are adopted while they run."""
    job = _ssh(hosts, "login0", "runuser -l alice -c \"sbatch --parsable --output=/dev/null --wrap='sleep 600'\"").strip()
    (hosts.home / ".engine/state/.pulumi/stacks/rackwright" / f"{hosts.stack}.json").unlink()
    hosts.run_checked("up")
    assert hosts.report()["verdict"] == "passed"
    assert _ssh(hosts, "login0", f"squeue -h -j {job} -o %T").strip() == "RUNNING"
    _ssh(hosts, "login0", f"scancel {job}")


def test_removed_machine_leaves_slurm_and_keeps_running(hosts: Project, machines: Machines) -> None:
    def shrink(cluster: dict[str, Any]) -> None:
        cluster["groups"]["worker"]["count"] = 1
        del cluster["target"]["machines"]["worker1"]

    hosts.edit(shrink)
    hosts.run_checked("up")
    assert hosts.report()["verdict"] == "passed"
    assert _ssh(hosts, "login0", "sinfo -h -N -o %N").split() == ["worker0"]
    assert machines.on("worker1", "systemctl is-active slurmd || true").strip() != "active"
    assert f"rackwright {hosts.stack}" not in machines.on("worker1", "cat /home/admin/.ssh/authorized_keys")


@pytest.mark.essential
def test_destroy_releases_and_cleans_machines(hosts: Project, machines: Machines) -> None:
    def clean(cluster: dict[str, Any]) -> None:
        cluster["target"]["on_removal"] = "clean"

    hosts.edit(clean)
    hosts.run_checked("up")
    output = hosts.run_checked("destroy").output
    assert "remain" not in output, output  # A machine that does not respond is left as it is, with a warning.
    for name in ("login0", "worker0", "storage0"):
        left = machines.on(name, "grep -rliIs 'written by rackwright' /etc || true; systemctl is-active slurmd slurmctld slurmdbd || true")
        assert "/etc" not in left and "\nactive" not in f"\n{left}", f"{name}: {left}"
        assert (
            machines.on(name, "cat /home/admin/.ssh/authorized_keys").strip() == machines.identity.with_suffix(".pub").read_text().strip()
        )
    assert not (Path(hosts.home) / hosts.stack / "id_ed25519").exists()
