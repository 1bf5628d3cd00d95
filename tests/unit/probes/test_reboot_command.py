"""The command that finds a pending reboot, run on a copy of the files of several distributions with their tools."""

from __future__ import annotations

import subprocess

import pytest

from rackwright.checks.cluster.probes.kernels import REBOOT, parse_reboot

TOOLS = {
    "grubby": "echo /boot/vmlinuz-{default}",
    "needs-restarting": 'echo "{report}"',
    "systemd-detect-virt": "exit {container}",
    "uname": "echo {running}",
}
OLD, NEW = "6.1.0-37-amd64", "6.1.0-41-amd64"


def run(tmp_path, tools, files, **values):
    (tmp_path / "bin").mkdir()
    for name in tools:
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n" + TOOLS[name].format(**{"container": 1, "running": OLD, **values}) + "\n")
        (tmp_path / "bin" / name).chmod(0o755)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = REBOOT.command
    for folder in ("/run/", "/var/run/", "/etc/", "/boot/", "/lib/modules/"):
        command = command.replace(f" {folder}", f" {tmp_path}{folder}").replace(f'"{folder}', f'"{tmp_path}{folder}')
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    ended = subprocess.run(["sh", "-c", command], env={"PATH": path}, capture_output=True, text=True, check=True)
    return parse_reboot(ended.stdout)


def kernels(*releases):
    return {name: "" for release in releases for name in (f"boot/vmlinuz-{release}", f"lib/modules/{release}/modules.dep")}


DEBIAN = ("systemd-detect-virt", "uname")
EL = (*DEBIAN, "grubby", "needs-restarting")
CASES = {
    "debian-current": (DEBIAN, kernels(OLD), {}, False),
    "debian-newer-kernel": (DEBIAN, kernels(OLD, NEW), {}, True),
    "debian-image-without-modules": (DEBIAN, {**kernels(OLD), f"boot/vmlinuz-{NEW}": ""}, {}, False),
    "debian-flag": (DEBIAN, {**kernels(OLD), "run/reboot-required": ""}, {}, True),
    "suse-flag": (DEBIAN, {**kernels(OLD), "run/reboot-needed": ""}, {}, True),
    "debian-first-entry": (DEBIAN, {**kernels(OLD, NEW), "etc/default/grub": 'GRUB_DEFAULT="0"\n'}, {}, True),
    "debian-quoted-first-entry": (DEBIAN, {**kernels(OLD, NEW), "etc/default/grub": "GRUB_DEFAULT='0'\n"}, {}, True),
    "debian-selected-entry": (DEBIAN, {**kernels(OLD, NEW), "etc/default/grub": 'GRUB_DEFAULT="1>2"\n'}, {}, False),
    "container-of-a-host-with-two": (DEBIAN, kernels(OLD, NEW), {"container": 0}, False),
    "el-libraries": (EL, {}, {"report": "Core libraries or services have been updated:\nReboot is required", "default": OLD}, True),
    "el-current": (EL, {}, {"report": "Reboot should not be necessary.", "default": OLD}, False),
    "el-other-default": (EL, {}, {"report": "No core libraries or services have been updated.", "default": NEW}, True),
}


@pytest.mark.parametrize("case", CASES)
def test_pending_reboot_is_found_on_each_distribution(case, tmp_path):
    tools, files, values, pending = CASES[case]
    assert run(tmp_path, tools, files, **values) is pending
