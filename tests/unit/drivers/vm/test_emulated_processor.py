"""The processor of emulated machines, by the release of QEMU."""

from __future__ import annotations

import pytest
from support.rows import each_row

from rackwright.drivers.vm.emulated_processor import emulated_processor, qemu_version

VERSIONS = {
    "debian-12": ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", "max,-cx16"),
    "ubuntu-22.04": ("QEMU emulator version 6.2.0 (Debian 1:6.2+dfsg-2ubuntu6.26)", "max,-cx16"),
    "rocky-9": ("QEMU emulator version 9.1.0 (qemu-kvm-9.1.0-15.el9_6.7)", "max"),
    "first-correct": ("QEMU emulator version 8.0.0", "max"),
    "two-digits": ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", "max"),
    "fedora": ("QEMU emulator version 10.1.2 (qemu-10.1.2-1.fc43)", "max"),
    "without-a-number": ("QEMU emulator", "max,-cx16"),
    "not-installed": ("none", "max,-cx16"),
    "empty": ("", "max,-cx16"),
}


@each_row("case", VERSIONS)
def test_processor_follows_release(case):
    version, expected = VERSIONS[case]
    assert emulated_processor(version) == expected


def test_missing_qemu_has_no_version(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert qemu_version() == "none"
