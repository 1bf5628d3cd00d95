"""Acceleration of virtual machines: whether guests run under KVM here is tried, since the device alone proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from rackwright.drivers.vm.command_line import BINARY
from rackwright.drivers.vm.emulated_processor import qemu_version
from rackwright.drivers.vm.image_build import KERNEL
from rackwright.errors import RackwrightError
from rackwright.files import write_atomic
from rackwright.inventory import paths
from rackwright.time_limits import slowness

DEVICE: Final = Path("/dev/kvm")
_PROBE: Final = 15.0
"""Seconds for a kernel to start and panic under KVM; longer on a slow machine. It takes about two. Without an end, no guest code ran."""
_RESET: Final = bytes.fromhex("baf90c b006 ee f4")
"""mov dx, 0xcf9; mov al, 6; out dx, al; hlt: the machine's reset control register (Intel ICH9 datasheet, section 13.7.5)."""
_DISK: Final = 2**20
"""Bytes of its disk: the firmware reads no disk of one sector."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def choose(wanted: str, image: Path) -> str:
    """Return `kvm` or `tcg` for the declared `auto`, `kvm` or `tcg`. Raises RackwrightError where KVM is declared and no guest runs."""
    if wanted == "tcg":
        return wanted
    refusal = kvm_refusal(image)
    if refusal is None:
        return "kvm"
    if wanted == "kvm":
        raise RackwrightError(
            f"target.acceleration: kvm: {refusal}", hint="use `acceleration: auto`, which emulates the processor where KVM fails"
        )
    return "tcg"


def kvm_refusal(image: Path) -> str | None:
    """Return why no guest runs under KVM, None if one does. The answer is kept until this machine or QEMU changes."""
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} does not exist" if not DEVICE.exists() else f"this user may not open {DEVICE} (group kvm)"
    file, key = paths.machine_images() / "kvm.json", f"{_BOOT_ID.read_text().strip()} {qemu_version()}"
    with suppress(OSError, ValueError, KeyError):
        known = json.loads(file.read_bytes())
        if known["key"] == key:
            return None if known["refusal"] is None else str(known["refusal"])
    refusal = _try(image)
    write_atomic(file, json.dumps({"key": key, "refusal": refusal}) + "\n", mode=0o600)
    return refusal


def _try(image: Path) -> str | None:
    """Start the image's kernel, or a boot sector where it has none, as guest that ends QEMU."""
    with tempfile.TemporaryDirectory(prefix="rackwright-") as folder:
        guest = _kernel_guest(image) if (image / KERNEL).exists() else _sector_guest(Path(folder))
        return _run(guest)


def _kernel_guest(image: Path) -> list[str]:
    """Return a kernel without a root file system, which panics and reboots: with `-no-reboot`, QEMU ends then."""
    return ["-kernel", str(image / KERNEL), "-append", "panic=-1 root=/dev/none", "-no-reboot"]


def _sector_guest(folder: Path) -> list[str]:
    """Return a boot sector that resets the processor: with `-no-reboot`, QEMU ends then."""
    sector = folder / "sector"
    sector.write_bytes((_RESET.ljust(510, b"\0") + b"\x55\xaa").ljust(_DISK, b"\0"))
    disk = {"node-name": "sector", "driver": "raw", "read-only": True, "file": {"driver": "file", "filename": str(sector)}}
    return ["-blockdev", json.dumps(disk), "-device", "virtio-blk-pci,drive=sector,bootindex=0", "-no-reboot"]


def _run(guest: list[str], accelerator: str = "kvm", processor: str = "host") -> str | None:
    machine = ("-no-user-config", "-nodefaults", "-display", "none", "-machine", "q35", "-m", "256M")
    command = [BINARY, *machine, "-accel", accelerator, "-cpu", processor, *guest]
    limit = _PROBE * slowness()
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"{DEVICE} exists, and no guest ran within {limit:.0f} s"
    except FileNotFoundError:
        return f"{BINARY} is not installed"
    if ended.returncode == 0:
        return None
    words = next(
        (line.strip() for line in reversed(ended.stderr.splitlines()) if line.strip()), f"QEMU ended with status {ended.returncode}"
    )
    return f"{DEVICE} exists, and QEMU ended: {words}"
