"""Machines with kernels of their own, for tests that containers cannot run: small Debian VMs under QEMU's emulator, without KVM.

They share one network, one read-only disk image, and the key of the test. Each boots in about 20 s.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rackwright.drivers.vm.emulated_processor import emulated_processor, qemu_version

PACKAGES: Final = (
    *("ca-certificates", "dbus", "iproute2", "openssh-server", "procps", "python3-apt", "python3-minimal", "systemd", "systemd-sysv"),
    *("initramfs-tools", "udev"),
    *("chrony", "iputils-ping", "nfs-kernel-server", "nftables", "psmisc", "sudo", "tzdata"),
)
"""Packages of a machine, its kernel, and those that the roles install: the emulator takes minutes for a package."""
DISK_MIB: Final = 2000
SPARE_MIB: Final = 512
_ROOTS_HOME: Final = "root"
"""Folder of the key in the image."""
_OWN_HOST_KEYS: Final = "'[Service]' 'ExecStartPre=' 'ExecStartPre=/usr/bin/ssh-keygen -A' 'ExecStartPre=/usr/sbin/sshd -t'"
"""A drop-in of ssh.service: Debian's own ExecStartPre tests the configuration, which fails without a key."""
_BOOT: Final = 600.0
"""Seconds; 20 for one on two quiet cores, several minutes on a machine that has other work."""


def missing_requirements() -> str:
    """Return why such a machine cannot be created here, or an empty text."""
    tools = [tool for tool in ("qemu-system-x86_64", "mmdebstrap", "mke2fs") if shutil.which(tool) is None]
    if tools:
        return f"not installed: {', '.join(tools)} (apt install qemu-system-x86 mmdebstrap e2fsprogs)"
    return "" if os.geteuid() == 0 else "only root can write other users' files into a disk image"


