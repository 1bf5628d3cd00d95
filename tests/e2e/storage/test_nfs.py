"""Storage over NFS on two machines with kernels of their own: served, mounted, verified and damaged by faults.

Emulated machines: they run real Linux and real NFS, and give no information on speed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml
from faults.fault_table import HELPERS, faults
from support.check_verdict import verdict
from support.emulated_machines import DISK_MIB, EmulatedMachines, missing_requirements

from rackwright.catalog.checks import Kind, checks
from rackwright.checks.cluster import test_storage
from rackwright.inventory import Host, inventory
from rackwright.inventory.reader import load
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster

ROOT = Path(__file__).resolve().parents[3]
ADDRESSES = {"worker0": "10.20.0.10", "storage0": "10.20.0.5"}
MOUNT, FOLDER = "/mnt/shared-data", "/srv/rackwright/data"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"
CLUSTER: dict[str, Any] = {
    "target": {
        "kind": "hosts",
        "os": "debian-13",
        "machines": {name: {"address": address, "host_key": KEY} for name, address in ADDRESSES.items()},
    },
    "verify_level": "checks",
    "network": {"cidr": "10.20.0.0/24"},
    "access": {"allowed_cidrs": ["10.0.2.0/24"]},
    "groups": {"worker": {"count": 1, "cpus": 1, "memory": "512MiB"}, "storage": {"count": 1, "cpus": 1, "memory": "512MiB"}},
    "storage": {"data": {"kind": "nfs", "mount": MOUNT, "size": f"{DISK_MIB}MiB"}},
    "users": {"alice": {"uid": 2001}},
}


class Stack:
    """The machines and their declaration, without the engine: the phases and the checks are under test."""

    def __init__(self, folder: Path) -> None:
        self.machines = EmulatedMachines(folder / "machines")
        self.inventory = folder / "inventory.yml"
        self.runner = folder / "runner"

    def describe(self) -> None:
        """Write the inventory of the cluster above."""
        loaded = load_cluster(CLUSTER)
        assert loaded.cluster is not None, loaded.findings
        plan = expand(loaded.cluster, "nfs")
        hosts = {name: Host(name, "127.0.0.1", KEY, "1", port) for name, port in self.machines.ports.items()}
        self.inventory.write_text(yaml.safe_dump(inventory(plan, hosts)), encoding="utf-8")

    def converge(self, *words: str) -> dict[str, int]:
        """Run the phases bootstrap and storage; return the number of changed tasks of each, by node."""
        shutil.rmtree(self.runner, ignore_errors=True)  # ansible-runner stores the last command line there, with --check, for a next run
        self.runner.mkdir()
        phases = self.inventory.with_name("phases.yml")
        phases.write_text("".join(f"- import_playbook: {ROOT}/playbooks/{phase}.yml\n" for phase in ("bootstrap", "storage")))
        done = ansible_runner.run(
            private_data_dir=str(self.runner),
            playbook=str(phases),
            inventory=str(self.inventory),
            extravars={"ansible_ssh_common_args": f"-F {self.machines.ssh_config}"},
            cmdline=" ".join(words),
            envvars={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PATH": os.environ["PATH"]},
            quiet=True,
        )
        assert done.rc == 0, done.stdout.read()
        return {name: done.stats["changed"].get(name, 0) for name in ADDRESSES}

    def look(self) -> dict[str, tuple[str, str]]:
        """Return verdict and reason of every storage check, one by one: the emulator exceeds the time-outs of a full run."""
        declared = load(self.inventory)
        specs = [spec for spec in checks().values() if spec.subject == "storage" and spec.kind is Kind.PASSIVE]
        asked = [(spec, name) for spec in specs for name in declared.members(spec.group)]
        return {
            spec.id_on(name): verdict(getattr(test_storage, f"test_{spec.name}"), declared, name, self.machines.try_on, spec.limit)
            for spec, name in asked
        }


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield two machines, up and declared: a client, and a server that uses its own folder."""
    if why := missing_requirements():
        pytest.skip(why)
    made = Stack(tmp_path_factory.mktemp("nfs"))
    made.machines.build()
    try:
        made.machines.start(**ADDRESSES)
        made.describe()
        yield made
    finally:
        made.machines.remove()


@pytest.fixture(scope="module")
def served(stack: Stack) -> EmulatedMachines:
    """Return the machines, converged."""
    stack.converge()
    return stack.machines


