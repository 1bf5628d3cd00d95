"""Machines without a stack: containers that are set up like another owner's VMs, with an sshd, a user and keys of their own."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.project import Project

from rackwright.drivers import cgroups
from rackwright.drivers.podman import limits

PORT = 2200
USER = "admin"
_LABEL = "rackwright.test.machines"
_SET_UP = f"""
set -e
id {USER} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash {USER}
install -d -m 0700 -o {USER} -g {USER} /home/{USER}/.ssh
cat > /home/{USER}/.ssh/authorized_keys
chown {USER}:{USER} /home/{USER}/.ssh/authorized_keys
chmod 0600 /home/{USER}/.ssh/authorized_keys
echo '{USER} ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/{USER}
chmod 0440 /etc/sudoers.d/{USER}
rm -f /etc/ssh/ssh_host_*_key* && ssh-keygen -A >/dev/null
printf 'Port {PORT}\\nPermitRootLogin no\\nPasswordAuthentication yes\\n' > /etc/ssh/sshd_config.d/50-provider.conf
systemctl reset-failed
systemctl restart ssh
ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub | cut -d ' ' -f 2
"""


@dataclass
class Machines:
    """Some machines in one network, their user's key, and what their host keys are."""

    name: str
    network: str
    image: str
    identity: Path
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    """Devices of this machine inside the containers."""

    def start(self, *names: str) -> None:
        """Switch machines on for the first time."""
        if not self.identity.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.identity)], check=True)
            podman("network", "create", "--label", f"{_LABEL}={self.name}", "--subnet", f"{self.network}.0/24", self.name)
        hidden = [] if cgroups.is_cgroup_v2() else cgroups.hide_unmounted()
        for name in names:
            address = f"{self.network}.{10 + len(self.found)}"
            # This machine does not reach the network of rootless containers: the first machine has a port forward, as behind a NAT router.
            forward = {"ssh_address": "127.0.0.1", "port": _free_port(), "sshd_port": PORT} if os.geteuid() and not self.found else {}
            published = ("--publish", f"127.0.0.1:{forward['port']}:{PORT}") if forward else ()
            podman(
                *("run", "--detach", "--name", f"{self.name}-{name}", "--hostname", f"vm-{name}", "--label", f"{_LABEL}={self.name}"),
                *("--no-hosts", "--http-proxy=false", "--systemd=always", "--network", self.name, "--ip", address, *published, *limits()),
                *("--cap-add", "SYS_ADMIN,NET_ADMIN,MKNOD", "--device", "/dev/fuse"),
                *(word for device in self.devices for word in ("--device", device)),
                *(self.image, "/bin/sh", "-c", "; ".join([*hidden, "exec /sbin/init"])),
            )
            self.found[name] = {"address": address, "host_key": self.set_up(name), **forward}

    def set_up(self, name: str) -> str:
        """Create its user and its host keys; return the fingerprint as on its console."""
        self.on(name, "until systemctl list-units >/dev/null 2>&1; do sleep 0.1; done")
        return self.on(name, _SET_UP, stdin=self.identity.with_suffix(".pub").read_text()).strip().splitlines()[-1]

    def on(self, name: str, script: str, *, stdin: str = "") -> str:
        """Run a script on a machine's console; return its output."""
        return podman("exec", "--interactive", f"{self.name}-{name}", "sh", "-c", script, stdin=stdin)

    def remove(self) -> None:
        """Remove all of them."""
        label = f"label={_LABEL}={self.name}"
        for listing, removal in ((("ps", "-a"), ("rm", "--force", "--time", "0", "--volumes")), (("network", "ls"), ("network", "rm"))):
            if names := podman(*listing, "-q", "--filter", label).split():
                podman(*removal, *names)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def podman(*arguments: str, stdin: str = "") -> str:
    """Run podman; return its output."""
    cgroup_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    command = ["podman", *(() if cgroup_v2 else ("--runtime", "runc")), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, input=stdin)
    assert ended.returncode == 0, f"{' '.join(command[:4])}: {ended.stderr}"
    return ended.stdout


def describe(project: Project, machines: Machines) -> None:
    """Turn the copy's stack into one on these machines."""

    def change(cluster: dict[str, Any]) -> None:
        cluster.pop("chaos", None)  # Only on targets whose nodes this machine runs (rule chaos-target).
        cluster["target"] = {
            "kind": "hosts",
            "os": "debian-13",
            "user": USER,
            "port": PORT,
            "ssh_private_key_file": str(machines.identity),
            "machine_type": "system-container",
            "jump_host": "login0",
            "machines": dict(machines.found),
        }
        del cluster["access"]["port"], cluster["access"]["bind_address"]
        for group in cluster["groups"].values():
            group.update(cpus=2, memory="2GiB")
            group.pop("gpus", None)
        for limited in (*cluster["scheduler"]["accounts"].values(), *cluster["scheduler"]["qos"].values()):
            limited.pop("grp_gpus", None)
            limited.pop("max_gpus_per_user", None)
        cluster.pop("fabric", None)  # The fabric connects GPUs, and real machines would have real adapters.

    project.edit(change)