@dataclass
class EmulatedMachines:
    """Some VMs in the network 10.20.0.0/24, reached over SSH on this machine's ports."""

    folder: Path
    sockets: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rw-")))
    """Folder for the sockets of persistent connections: the emulator takes seconds for an SSH handshake. Socket paths must be short."""
    packages: tuple[str, ...] = ()
    """Packages in addition to those above."""
    disabled: tuple[str, ...] = ()
    """Services that their packages enable, and that a provider's image does not have."""
    spare_disks: int = 0
    """Empty disks of each machine: /dev/vdb and so on."""
    disk_mib: int = DISK_MIB
    memory_mib: dict[str, int] = field(default_factory=dict)
    """Memory by machine; 640 where it is not given."""
    kernel: str = "linux-image-cloud-amd64"
    """Package of the kernel; only linux-image-amd64 has software RDMA (rdma_rxe)."""
    reboots: bool = False
    """Whether a machine starts again after a reboot; otherwise it ends, as after a panic."""
    user: str = ""
    """An ordinary user with the same key and sudo without a password, as on the image of a provider."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def ssh_config(self) -> Path:
        """Return the SSH configuration with each machine by its name."""
        return self.folder / "ssh_config"

    def build(self) -> None:
        """Build the disk image, the kernel and the key, which takes about a minute."""
        self.folder.mkdir(parents=True)
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "id"))
        root = self.folder / "root"
        key = f'install -D -m 0600 {self.folder}/id.pub "$1"/{_ROOTS_HOME}/.ssh/authorized_keys'
        network = 'chroot "$1" systemctl --quiet enable systemd-networkd'
        # Takes minutes of the emulator's time at every start, and searches for disks that do not exist.
        idle = 'chroot "$1" systemctl --quiet mask e2scrub_reap.service'
        # The machines have one image, and each needs a host key of its own.
        host_keys = 'rm "$1"/etc/ssh/ssh_host_*; install -d "$1"/etc/systemd/system/ssh.service.d'
        drop_in = f'printf "%s\\n" {_OWN_HOST_KEYS} > "$1"/etc/systemd/system/ssh.service.d/host-keys.conf'
        disable = [f'chroot "$1" systemctl --quiet disable {" ".join(self.disabled)}'] if self.disabled else []
        hooks = [f"--customize-hook={hook}" for hook in (key, network, idle, host_keys, drop_in, *disable, *self._add_user())]
        _run(
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={','.join((*PACKAGES, self.kernel, *self.packages))}",
            *hooks,
            "trixie",
            str(root),
        )
        for name in ("vmlinuz", "initrd.img"):
            (self.folder / name).write_bytes(next((root / "boot").glob(f"{name}-*")).read_bytes())
        with (self.folder / "disk").open("wb") as disk:
            disk.truncate(self.disk_mib * 2**20)
        _run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(self.folder / "disk"))
        shutil.rmtree(root)

    def _add_user(self) -> list[str]:
        if not self.user:
            return []
        ssh = f"/home/{self.user}/.ssh"
        return [
            f'chroot "$1" useradd --create-home --shell /bin/bash {self.user}',
            f'install -D -m 0600 {self.folder}/id.pub "$1"{ssh}/authorized_keys && chroot "$1" chown -R {self.user}: {ssh}',
            f'echo "{self.user} ALL=(ALL) NOPASSWD:ALL" > "$1"/etc/sudoers.d/{self.user}',
        ]

    def start(self, **addresses: str) -> None:
        """Switch machines on, and wait until all can be logged in to."""
        lan = f"230.0.0.1:{_free_port()}"
        for number, (name, address) in enumerate(addresses.items()):
            self.ports[name] = _free_port()
            with (self.folder / f"{name}.console").open("wb") as console:
                command = self._command(name, number, address, lan)
                self.running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.ssh_config.write_text(self._ssh_config(), encoding="utf-8")
        for name in addresses:
            self._await(name)

    def _command(self, name: str, number: int, address: str, lan: str) -> list[str]:
        interfaces = f"net.ifnames=0 ip=10.0.2.15:::255.255.255.0::eth0:none ip={address}:::255.255.255.0::eth1:none"
        return [
            *(
                "qemu-system-x86_64",
                "-accel",
                "tcg",
                "-cpu",
                emulated_processor(qemu_version()),
                "-m",
                str(self.memory_mib.get(name, 640)),
                "-nographic",
            ),
            *(() if self.reboots else ("-no-reboot",)),
            *("-kernel", str(self.folder / "vmlinuz"), "-initrd", str(self.folder / "initrd.img")),
            *("-append", f"root=/dev/vda rw console=ttyS0 panic=-1 systemd.hostname={name} {interfaces}"),
            *("-drive", f"file={self.folder / 'disk'},if=virtio,format=raw,snapshot=on"),
            *(word for disk in self._spare(name) for word in ("-drive", f"file={disk},if=virtio,format=raw")),
            *("-netdev", f"user,id=out,restrict=on,hostfwd=tcp:127.0.0.1:{self.ports[name]}-10.0.2.15:22"),
            *("-device", "virtio-net-pci,netdev=out"),
            *("-netdev", f"socket,id=lan,mcast={lan},localaddr=127.0.0.1"),
            *("-device", f"virtio-net-pci,netdev=lan,mac=52:54:00:12:34:{number:02x}"),
        ]

    def _spare(self, name: str) -> list[Path]:
        """Return its empty, writable disks."""
        disks = [self.folder / f"{name}.disk{number}" for number in range(self.spare_disks)]
        for disk in disks:
            with disk.open("wb") as stream:
                stream.truncate(SPARE_MIB * 2**20)
        return disks

    def _ssh_config(self) -> str:
        shared = f"User {self.user or 'root'}\nIdentityFile {self.folder}/id\nIdentitiesOnly yes\nHostName 127.0.0.1\nConnectTimeout 20\n"
        trust = f"StrictHostKeyChecking accept-new\nUserKnownHostsFile {self.folder}/known_hosts\nLogLevel ERROR\n"
        standing = f"ControlMaster auto\nControlPath {self.sockets}/%C\nControlPersist 10m\n"
        return "".join(f"Host {name}\nPort {port}\n" for name, port in self.ports.items()) + f"Host *\n{shared}{trust}{standing}"

    def _await(self, name: str) -> None:
        deadline = time.monotonic() + _BOOT
        while self.try_on(name, "systemctl is-system-running --wait").returncode == 255:
            if self.running[name].poll() is not None or time.monotonic() > deadline:
                console = (self.folder / f"{name}.console").read_text(encoding="utf-8", errors="replace")
                raise AssertionError(f"{name} did not start:\n{console[-2000:]}")
            time.sleep(1)

    def try_on(self, name: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine as root. `options`: of ssh_config(5), in place of those of the machine."""
        return subprocess.run(
            ["ssh", "-F", str(self.ssh_config), *(f"-o{option}" for option in options), name, command],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
            stdin=subprocess.DEVNULL,
        )

    def on(self, name: str, command: str, *options: str) -> str:
        """Return the output of a command on a machine; fail if the command fails. A busy machine has 180 s to accept a connection."""
        deadline = time.monotonic() + 180
        while (ended := self.try_on(name, command, *options)).returncode == 255 and time.monotonic() < deadline:
            time.sleep(2)
        assert not ended.returncode, f"{name}: {command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout.strip()

    def remove(self) -> None:
        """Stop the machines; the disks are deleted with the folder."""
        for machine in self.running.values():
            machine.kill()
            machine.wait()
        for folder in (self.folder, self.sockets):
            shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert not ended.returncode, f"{command[0]}:\n{ended.stderr[-2000:]}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
