"""A stand-in for a submitting node: ssh, runuser, Slurm's commands and the tools of jobs, as scripts in front of PATH.

srun starts its tasks here and labels their output; SLURMD_NODENAME is the node of each task.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
from pathlib import Path

from rackwright.time_limits import MAX_SLOWNESS

_SRUN = r"""
import json, os, subprocess, sys, threading, time
options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
command = sys.argv[sys.argv.index("--kill-on-bad-exit=1") + 1:]
nodes, per = options["nodelist"].split(","), int(options["ntasks-per-node"])
home = os.environ["STANDIN"]
job = str(100 + len(os.listdir(home + "/jobs")))
with open(home + "/jobs/" + options["job-name"], "w") as file:
    file.write(str(os.getpid()))
text, gpus, status = sys.stdin.buffer.read(), int(options.get("gres", "gpu:0").split(":")[1]), 0
first = 4 if "-second-" in options["job-name"] else 0
def task(rank):
    global status
    mine = dict(os.environ, SLURM_PROCID=str(rank), SLURM_NTASKS=str(per * len(nodes)), SLURM_LOCALID=str(rank % per),
                SLURM_JOB_ID=job, SLURMD_NODENAME=nodes[rank // per], SLURM_NTASKS_PER_NODE=str(per))
    if gpus:
        given = ",".join(str(first + number) for number in range(gpus))
        mine.update(CUDA_VISIBLE_DEVICES=given, SLURM_STEP_GPUS=given)
    ended = subprocess.run(command, input=text, env=mine, capture_output=True)
    status = max(status, ended.returncode)
    for stream, said in ((sys.stdout, ended.stdout), (sys.stderr, ended.stderr)):
        for line in said.decode().splitlines():
            for start in range(0, len(line) or 1, 1024):
                stream.write(str(rank) + ": " + line[start:start + 1024] + "\n")
threads = [threading.Thread(target=task, args=(rank,)) for rank in range(per * len(nodes))]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
sys.exit(status)
"""
_PYTHON = """
import os, sys
if sys.argv[1:3] == ["-I", "-"]:
    import socket
    socket.gethostname = lambda: os.environ["SLURMD_NODENAME"]
    sys.argv[:] = sys.argv[2:]
    exec(compile(sys.stdin.read(), "program", "exec"), {"__name__": "__main__"})
else:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_SHELL = {
    "ssh": 'for last; do :; done; exec sh -c "$last"',
    "runuser": 'shift 3; exec "$@"',
    "sinfo": 'cat "$STANDIN/states"',
    "scancel": 'for last; do :; done; echo "$last" >> "$STANDIN/cancelled"; kill $(cat "$STANDIN/jobs/$last")',
    "scontrol": 'case "$*" in -V) echo slurm-wlm 24.11.5;; ping) cat "$STANDIN/ping";; *partitions) cat "$STANDIN/partitions";; '
    '*config) cat "$STANDIN/config";; esac',
    "squeue": 'cat "$STANDIN/queue"',
    "nvidia-smi": 'case "$*" in *=driver_version*) echo 580.173.02;; *) cat "$STANDIN/gpus-$SLURMD_NODENAME";; esac',
    "cat": 'if [ "$1" = /proc/self/mountinfo ]; then set -- "$STANDIN/mounts-$SLURMD_NODENAME"; fi; exec /usr/bin/cat "$@"',
    "stat": 'if [ "$1" = -f ]; then cat "$STANDIN/size"; else exec /usr/bin/stat "$@"; fi',
    "ibstat": 'cat "$STANDIN/ibstat" 2>/dev/null || exit 127',
}


def captured(question: str, which: str = "good") -> str:
    """Return the recorded output of a lab's node."""
    return (Path(__file__).parents[2] / "unit" / "captured" / question / f"{which}.txt").read_text()


class Standin:
    """Its folder: the output of its tools, the jobs that it received, and the shared file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mount = folder / "shared"
        self.tools = folder / "tools"
        for part in (self.mount, self.tools, folder / "jobs"):
            part.mkdir(parents=True)
        for name, script in _SHELL.items():
            self._install(name, f"#!/bin/sh\n{script}\n")
        for name, script in (("srun", _SRUN), ("python3", _PYTHON)):
            self._install(name, f"#!{sys.executable}\n{script}\n")
        self.answer("states", "worker0 idle none\nworker1 idle none\n")
        self.answer("config", "PluginDir               = /usr/lib/slurm-wlm\nPrivateData             = none\n")
        self.answer("queue", "12 RUNNING\n")
        self.answer("partitions", captured("slurm-partitions"))
        self.answer("ping", captured("slurm-ping"))
        adapter = captured("fabric-ports").partition("CA 'mlx5_1'")[0]
        self.answer("ibstat", "".join(adapter.replace("mlx5_0", f"mlx5_{rail}") for rail in range(8)))
        for node in ("worker0", "worker1"):
            self.answer(f"mounts-{node}", captured("mounts").replace("/mnt/sharedfs", str(self.mount)))
            self.answer(f"gpus-{node}", captured("gpus"))

    def answer(self, name: str, text: str) -> None:
        """Set the output of one of its tools."""
        (self.folder / name).write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a run; its time limits are those of the slowest node, whatever the load of this machine."""
        path = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "STANDIN": str(self.folder), "RACKWRIGHT_SLOWNESS": str(MAX_SLOWNESS)}

    def end_processes(self) -> None:
        """Kill what still runs of it: a tool that hangs outlives its job."""
        marker = f"STANDIN={self.folder}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)

    @property
    def jobs(self) -> list[str]:
        """Return names of the jobs that it received."""
        return sorted(file.name for file in (self.folder / "jobs").iterdir())

    def _install(self, name: str, text: str) -> None:
        file = self.tools / name
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
