"""A node of a cloud: a host key from its user data, a disk that outlives it, and a metadata service that is open to every process.

A container replaces the instance, a loop device the disk, and a web server the metadata service.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.machines import PORT, USER, Machines, podman
from support.project import Project

from rackwright.drivers.check_runner import environment, python_module
from rackwright.drivers.ssh_key_pair import generate
from rackwright.inventory import paths
from rackwright.model.targets.hosts import HostsTarget
from rackwright.plan import expand
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext
from rackwright.provider.stack.converge import Converge
from rackwright.stackfile.load import load_cluster

STACK = "cloud"
METADATA = "169.254.169.254"
_DISK_MIB = 64


async def _said(_: str) -> None:
    """Discard a progress message."""


OPERATION = RequestContext("urn", STACK, "converge", preview=False, status=_said, info=_said, warn=_said)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield an empty disk."""
    image = tmp_path_factory.mktemp("disk") / "image"
    with image.open("wb") as stream:
        stream.truncate(_DISK_MIB * 2**20)
    made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this machine gives no loop device to stand in for a disk: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


@dataclass
class Cloud:
    """One instance at a time, its disk, and the record of the last run."""

    machines: Machines
    disk: str
    public_key: str
    private_key: str
    record: LiveResource | None = None
    births: list[str] = field(default_factory=list)
    """Public host keys that its lives were born with."""

    def launch(self) -> None:
        """Start the instance, or another one in its place."""
        if self.births:
            podman("rm", "--force", "--time", "0", "--volumes", f"{self.machines.name}-login0")
            self.machines.found.clear()
        self.machines.start("login0")
        address = self.machines.found["login0"]["address"]  # Its MAC has changed, which neighbours would learn only after their time-out.
        subprocess.run(["ip", "neighbour", "flush", "to", address], check=False, capture_output=True)
        self.births.append(self.console("cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub").strip())
        self.console(f"rm -rf /var/lib/slurm; ip address add {METADATA}/32 dev lo")
        self.console(f"systemd-run --quiet --unit=metadata python3 -m http.server --bind {METADATA} 80")

    def console(self, script: str) -> str:
        """Run a script on the instance without SSH; return its output."""
        return self.machines.on("login0", script)

    def up(self) -> LiveResource:
        """Converge the instance."""
        inputs = self.inputs()
        if self.record is None:
            self.record = asyncio.run(Converge().create(OPERATION, inputs))
        else:
            state = RecordedState(self.record.id, self.record.outputs, self.record.outputs, self.record.init_errors)
            self.record = asyncio.run(Converge().update(OPERATION, state, inputs))
        return self.record

    def look(self) -> LiveResource:
        """Return the result of a refresh."""
        assert self.record is not None
        return asyncio.run(Converge().read(OPERATION, RecordedState(self.record.id, self.inputs(), self.record.outputs)))

    def inputs(self) -> dict[str, Any]:
        """Return the inputs that a target would pass to Converge."""
        host = {
            "address": self.machines.found["login0"]["address"],
            "port": PORT,
            "user": USER,
            "public_key": self.public_key,
            "boot_public_key": self.births[-1],
            "instance_uid": podman("inspect", "--format", "{{.Id}}", f"{self.machines.name}-login0").strip(),
            "devices": {"/var/lib/slurm": self.disk},
        }
        secrets = {
            "access_key": self.machines.identity.read_text(),
            "host_keys": {"login0": self.private_key},
            "munge_key": base64.b64encode(bytes(range(256)) * 4).decode(),
            "accounting_password": "none is kept here",
        }
        return {"plan": self.plan(), "hosts": {"login0": host}, "secrets": secrets, "digests": {}}

    def plan(self) -> str:
        """Return a plan of one node with all roles."""
        machine = self.machines.found["login0"]
        target = {
            "kind": "hosts",
            "os": "debian-13",
            "user": USER,
            "port": PORT,
            "machine_type": "system-container",
            "machines": {"login0": dict(machine)},
        }
        groups = {"login": {"count": 1, "roles": ["login", "controller", "worker"], "cpus": 1, "memory": "1GiB"}}
        network = {"cidr": f"{self.machines.network}.0/24"}
        loaded = load_cluster({"target": target, "network": network, "access": {"allowed_cidrs": ["0.0.0.0/0"]}, "groups": groups})
        assert loaded.cluster is not None, loaded.findings
        return json.dumps(expand(loaded.cluster, STACK).to_data())

    def check(self, key: str) -> dict[str, Any]:
        """Return a check's result on the instance."""
        folder = paths.folder(STACK)
        places = {"--inventory": folder / "inventory.yml", "--ssh-config": folder / "ssh_config", "--results": folder / "again" / "results"}
        words = [str(word) for pair in places.items() for word in pair]
        subprocess.run(
            [*python_module("cluster"), *words, "--level", "checks"], capture_output=True, check=False, timeout=180, env=environment()
        )
        report = json.loads((folder / "again" / "report.json").read_text())
        found: dict[str, Any] = next(check for check in report["checks"] if check["id"] == f"{key}[login0]")
        return found


