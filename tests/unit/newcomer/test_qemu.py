"""QEMU's command line: what a machine must have, what would end it, and the probe of KVM."""

from __future__ import annotations

import base64
import dataclasses
import json
import socket
import threading
from pathlib import Path

import pytest

from newcomer import qemu
from newcomer.errors import MachineError
from newcomer.image import Image
from newcomer.machine import smbios_credential, tmpfiles_lines
from newcomer.qemu import Settings, overlay_command, qemu_command

SETTINGS = Settings(
    name="rackwright-newcomer.1234.plain",
    folder=Path("/runs/1234/plain"),
    image=Image(Path("/images/debian-13")),
    port=2222,
    accel="tcg",
    memory=7168,
    cpus=2,
    credentials=(Path("/runs/1234/plain/keys"),),
)


def _value(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_command_names_run_and_own_files() -> None:
    command = qemu_command(SETTINGS)
    assert _value(command, "-name") == "rackwright-newcomer.1234.plain"
    assert _value(command, "-kernel") == "/images/debian-13/vmlinuz"
    assert _value(command, "-drive").startswith("file=/runs/1234/plain/disk.qcow2,")
    assert _value(command, "-netdev").endswith("hostfwd=tcp:127.0.0.1:2222-:22")
    assert _value(command, "-smbios") == "type=11,path=/runs/1234/plain/keys"
    assert _value(command, "-qmp").startswith("unix:/runs/1234/plain/qmp,")
    assert (_value(command, "-m"), _value(command, "-smp")) == ("7168", "2")


def test_reboot_does_not_end_machine() -> None:
    assert "-no-reboot" not in qemu_command(SETTINGS)
    assert "panic=5" in _value(qemu_command(SETTINGS), "-append").split()


def test_tcg_limits_its_cache() -> None:
    assert "tb-size=" in _value(qemu_command(SETTINGS), "-accel")
    assert _value(qemu_command(dataclasses.replace(SETTINGS, accel="kvm")), "-accel") == "kvm"


def test_overlay_leaves_image_unchanged() -> None:
    command = overlay_command(SETTINGS)
    assert command[-1] == "/runs/1234/plain/disk.qcow2" and _value(command, "-b") == "/images/debian-13/disk.raw"


def test_keys_are_installed_by_credential() -> None:
    text = tmpfiles_lines(b"user key", b"host key")
    name, _, value = smbios_credential("tmpfiles.extra", text).partition("=")
    assert name == "io.systemd.credential.binary:tmpfiles.extra" and base64.b64decode(value).decode() == text
    host = next(line.split() for line in text.splitlines() if "ssh_host_ed25519_key" in line)
    assert host[2:5] == ["0600", "root", "root"] and base64.b64decode(host[6]) == b"host key"
    assert [line.split()[1] for line in text.splitlines() if "authorized_keys" in line] == [
        "/home/ada/.ssh/authorized_keys",
        "/home/guest/.ssh/authorized_keys",
    ]


def test_unusable_kvm_device_means_tcg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(qemu.os, "access", lambda path, mode: True)
    monkeypatch.setattr(qemu, "PROGRAM", "false")
    assert qemu.choose_accel(Image(tmp_path)) == "tcg"


@pytest.mark.parametrize(("console", "accel"), [("Kernel panic - not syncing: VFS", "kvm"), ("", "tcg")])
def test_kvm_needs_kernel_that_speaks(console: str, accel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(qemu.os, "access", lambda path, mode: True)
    monkeypatch.setattr(qemu, "probe_command", lambda kernel, log: ["sh", "-c", f"echo '{console}' > {log}"])
    assert qemu.choose_accel(Image(tmp_path)) == accel


def test_monitor_skips_events_and_reports_refusals(tmp_path: Path) -> None:
    path = tmp_path / "qmp"
    lines = [{"QMP": {}}, {"return": {}}, {"event": "RESET"}, {"error": {"desc": "no such command"}}]

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, connection.makefile("rw") as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in lines))
            stream.flush()
            stream.readline()
            stream.readline()

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        with pytest.raises(MachineError, match="no such command"):
            qemu.execute(path, "nonsense")
        thread.join()
