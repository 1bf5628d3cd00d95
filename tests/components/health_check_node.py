"""A compute node in a folder, for tests of its health check: the files that the role lays there, and tools stood in for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.hang import ENDLESS_SECONDS

from rackwright import layout
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "roles/slurm_worker/files/rackwright_node_health.py"
BUDGETS = {
    "BUDGET = 30.0\n": "BUDGET = 600.0\n",
    "BUDGET_BEFORE_JOB = 1.8 ": "BUDGET_BEFORE_JOB = 600.0 ",
    "LONGEST_BEFORE_JOB = 5.0\n": "LONGEST_BEFORE_JOB = 9000.0\n",
    "SHARE = 0.75 ": "SHARE = 600.0 ",
}
GPU = "{index}, NVIDIA H100 80GB HBM3, 81559, 580.173.02, 0, 1980, 0x1, Enabled"
GPU_WITHOUT_MEMORY = "0, NVIDIA GB10, [N/A], 580.173.02, {ecc}, 3003, 0x0, Enabled"
SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in
  *"show job"*) cat {folder}/job ;;
  *"show node"*) cat {folder}/node ;;
  *State=DRAIN*) echo "NodeName=w0 State=IDLE+DRAIN Reason=${{4#Reason=}} [root@2026-11-22T03:00:00]" > {folder}/node ;;
  *State=RESUME*) echo "NodeName=w0 State=IDLE" > {folder}/node ;;
esac
"""


class Node:
    """A node in a folder: its tools, its expectations, and Slurm's word on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = PROGRAM.read_text(encoding="utf-8").replace('"/usr/local/sbin:', f'"{folder}/bin:')
        for path in ("/usr/local/lib/rackwright/health", "/etc/rackwright", "/var/lib/rackwright", "/run"):
            text = text.replace(f'"{path}', f'"{folder}{path}')
            (folder / path.lstrip("/")).mkdir(parents=True)
        (folder / "bin").mkdir()
        text = text.replace('"/proc/thread-self/schedstat"', f'"{folder}/schedstat"')
        self.waited(0.002)
        text = text.replace("import time\n", f"import time\n\ntime.time = lambda: float(open({str(folder / 'clock')!r}).read())\n")
        text = text.replace('"/proc/pressure"', f'"{folder}/pressure"')
        (folder / "pressure").mkdir()
        for real, long in BUDGETS.items():
            assert text.count(f"\n{real}") == 1
            text = text.replace(f"\n{real}", f"\n{long}")
        self.set_clock(time.time())
        for name in ("rackwright-node-health", "rackwright-node-health-prolog"):
            self.tool(name, text)
        for place, source in laid_down().items():
            path = folder / place.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((ROOT / source).read_text(encoding="utf-8"))
        self.tool("scontrol", SCONTROL.format(folder=folder))
        self.slurm("State=IDLE")
        self.gpus(8)
        devices = 'for n in 0 1 2 3 4 5 6 7; do echo "/dev/nvidia$n|character special file|3d:$n"; done'
        self.tool("stat", f'#!/bin/sh\necho "/dev/null|character special file|1:3"\n{devices}\n')
        self.expect([{"check": "gpu.count_matches_plan", "limit": None}, {"check": "gpu.devices_are_distinct", "limit": None}])

    def set_clock(self, now: float) -> None:
        """Set the node's clock, which stands still: the duration of a run here does not count."""
        self.now = now
        (self.folder / "clock").write_text(str(now))

    @property
    def record(self) -> Path:
        return self.folder / "var/lib/rackwright/health.json"

    def remembers(self, **said: Any) -> None:
        self.record.write_text(json.dumps(json.loads(self.record.read_text()) | said))

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def edit(self, path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")

    def hang(self) -> None:
        """Let nvidia-smi hang. Its time-out is 0.3 s."""
        self.tool("nvidia-smi", f"#!/bin/sh\nexec sleep {ENDLESS_SECONDS}\n")
        probe = self.folder / "usr/local/lib/rackwright/health/rackwright/checks/cluster/probes/gpu.py"
        self.edit(probe, '    "gpus",\n', '    "gpus",\n    timeout=0.3,\n')
        for name in ("rackwright-node-health", "rackwright-node-health-prolog"):
            self.edit(self.folder / "bin" / name, "\nTOOL = 30.0\n", "\nTOOL = 0.3\n")

    def limit_look(self) -> None:
        """Give a run the time limits that it has on a node."""
        for name in ("rackwright-node-health", "rackwright-node-health-prolog"):
            for real, long in BUDGETS.items():
                self.edit(self.folder / "bin" / name, f"\n{long}", f"\n{real}")

    def waited(self, seconds: float) -> None:
        """Set the time that the run waited for a processor, as the kernel counts it."""
        (self.folder / "schedstat").write_text(f"86000000 {seconds * 1e9:.0f} 41\n")  # for each of its threads

    def stalls(self, resource: str, percent: float) -> None:
        """Set the share of the last minute in which processes waited for a resource, as the kernel reports it."""
        rows = f"some avg10=0.00 avg60={percent:.2f} avg300=0.00 total=815907931\nfull avg10=0.00 avg60=99.00 avg300=0.00 total=210471091\n"
        (self.folder / "pressure" / resource).write_text(rows)

    def gpus(self, count: int) -> None:
        rows = "\n".join(GPU.format(index=index) for index in range(count))
        self.tool("nvidia-smi", f"#!/bin/sh\ncat <<'X'\n{rows}\nX\n")

    def slurm(self, says: str) -> None:
        (self.folder / "node").write_text(f"NodeName=w0 {says}\n")

    def expect(self, rows: list[dict[str, Any]], **cluster: Any) -> None:
        record = {"name": "w0", "memory_mib": 1, "gpus": {"count": 8, "memory_mib": 81559, "simulated": True}}
        told = {"node": record, "cluster": {"storage": [], **cluster}, "checks": rows}
        (self.folder / "etc/rackwright/health.json").write_text(json.dumps(told))

    def says(self, line: str) -> None:
        """Let nvidia-smi print one line."""
        self.tool("nvidia-smi", f"#!/bin/sh\necho '{line}'\n")

    def expects(self, **more: Any) -> None:
        """Add to the node's expectations."""
        path = self.folder / "etc/rackwright/health.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))

    def look(self, *words: str, name: str = "rackwright-node-health", slowness: int = 1) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", str(self.folder / "bin" / name), *words]
        usual = {**os.environ, "RACKWRIGHT_SLOWNESS": str(slowness)}  # The load of this machine must not change the limits.
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=ENDLESS_SECONDS / 2, env=usual)

    def updates(self) -> list[str]:
        asked = self.folder / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.write_text("")
        return [line.partition("NodeName=w0 ")[2] for line in lines if line.startswith("update")]


def laid_down() -> dict[str, str]:
    """Return the checks' files on a node, as the role installs them -> their source in the project."""
    task = load_yaml((ROOT / "roles/slurm_worker/tasks/health.yml").read_text(encoding="utf-8"))[0]
    names = task["vars"]["_modules"]
    return {f"{task['vars']['_folder']}{name}.py": f"{layout.PACKAGE}/{name}.py" for name in names}