def test_second_converge_changes_nothing(served: EmulatedMachines, stack: Stack) -> None:
    assert stack.converge() == dict.fromkeys(ADDRESSES, 0)
    assert stack.converge("--check") == dict.fromkeys(ADDRESSES, 0)


def test_every_storage_check_passes(served: EmulatedMachines, stack: Stack) -> None:
    found = stack.look()
    assert {verdict for verdict, _ in found.values()} == {"passed"}, found
    assert {id_.split("[")[0] for id_ in found} >= {"storage.is_mounted", "storage.exports_match_plan", "storage.one_nfs_version_is_served"}


def test_clients_read_each_others_files(served: EmulatedMachines) -> None:
    for node in ADDRESSES:
        served.on(node, f"runuser -u alice -- sh -c 'echo from {node} > {MOUNT}/{node}'")
    for node in ADDRESSES:
        assert served.on(node, f"cd {MOUNT} && cat worker0 storage0").splitlines() == [f"from {name}" for name in ADDRESSES]
    assert served.on("storage0", f"stat -c %U {MOUNT}/worker0") == "alice"


def test_client_root_is_squashed(served: EmulatedMachines) -> None:
    assert served.on("worker0", f"touch {MOUNT}/by-root && stat -c %U {MOUNT}/by-root") == "nobody"
    served.on("storage0", f"runuser -u alice -- touch {MOUNT}/by-alice")
    assert "not permitted" in served.try_on("worker0", f"rm {MOUNT}/by-alice").stderr
    served.on("storage0", f"rm {MOUNT}/by-alice {FOLDER}/by-root")


def test_locked_writes_into_one_page_are_kept(served: EmulatedMachines) -> None:
    """The smoke run's tasks write in this way over NFS: client and server at once, each every second line."""
    served.on("storage0", f"runuser -u alice -- sh -c ': > {MOUNT}/together'")
    writers = [
        subprocess.Popen(["ssh", "-F", str(served.ssh_config), node, f"runuser -u alice -- python3 -c '{WRITER}' {rank} {MOUNT}/together"])
        for rank, node in enumerate(ADDRESSES)
    ]
    assert [writer.wait(timeout=900) for writer in writers] == [0, 0]
    for node in ADDRESSES:
        assert served.on(node, f"cat {MOUNT}/together").splitlines() == [f"{line:06d} writer{line % 2}" for line in range(40)]


WRITER = """
import fcntl, os, sys
rank, shared = int(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY)
for line in range(rank, 40, 2):
    fcntl.lockf(shared, fcntl.LOCK_EX, 15, line * 15)
    os.pwrite(shared, b"%06d writer%d\\n" % (line, rank), line * 15)
    fcntl.lockf(shared, fcntl.LOCK_UN, 15, line * 15)
os.fsync(shared)
"""


def test_stopped_server_blocks_clients_without_errors(served: EmulatedMachines) -> None:
    served.on("storage0", "systemctl stop nfs-server")
    command = ["ssh", "-F", str(served.ssh_config), "worker0", f"runuser -u alice -- sh -c 'echo patience > {MOUNT}/waits'"]
    waiting = subprocess.Popen(command)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=5)
    served.on("storage0", "systemctl start nfs-server")
    assert waiting.wait(timeout=900) == 0
    assert served.on("storage0", f"cat {MOUNT}/waits") == "patience"


@pytest.mark.parametrize(
    "key", ["storage.is_mounted", "storage.options_match_plan", "storage.exports_match_plan", "storage.one_nfs_version_is_served"]
)
def test_fault_fails_exactly_its_check(served: EmulatedMachines, stack: Stack, key: str) -> None:
    """The faults of tests/faults, with those that a lab cannot have."""
    fault, declared = faults()[key], load(stack.inventory)
    (node,) = fault.nodes(declared)
    known = {"MOUNT": MOUNT, "FOLDER": FOLDER}
    script = "".join(f"{name}='{value}'\n" for name, value in known.items()) + HELPERS
    served.on(node, f"{script}\n{fault.apply}")
    found = stack.look()
    served.on(node, f"{script}\n{fault.undo}")
    failed = {id_ for id_, (verdict, _) in found.items() if verdict == "failed"}
    assert {id_ for id_ in failed if id_.startswith(key)} == fault.must_turn_red(declared), found
    assert {id_.split("[")[0] for id_, (verdict, _) in found.items() if verdict != "passed"} <= {key, *fault.also}, found
    healed = stack.look()
    assert {verdict for verdict, _ in healed.values()} == {"passed"}, healed
