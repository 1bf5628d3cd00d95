"""Tuning, scratch disks and directory users on a machine with a kernel and services of its own: configured, verified, damaged by faults.

An emulated machine: it runs real Linux, tuned, mdadm, slapd and SSSD, and gives no information on speed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml
from faults.fault_table import HELPERS, faults
from support.check_verdict import verdict
from support.emulated_machines import EmulatedMachines, missing_requirements

from rackwright.catalog.checks import checks
from rackwright.checks.cluster import test_tuning
from rackwright.inventory import Host, inventory
from rackwright.inventory.reader import load
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster

ROOT = Path(__file__).resolve().parents[3]
NODE, ADDRESS = "worker0", "10.20.0.10"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"
CLUSTER: dict[str, Any] = {
    "target": {"kind": "hosts", "os": "debian-13", "machines": {NODE: {"address": ADDRESS, "host_key": KEY}}},
    "verify_level": "checks",
    "network": {"cidr": "10.20.0.0/24"},
    "access": {"allowed_cidrs": ["10.0.2.0/24"]},
    "groups": {"worker": {"count": 1, "cpus": 1, "memory": "512MiB"}},
    "users": {"alice": {"uid": 2001, "groups": ["research"]}},
    "user_groups": {"research": {"gid": 3001}},
    "tuning": {
        "profile": "latency-performance",
        "transparent_hugepages": "madvise",
        "hugepages": {"2MiB": 8},
        "sysctl": {"vm.swappiness": 11},
    },
    "scratch": {"devices": ["/dev/vdb", "/dev/vdc"], "format_empty_disks": True, "file_system": "xfs", "mount": "/local-scratch"},
}
SECRET = "a-password-that-nobody-else-may-read"
LDAP = {
    "uri": [f"ldaps://{NODE}"],
    "base": "dc=example,dc=org",
    "ca": "/etc/ldap/ca.pem",
    "access_filter": "(description=cluster)",
}
PACKAGES = (
    *("e2fsprogs", "libnss-sss", "libpam-sss", "mdadm", "sssd-common", "sssd-dbus", "sssd-ldap", "sssd-tools", "tuned", "xfsprogs"),
    *("ldap-utils", "openssl", "slapd"),
)
"""Packages of the roles, since the emulator takes minutes for a package, and the directory server that SSSD queries."""
TUNING = sorted(key for key in checks() if key.startswith("tuning."))


class Stack:
    """The machine and its declaration, without the engine: the phase and the checks are under test."""

    def __init__(self, folder: Path) -> None:
        self.machines = EmulatedMachines(folder / "machines", packages=PACKAGES, spare_disks=2)
        self.inventory = folder / "inventory.yml"
        self.runner = folder / "runner"
        self.password = folder / "password"
        self.password.write_text(f"{SECRET}\n", encoding="utf-8")

    def describe(self, **more: Any) -> None:
        """Write the inventory of the cluster above, with further settings."""
        bind = {"dn": "cn=reader,dc=example,dc=org", "password_file": str(self.password)}
        loaded = load_cluster({**CLUSTER, "directory": {"ldap": {**LDAP, "bind": bind}}, **more})
        assert loaded.cluster is not None, loaded.findings
        hosts = {name: Host(name, "127.0.0.1", KEY, "1", port) for name, port in self.machines.ports.items()}
        self.inventory.write_text(yaml.safe_dump(inventory(expand(loaded.cluster, "rack"), hosts)), encoding="utf-8")

    def run(self, *words: str) -> tuple[int, int, str]:
        """Run the phase bootstrap; return exit code, number of changed tasks and output."""
        shutil.rmtree(self.runner, ignore_errors=True)  # ansible-runner stores the last command line there, with --check, for a next run
        self.runner.mkdir()
        done = ansible_runner.run(
            private_data_dir=str(self.runner),
            playbook=f"{ROOT}/playbooks/bootstrap.yml",
            inventory=str(self.inventory),
            extravars={"ansible_ssh_common_args": f"-F {self.machines.ssh_config}"},
            cmdline=" ".join(words),
            envvars={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PATH": os.environ["PATH"]},
            quiet=True,
        )
        return done.rc, done.stats["changed"].get(NODE, 0), done.stdout.read()

    def converge(self, *words: str) -> int:
        """Run the phase, which must succeed; return the number of changed tasks."""
        code, changed, said = self.run(*words)
        assert code == 0, said[-4000:]
        return changed

    def look(self) -> dict[str, tuple[str, str]]:
        """Return verdict and reason of every tuning check, one by one: the emulator exceeds the time-outs of a full run."""
        declared = load(self.inventory)
        named = {key: getattr(test_tuning, f"test_{key.removeprefix('tuning.')}") for key in TUNING}
        return {key: verdict(check, declared, NODE, self.machines.try_on) for key, check in named.items()}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield one machine, up and declared."""
    if why := missing_requirements():
        pytest.skip(why)
    made = Stack(tmp_path_factory.mktemp("stack"))
    made.machines.build()
    try:
        made.machines.start(**{NODE: ADDRESS})
        script = Path(__file__).with_name("directory.sh").read_text(encoding="utf-8").replace("@PASSWORD@", SECRET)
        made.machines.on(NODE, script)
        made.describe()
        yield made
    finally:
        made.machines.remove()


@pytest.fixture(scope="module")
def node(stack: Stack) -> EmulatedMachines:
    """Return the machine, converged."""
    assert stack.converge() > 0
    return stack.machines


