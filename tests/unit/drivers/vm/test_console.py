"""The last lines of a machine's console, which name the unit that a boot hangs in."""

from __future__ import annotations

from pathlib import Path

from rackwright.drivers.vm import machine

HANGS = (
    b"\x1b[!p\x1b]104\x07\x1b[?7h\x1b[6n\x1b[32766;32766H\x1b[6n[ 16.3] systemd-ssh-generator[234]: Failed to query local AF_VSOCK CID\r\n"
    b"[\x1b[0;32m  OK  \x1b[0m] Created slice \x1b[0;1;39msystem-getty.slice\x1b[0m - Slice /system/getty.\r\n"
    b"         Starting \x1b[0;1;39mhang.service\x1b[0m...\r\n"
    b"\x1b[K[   \x1b[0;31m*\x1b[0;1;31m*\x1b[0m\x1b[0;31m*\x1b[0m] Job hang.service/start running (1min 21s / no limit)\r\r\n"
    b"\x1b[M\r\r\x1b[K[    \x1b[0;31m*\x1b[0;1;31m*\x1b[0m] Job hang.service/start running (1min 22s / no limit)\r\r\n\x00\r\n"
)
"""Bytes of a serial console of Debian 13 (systemd 257) whose boot waits for a unit."""


def test_last_lines_are_those_a_person_reads_on_the_console(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_bytes(HANGS)
    assert machine.last_lines(tmp_path, 3) == [
        "[  OK  ] Created slice system-getty.slice - Slice /system/getty.",
        "Starting hang.service...",
        "[    **] Job hang.service/start running (1min 22s / no limit)",
    ]


def test_messages_of_qemu_come_before_the_console(tmp_path: Path) -> None:
    (tmp_path / "qemu.log").write_text("qemu-system-x86_64: out of memory\n\n")
    (tmp_path / "console.log").write_text("first\nlast\n")
    assert machine.last_lines(tmp_path, 1) == ["qemu-system-x86_64: out of memory", "last"]


def test_machine_without_a_console_has_no_lines(tmp_path: Path) -> None:
    assert machine.last_lines(tmp_path, 3) == []
