"""The login node of a stack: commands over SSH, as root or as the ordinary user, and what its Slurm contains."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackwright.errors import RackwrightError, UndeterminedError

PATIENCE: Final = 600
"""Seconds for one command that is no test. Chosen: apt and tar over a slow network or a starved machine."""
SETTINGS: Final = ("TaskPlugin", "ProctrackType", "SelectType", "SelectTypeParameters", "AccountingStorageEnforce", "PriorityType")
"""Settings on which the suite decides what it can test."""
OBJECTS: Final[Mapping[str, str]] = {
    "reservation": "scontrol -o show reservation | sed -nE 's/^ReservationName=([^ ]+).*/\\1/p'",
    "partition": "scontrol -o show partition | sed -nE 's/^PartitionName=([^ ]+).*/\\1/p'",
    "account": "sacctmgr -nP show account format=account",
    "user": "sacctmgr -nP show user format=user",
    "qos": "sacctmgr -nP show qos format=name",
    "node that can run jobs": "sinfo -hN -t idle,mixed,allocated,completing -o %N",
}
"""Kind -> command that lists the names of the objects of that kind."""
REMOVAL: Final[Mapping[str, str]] = {
    "reservation": "scontrol delete ReservationName={}",
    "partition": "scontrol delete PartitionName={}",
    "account": "sacctmgr -i delete account {}",
    "user": "sacctmgr -i delete user {}",
    "qos": "sacctmgr -i delete qos {}",
}


@dataclass(frozen=True)
class LoginNode:
    """A node with Slurm's commands; `user` runs the tests."""

    ssh_config: Path
    name: str
    user: str

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = PATIENCE) -> bytes:
        """Return the output of a command that root runs. Raises RackwrightError if it fails, UndeterminedError after the timeout."""
        try:
            ended = subprocess.run(self._ssh(command), input=stdin, capture_output=True, check=False, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise UndeterminedError(f"no answer within {timeout:.0f} s to: {command}", path=self.name) from None
        if ended.returncode:
            said = (ended.stderr or ended.stdout).decode(errors="replace").strip()
            raise RackwrightError(f"{command}: exit status {ended.returncode}: {said[-2000:]}", path=self.name)
        return ended.stdout

    def as_user(self, command: str) -> str:
        """Return a command line that runs a command as the ordinary user, with that user's login environment."""
        return f"runuser -l {shlex.quote(self.user)} -c {shlex.quote(command)}"

    def lines(self, command: str) -> list[str]:
        """Return the lines that a command of root prints, without empty ones."""
        return [line for line in self.run(f"export LC_ALL=C; {command}").decode().splitlines() if line.strip()]

    def stream(self, command: str, order: Mapping[str, object]) -> Generator[str, None, None]:
        """Yield the lines of a command that reads a JSON order. Closing the generator ends the command (its input ends)."""
        with subprocess.Popen(self._ssh(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin and child.stdout
            child.stdin.write(json.dumps(order) + "\n")
            child.stdin.flush()
            yield from child.stdout
            if child.wait():
                raise RackwrightError(f"{command}: exit status {child.returncode}", path=self.name)

    def _ssh(self, command: str) -> list[str]:
        return ["ssh", "-F", str(self.ssh_config), "-o", "BatchMode=yes", self.name, command]

    def slurm_version(self) -> str:
        """Return Slurm's upstream version; the string starts with `slurm ` or, from Debian, with `slurm-wlm `."""
        return self.lines("sinfo --version")[0].split()[-1]

    def settings(self) -> dict[str, str]:
        """Return the settings on which the suite decides what it can test."""
        pairs = (line.split("=", 1) for line in self.lines("scontrol show config") if "=" in line)
        config = {key.strip(): value.strip() for key, value in pairs}
        return {key: config.get(key, "") for key in SETTINGS}

    def objects(self) -> dict[str, set[str]]:
        """Return the names of reservations, partitions, accounts, users, QOS and usable nodes, by kind."""
        return {kind: set(self.lines(command)) for kind, command in OBJECTS.items()}

    def jobs(self) -> list[str]:
        """Return the ids of the user's jobs."""
        return self.lines(f"squeue -h -u {shlex.quote(self.user)} -o %A")

    def job_seconds(self, samples: int = 3) -> float:
        """Return the median wall time of an empty job of the user, in seconds."""
        taken = []
        for _ in range(samples):
            started = time.monotonic()
            self.run(self.as_user("srun --quiet -N1 -t1 true"))
            taken.append(time.monotonic() - started)
        return sorted(taken)[samples // 2]

    def clean(self, before: Mapping[str, set[str]], patience: float) -> tuple[list[str], list[str]]:
        """Cancel the user's jobs and remove objects that were not there before; return what was removed and what is not as before."""
        removed = [f"job {job}" for job in self._cancel(patience)]
        for kind, names in self.objects().items():
            for name in sorted(names - before[kind]) if kind in REMOVAL else ():
                self.run(REMOVAL[kind].format(shlex.quote(name)))
                removed.append(f"{kind} {name}")
        damage = [f"job {job} of {self.user} does not end" for job in self.jobs()]
        return removed, damage + self._changes_that_stay(before, patience)

    def _cancel(self, patience: float) -> Sequence[str]:
        jobs = sorted(set(self.jobs()))
        if jobs:
            self.run(f"scancel {' '.join(jobs)}")
        deadline = time.monotonic() + patience
        while self.jobs() and time.monotonic() < deadline:
            time.sleep(1)
        return jobs

    def _changes_that_stay(self, before: Mapping[str, set[str]], patience: float) -> list[str]:
        """Return the changes after the health check has had time to resume a node that it drained under load."""
        deadline = time.monotonic() + patience
        while (found := changes(before, self.objects())) and time.monotonic() < deadline:
            time.sleep(5)
        return found


def changes(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> list[str]:
    """Return what appeared and what is missing, as text."""
    gone = [f"{kind} {name} is missing" for kind in before for name in sorted(before[kind] - after[kind])]
    return gone + [f"{kind} {name} is new" for kind in before for name in sorted(after[kind] - before[kind])]
