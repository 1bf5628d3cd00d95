"""QEMU: the command line of a machine, its monitor (QMP), and whether KVM runs a guest here."""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from newcomer.errors import MachineError
from newcomer.image import Image

PROGRAM = "qemu-system-x86_64"
# Emulated CPUs can miss a kernel patching its own text (int3 oops while booting, QEMU 7.2): the machine then boots again.
_KERNEL_LINE = "root=/dev/vda rw console=ttyS0 quiet mitigations=off net.ifnames=0 panic=5 oops=panic"
_PROBE_SECONDS = 20.0
_QMP_SECONDS = 10.0
_ACCEL = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    # Without tb-size the cache of translated code takes 1 GiB. QEMU before 8.0 changes flags in cmpxchg16b, which kernels use.
    "tcg": ("-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,-cx16"),
}


@dataclass(frozen=True)
class Settings:
    """What one machine is started with."""

    name: str
    folder: Path
    image: Image
    port: int
    """Port on 127.0.0.1 that leads to the machine's SSH server."""
    accel: str
    memory: int
    """MiB."""
    cpus: int
    credentials: tuple[Path, ...]
    """Files with one SMBIOS string each, which systemd reads as credentials."""

    @property
    def overlay(self) -> Path:
        """Return the path of the machine's own disk, which holds what differs from the image."""
        return self.folder / "disk.qcow2"

    @property
    def monitor(self) -> Path:
        """Return the path of the QMP socket."""
        return self.folder / "qmp"

    @property
    def console(self) -> Path:
        """Return the path of the log of the serial console."""
        return self.folder / "console.log"


def qemu_command(settings: Settings) -> list[str]:
    """Return the command that runs the machine. A reboot of the guest must not end it, so there is no -no-reboot."""
    drive = f"file={settings.overlay},if=virtio,cache=unsafe,discard=unmap"
    credentials = [word for path in settings.credentials for word in ("-smbios", f"type=11,path={path}")]
    return [
        PROGRAM,
        *("-name", settings.name, "-machine", "q35", *_ACCEL[settings.accel]),
        *("-smp", str(settings.cpus), "-m", str(settings.memory)),
        *("-nodefaults", "-display", "none", "-serial", f"file:{settings.console}"),
        *("-kernel", str(settings.image.kernel), "-initrd", str(settings.image.initrd), "-append", _KERNEL_LINE),
        *("-drive", drive),
        *("-netdev", f"user,id=net0,hostfwd=tcp:127.0.0.1:{settings.port}-:22", "-device", "virtio-net-pci,netdev=net0"),
        *("-device", "virtio-rng-pci"),
        *("-qmp", f"unix:{settings.monitor},server=on,wait=off", "-pidfile", str(settings.folder / "qemu.pid")),
        *credentials,
    ]


def overlay_command(settings: Settings) -> list[str]:
    """Return the command that creates the machine's own disk over the image."""
    return ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(settings.image.disk), str(settings.overlay)]


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def execute(monitor: Path, command: str) -> Any:
    """Execute one QMP command and return its result. Raise MachineError if QEMU does not answer or refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_QMP_SECONDS)
        try:
            client.connect(str(monitor))
            with client.makefile("r", encoding="utf-8") as answers:
                json.loads(answers.readline())
                _ask(client, answers, "qmp_capabilities")
                return _ask(client, answers, command)
        except (OSError, ValueError) as error:
            raise MachineError(f"QMP {command}: {error}") from None


def _ask(client: socket.socket, answers: IO[str], command: str) -> Any:
    client.sendall(json.dumps({"execute": command}).encode() + b"\n")
    while True:
        answer = json.loads(answers.readline())
        if "error" in answer:
            raise MachineError(f"QMP {command}: {answer['error'].get('desc')}")
        if "return" in answer:
            return answer["return"]


def choose_accel(image: Image) -> str:
    """Return `kvm` if a guest really runs under it, else `tcg`."""
    return _probe_kvm(str(image.kernel))


@functools.cache
def _probe_kvm(kernel: str) -> str:
    # /dev/kvm may open and create machines, and yet run no guest: only a kernel that speaks proves it.
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    with tempfile.TemporaryDirectory(prefix="rackwright-kvm-") as folder:
        console = Path(folder) / "console.log"
        try:
            ended = subprocess.run(
                probe_command(kernel, console), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return "tcg"
        text = console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""
    return "kvm" if ended.returncode == 0 and "Kernel panic" in text else "tcg"


def probe_command(kernel: str, console: Path) -> list[str]:
    """Return the command of a guest that ends by itself: its kernel finds no root file system, panics and reboots."""
    return [
        PROGRAM,
        *("-machine", "q35", *_ACCEL["kvm"], "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"),
        *("-serial", f"file:{console}", "-kernel", kernel, "-append", "console=ttyS0 panic=-1"),
    ]