def test_second_converge_changes_nothing(node: EmulatedMachines, stack: Stack) -> None:
    assert stack.converge() == 0
    assert stack.converge("--check") == 0


def test_kernel_settings_match_stack(node: EmulatedMachines, stack: Stack) -> None:
    assert node.on(NODE, "cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages /proc/sys/vm/swappiness").split() == ["8", "11"]
    assert "[madvise]" in node.on(NODE, "cat /sys/kernel/mm/transparent_hugepage/enabled")
    assert node.on(NODE, "tuned-adm active").endswith("rackwright")
    assert node.on(NODE, "systemctl show --value --property=DefaultLimitMEMLOCK") == "infinity"
    assert node.on(NODE, "runuser -l alice -c 'ulimit -l; ulimit -n; id -nG'").split("\n") == ["unlimited", "1048576", "alice research"]
    assert {verdict for verdict, _ in stack.look().values()} == {"passed"}, stack.look()


@pytest.mark.parametrize("key", TUNING)
def test_fault_fails_exactly_its_check(node: EmulatedMachines, stack: Stack, key: str) -> None:
    fault = faults()[key]
    node.on(NODE, f"{HELPERS}\n{fault.apply}")
    found = stack.look()
    node.on(NODE, f"{HELPERS}\n{fault.undo}")
    assert {one for one, (verdict, _) in found.items() if verdict != "passed"} == {key}, found
    assert {verdict for verdict, _ in stack.look().values()} == {"passed"}, stack.look()


def test_converge_repairs_changed_setting(node: EmulatedMachines, stack: Stack) -> None:
    node.on(NODE, "sysctl --quiet --write vm.swappiness=77; echo 3 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    assert stack.converge("--check") > 0
    assert stack.converge() > 0
    assert {verdict for verdict, _ in stack.look().values()} == {"passed"}, stack.look()


def test_two_empty_disks_become_one_scratch_mount(node: EmulatedMachines) -> None:
    assert node.on(NODE, "findmnt --noheadings --output FSTYPE /local-scratch") == "xfs"
    assert "raid0" in node.on(NODE, "cat /proc/mdstat")
    node.on(NODE, "runuser -u alice -- touch /local-scratch/of-alice")
    assert node.on(NODE, "stat -c '%a %U' /local-scratch /local-scratch/of-alice").split() == ["1777", "root", "644", "alice"]


def test_stopped_array_is_assembled_with_its_files(node: EmulatedMachines, stack: Stack) -> None:
    node.on(NODE, "umount /local-scratch && mdadm --stop /dev/md/scratch")
    assert stack.converge() > 0
    assert node.on(NODE, "ls /local-scratch") == "of-alice"
    assert stack.converge() == 0


def test_disk_with_data_is_refused_and_unchanged(node: EmulatedMachines, stack: Stack) -> None:
    node.on(NODE, "umount /local-scratch && mdadm --stop /dev/md/scratch && wipefs --quiet --all /dev/vdb /dev/vdc && mkswap /dev/vdc")
    code, _, said = stack.run()
    assert code != 0 and "/dev/vdc: expected an empty disk, found swap - nothing was written to any disk" in said, said[-3000:]
    assert node.on(NODE, "wipefs --noheadings --output TYPE /dev/vdb") == ""
    node.on(NODE, "wipefs --quiet --all /dev/vdc")
    stack.describe(scratch={**CLUSTER["scratch"], "format_empty_disks": False})
    code, _, said = stack.run()
    assert code != 0 and "format_empty_disks: true" in said, said[-3000:]
    assert node.on(NODE, "wipefs --noheadings --output TYPE /dev/vdb /dev/vdc") == ""


def test_directory_users_exist_on_node(node: EmulatedMachines) -> None:
    assert node.on(NODE, "getent passwd carol").startswith("carol:*:5001:5001:")
    assert node.on(NODE, "id -nG carol").split() == ["carol", "physics"]
    assert node.on(NODE, "sss_ssh_authorizedkeys carol").startswith("ssh-ed25519 AAAA")
    assert "authorizedkeyscommand /usr/bin/sss_ssh_authorizedkeys" in node.on(NODE, "sshd -T").lower()


def test_filter_selects_logins_with_home_directory(node: EmulatedMachines) -> None:
    asked = "sssctl user-checks -a acct -s login {} 2>&1 || true"
    assert "pam_acct_mgmt: Success" in node.on(NODE, asked.format("carol"))
    assert "Permission denied" in node.on(NODE, asked.format("dave"))
    assert node.on(NODE, "su -l carol -c pwd").endswith("/home/carol")
    assert node.on(NODE, "stat -c '%U' /home/carol") == "carol"


def test_directory_password_is_readable_by_root_only(node: EmulatedMachines, stack: Stack) -> None:
    assert node.on(NODE, "stat -c '%a %U %G' /etc/sssd/sssd.conf").split() == ["640", "root", "root"]
    assert node.on(NODE, f"grep -c {SECRET} /etc/sssd/sssd.conf") == "1"
    assert "Permission denied" in node.try_on(NODE, "runuser -u alice -- cat /etc/sssd/sssd.conf").stderr
    assert node.on(NODE, f"journalctl --no-pager | grep -c {SECRET} || true") == "0"
    folders = (stack.inventory.parent, stack.runner)
    kept = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size < 2**24 and path != stack.password
    ]
    assert [path for path in kept if SECRET in path.read_text(errors="replace")] == [], (
        "neither the inventory nor what Ansible said holds it"
    )
