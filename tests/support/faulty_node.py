"""A node for the commands of fault rows: folders in place of the system's, with stand-ins of the vendors' tools."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from faults.fault_table import HELPERS

from rackwright.checks.cluster.harness.probe import CommandOutput

SYSTEM = "/usr/bin:/usr/sbin:/bin:/sbin"


class FaultyNode:
    """Folders in place of those of a node: tools of the vendors, faked tools, and the files that rows change."""

    def __init__(self, folder: Path, tools: Mapping[str, str]) -> None:
        self.folder = folder
        for name in ("fakes", "tools", "cuda", "etc", "dev"):
            (folder / name).mkdir()
        for name, text in tools.items():
            self.install(name, text)
        (folder / "etc" / "ld.so.conf.d").mkdir()
        (folder / "etc" / "ld.so.conf.d" / "10-system.conf").write_text(f"{folder}/tools\n", encoding="utf-8")
        (folder / "tools" / "libnccl.so.2.28.9").write_text("", encoding="utf-8")
        (folder / "tools" / "libnccl.so.2").symlink_to("libnccl.so.2.28.9")
        for name in ("neuron0", "kfd", "dri/renderD128", "dri/renderD129"):
            (folder / "dev" / name).parent.mkdir(exist_ok=True)
            (folder / "dev" / name).write_text("", encoding="utf-8")
        for address in ("0000:05:00.0", "0000:26:00.0"):
            self._add_gpu(folder / "pci" / address)
        (folder / "etc" / "nccl.conf").write_text("NCCL_DEBUG=WARN\n", encoding="utf-8")
        (folder / "etc" / "profile").write_text("", encoding="utf-8")

    @staticmethod
    def _add_gpu(device: Path) -> None:
        """Add a PCI device: an MI300X with its driver."""
        device.mkdir(parents=True)
        for name, value in (("vendor", "0x1002"), ("class", "0x120000"), ("device", "0x74a1")):
            (device / name).write_text(f"{value}\n", encoding="utf-8")
        (device / "driver").symlink_to("../../../../bus/pci/drivers/amdgpu")
        (device / "current_compute_partition").write_text("SPX\n", encoding="utf-8")
        (device / "current_memory_partition").write_text("NPS1\n", encoding="utf-8")

    def install(self, name: str, text: str) -> None:
        """Install a tool: a script, in which HERE is the node's folder, or a text that it prints."""
        place, _, tool = name.rpartition("/")
        path, printed = self.folder / (place or "tools") / tool, self.folder / f"{tool}.txt"
        printed.write_text(text, encoding="utf-8")
        script = text.replace("HERE", str(self.folder)) if text.startswith("#!") else f"#!/bin/sh\nexec /bin/cat {printed}\n"
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)

    def moved(self, script: str) -> str:
        """Return commands with the node's folders in place of the system's."""
        here = self.folder
        places = {
            "fakes=/usr/local/sbin": f"fakes={here}/fakes",
            f"PATH={SYSTEM}": f"PATH={here}/tools:{SYSTEM}",
            "/usr/local/cuda/bin": f"{here}/cuda",
            "/etc/nccl.conf": f"{here}/etc/nccl.conf",
            "/etc/ld.so.conf.d": f"{here}/etc/ld.so.conf.d",
            "/opt/rackwright-fault": f"{here}/opt",
            "/etc/profile": f"{here}/etc/profile",
            "mv /dev/": f"mv {here}/dev/",
            " /dev/rackwright-fault": f" {here}/dev/rackwright-fault",
            " /dev/neuron0": f" {here}/dev/neuron0",
            " /dev/dri/renderD": f" {here}/dev/dri/renderD",
            "in /sys/bus/pci/devices/": f"in {here}/pci/",
        }
        for tool in (path.name for path in (here / "tools").iterdir()):
            places[f"/usr/bin/{tool} "] = f"{here}/tools/{tool} "
        for old, new in places.items():
            script = script.replace(old, new)
        return script

    def run(self, script: str, *, path: str = "fakes:tools") -> CommandOutput:
        """Run commands of a row or of a probe."""
        folders = ":".join([*(str(self.folder / name) for name in path.split(":") if name), SYSTEM])
        done = subprocess.run(
            ["/bin/sh", "-c", self.moved(script)], capture_output=True, text=True, check=False, env={"PATH": folders, "LC_ALL": "C.UTF-8"}
        )
        return CommandOutput(done.returncode, done.stdout, done.stderr)

    def change(self, commands: str) -> None:
        """Run the commands of a row; fail if they fail."""
        ended = self.run(f"{HELPERS}\n{commands}", path="tools")
        assert ended.rc == 0, ended.err
