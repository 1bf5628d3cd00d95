"""A machine that is a QEMU process without an operating system: a boot sector acts on the power button, or nothing does."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from rackwright.drivers.vm import qmp
from rackwright.errors import RackwrightError

_BOOT_SECTOR: Final = bytes.fromhex(
    "ba0206 b80001 ef"  # PM1_EN, port 0x602: enable the power button (ACPI 6.5, section 4.8.3.1.2; SeaBIOS places the block at 0x600)
    "b072 e6e9"  # port 0xE9, QEMU's debug console: ready
    "fb f4"  # sti; hlt: wait for the timer
    "ba0006 ed f6c401 74f5"  # PM1_STS, port 0x600: back to the wait until the power button is pressed
    "ba0406 b80020 ef f4"  # PM1_CNT, port 0x604: SLP_EN with SLP_TYP 0, which is S5 in QEMU (hw/acpi/core.c)
)
_START: Final = 30.0
"""Seconds until QEMU answers on its socket. Chosen for a busy machine."""
_READY: Final = 300.0
"""Seconds until the firmware has started the boot sector. It takes 2 s, and a hundred times as long beside a full set of tests."""


class MachineInQemu:
    """A machine whose power is a process: on while QEMU runs."""

    def __init__(self, folder: Path, label: str, *, shuts_down: bool) -> None:
        self._folder, self._label = folder, label
        folder.mkdir()
        code = _BOOT_SECTOR if shuts_down else b"\xfa\xf4"  # cli; hlt: deaf
        (folder / "boot.img").write_bytes(code.ljust(510, b"\0") + b"\x55\xaa")
        self.process: subprocess.Popen[bytes] | None = None
        self.resets: list[str] = []

    def is_on(self) -> bool:
        """Return whether QEMU runs."""
        return self.process is not None and self.process.poll() is None

    def reset(self, kind: str) -> None:
        """Carry out a reset type on the process."""
        self.resets.append(kind)
        if kind in ("On", "ForceOn") and not self.is_on():
            self._start()
        elif kind == "GracefulShutdown":
            qmp.execute(self._folder, "system_powerdown")
        elif kind == "ForceOff" and self.process is not None:
            with suppress(RackwrightError):  # QEMU may end before it has answered.
                qmp.execute(self._folder, "quit")
            self.process.wait(_START)

    def wait_until_ready(self) -> None:
        """Wait until the boot sector reads the power button: a press before is lost, as on any machine that boots."""
        ready, until = self._folder / "ready", time.monotonic() + _READY
        while not ready.exists() or not ready.read_bytes():
            assert self.is_on() and time.monotonic() < until, "the boot sector does not run"
            time.sleep(0.1)

    def end(self) -> None:
        """End the process, whatever its state."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _start(self) -> None:
        words = ["qemu-system-x86_64", "-name", f"guest={self._label}", "-no-user-config", "-nodefaults", "-display", "none"]
        words += ["-machine", "pc", "-accel", "tcg", "-m", "16M", "-drive", "if=ide,format=raw,file=boot.img"]
        words += ["-debugcon", "file:ready"]
        words += ["-qmp", "unix:qmp.sock,server=on,wait=off"]
        for name in ("qmp.sock", "ready"):
            (self._folder / name).unlink(missing_ok=True)
        self.process = subprocess.Popen(words, cwd=self._folder, stdin=subprocess.DEVNULL)
        until = time.monotonic() + _START
        while not (self._folder / "qmp.sock").exists() and time.monotonic() < until and self.is_on():
            time.sleep(0.05)