@pytest.fixture(scope="module")
def cloud(lab: Project, disk: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Yield an instance that has just started; the lab's image is its system, so that no package is downloaded."""
    image = lab.resources()["image"]["outputs"]["image"]
    number = int(lab.stack[1:].split("-")[0])
    identity = tmp_path_factory.mktemp("cloud") / "id_ed25519"
    machines = Machines(f"{lab.stack}-cloud", f"10.{120 + number % 60}.1", image, identity, devices=(disk,))
    public, private = generate("login0.cloud")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RACKWRIGHT_HOME", str(tmp_path_factory.mktemp("cloud-home")))
        patch.setattr(HostsTarget, "metadata_service", True)
        made = Cloud(machines, disk, public.removesuffix(" login0.cloud"), private)
        try:
            made.launch()
            yield made
        finally:
            machines.remove()


def accepted_keys(cloud: Cloud) -> list[str]:
    """Return the host keys that the stack accepts of the node."""
    return [line.partition(" ")[2] for line in paths.known_hosts(STACK).read_text().splitlines()]


def presented_keys(cloud: Cloud) -> list[str]:
    """Return the host keys that the node's server presents."""
    machine = cloud.machines.found["login0"]["address"]
    said = subprocess.run(["ssh-keyscan", "-p", str(PORT), machine], capture_output=True, text=True, check=True).stdout
    return sorted(line.partition(" ")[2] for line in said.splitlines() if not line.startswith("#"))


def run_over_new_connection(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command over a connection of its own, as the stack's configuration has it."""
    words = ["ssh", "-F", str(paths.ssh_config(STACK)), "-o", "ControlPath=none", "login0", command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)


def test_first_converge_replaces_boot_host_key(cloud: Cloud) -> None:
    assert cloud.births[0] in presented_keys(cloud) and cloud.public_key not in presented_keys(cloud)
    made = cloud.up()
    assert made.init_errors == ()
    assert presented_keys(cloud) == [cloud.public_key]
    assert accepted_keys(cloud) == [cloud.public_key]
    assert run_over_new_connection("true").returncode == 0, "and it is believed"


def test_host_key_is_readable_by_root_only(cloud: Cloud) -> None:
    assert cloud.console("stat -c '%a %U' /etc/ssh/ssh_host_ed25519_key").split() == ["600", "root"]
    assert cloud.console("cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub").strip() == cloud.public_key
    secret = cloud.private_key.splitlines()[3]
    left = cloud.console(
        f"grep -rlsF '{secret}' /etc /var/log /run /tmp /root /home || true; journalctl --no-pager | grep -cF '{secret}' || true"
    )
    assert left.split() == ["/etc/ssh/ssh_host_ed25519_key", "0"]
    kept = [file.name for file in paths.folder(STACK).rglob("*") if file.is_file() and secret in file.read_text(errors="replace")]
    assert kept == ["secrets.yml"]


def test_empty_disk_is_mounted_for_its_owner(cloud: Cloud) -> None:
    mounted = cloud.console("findmnt --noheadings --output SOURCE,FSTYPE /var/lib/slurm").split()
    assert mounted == [cloud.disk, "ext4"]
    assert cloud.console("stat -c %U /var/lib/slurm /var/lib/slurm/slurmctld").split() == ["slurm", "slurm"]
    assert "var-lib-slurm.mount" in cloud.console("systemctl show --value --property=Requires slurmctld")


def test_second_run_and_refresh_change_nothing(cloud: Cloud) -> None:
    assert (cloud.up().outputs["changes"], cloud.up().init_errors) == (0, ())
    assert cloud.look().init_errors == ()


def test_refresh_reports_and_up_remounts_unmounted_disk(cloud: Cloud) -> None:
    cloud.console("systemctl stop slurmctld slurmd && umount /var/lib/slurm")
    assert any("Mount the disks" in reason for reason in cloud.look().init_errors)
    assert cloud.up().init_errors == ()
    assert cloud.console("systemctl is-active slurmctld; mountpoint -q /var/lib/slurm && echo mounted").split() == ["active", "mounted"]


def test_only_root_reaches_metadata_service(cloud: Cloud) -> None:
    ask = f"python3 -c 'import urllib.request as r; print(r.urlopen(\"http://{METADATA}/etc/hostname\", timeout=2).status)' 2>&1 | tail -1"
    assert cloud.console(ask).strip() == "200"
    assert "Connection refused" in cloud.console(f"runuser -u nobody -- {ask}")


def test_check_reports_open_metadata_service(cloud: Cloud) -> None:
    key = "firewall.metadata_service_restricted"
    assert cloud.check(key)["verdict"] == "passed"
    cloud.console("nft flush chain inet rackwright output")
    found = cloud.check(key)
    assert (found["verdict"], found["found"]) == ("failed", "nobody: open")
    cloud.console("systemctl reload nftables")
    assert cloud.check(key)["verdict"] == "passed"


def test_recreated_node_keeps_data_and_host_key(cloud: Cloud) -> None:
    cloud.console("touch /var/lib/slurm/slurmctld/of-the-first-life && chown -R 4711:4711 /var/lib/slurm; sync")
    cloud.launch()
    assert cloud.births[0] != cloud.births[1]
    assert cloud.up().init_errors == ()
    assert cloud.console("stat -c %U /var/lib/slurm/slurmctld/of-the-first-life").strip() == "slurm"
    assert (presented_keys(cloud), accepted_keys(cloud)) == ([cloud.public_key], [cloud.public_key])


def test_disk_with_foreign_data_is_refused_with_reason(cloud: Cloud) -> None:
    cloud.console("systemctl stop slurmctld slurmd && umount /var/lib/slurm")
    subprocess.run(["wipefs", "--quiet", "--all", cloud.disk], check=True)
    subprocess.run(["mkswap", cloud.disk], check=True, capture_output=True)
    reasons = "\n".join(cloud.up().init_errors)
    assert "found swap - nothing was written" in reasons, reasons
    assert cloud.console("systemctl start slurmctld 2>/dev/null || systemctl is-active slurmctld || true").strip() != "active"
