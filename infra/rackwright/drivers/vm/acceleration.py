"""Acceleration of virtual machines: whether guests run under KVM here is tried, since the device alone proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
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
    """Start a kernel without a root file system, which panics and reboots: with `-no-reboot`, QEMU ends then."""
    command = [
        *(BINARY, "-no-user-config", "-nodefaults", "-display", "none", "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256M"),
        *("-kernel", str(image / KERNEL), "-append", "panic=-1 root=/dev/none", "-no-reboot"),
    ]
    limit = _PROBE * slowness()
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"{DEVICE} exists, and a guest's kernel did not start within {limit:.0f} s"
    except FileNotFoundError:
        return f"{BINARY} is not installed"
    if ended.returncode == 0:
        return None
    words = next(
        (line.strip() for line in reversed(ended.stderr.splitlines()) if line.strip()), f"QEMU ended with status {ended.returncode}"
    )
    return f"{DEVICE} exists, and QEMU ended: {words}"
