"""Query and control a node's systemd."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import datetime, timezone
from typing import NamedTuple

from ansible_collections.rackwright.cluster.plugins.module_utils.slowness import run_patiently

FIELDS = (
    "LoadState,ActiveState,SubState,Result,UnitFileState,InvocationID,"
    "InactiveExitTimestamp,InactiveExitTimestampMonotonic,NeedDaemonReload,FragmentPath,DropInPaths,MainPID,FreezerState"
)


LONGEST_CALL = 240.0
"""Timeout of one systemctl call in seconds, longer on a slow node: more than twice the 90 s after which systemd itself gives up
(DefaultTimeoutStartSec)."""


LONGEST_TAIL = 60.0
"""Timeout of journalctl in seconds, longer on a slow node: it searches all files of the journal, which may lie on the disk that fails."""


WHOLE_SECONDS = 2.0
"""Maximum difference in seconds of two readings of one start on a steady clock: the recorded one is truncated to whole seconds."""


FROZEN = "frozen"


class UnitError(Exception):
    """A unit error: place, problem, hint."""


class Live(NamedTuple):
    """State of one unit in systemd."""

    load: str
    active: str
    detail: str
    result: str
    boot: str
    invocation: str
    started_at: float  # seconds since the epoch
    stale: bool
    unit_files: tuple[str, ...]
    suspended: str = ""  # why its main process does not run, although the unit is active; empty if it runs

    @property
    def exists(self) -> bool:
        return self.load not in ("not-found", "")


class Systemd:
    """Access systemd through systemctl and journalctl."""

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run systemctl with a timeout: a job that waits for another, or a mount for its server, would block the run forever."""
        try:
            return run(*words)
        except subprocess.TimeoutExpired as endless:
            waiting = "; ".join(run("list-jobs", "--no-legend", "--no-pager").stdout.strip().splitlines()[:8])
            raise UnitError(
                f"systemctl {' '.join(words)}: not finished after {endless.timeout:.0f} s; systemd's queue: {waiting}"
            ) from None

    def show(self, names: list[str]) -> dict[str, Live]:
        """Return the state of all units, with one call."""
        if not names:
            return {}  # Without names, systemctl shows the manager itself.
        result = self.call("show", f"--property={FIELDS}", "--", *names)
        records = [parse_record(block) for block in result.stdout.strip().split("\n\n")]
        if result.returncode or len(records) != len(names):
            raise UnitError(f"systemctl show: {result.stderr.strip() or 'no answer for every unit'} - check that systemd runs on this node")
        return {names[place]: record for place, record in enumerate(records)}

    def loaded_at(self) -> float:
        """Return when the manager last read its unit files, in seconds since the epoch; 0 before systemd 250, which does not report it.

        This is its last reload (UnitsLoad, 0 before the first one) or its own start (UnitsLoadFinish).
        """
        output = self.call("show", "--value", "--property=UnitsLoadTimestampMonotonic,UnitsLoadFinishTimestampMonotonic").stdout
        return max(map(since_epoch, output.split()), default=0.0)

    def must(self, *words: str) -> None:
        """Run systemctl. Raise UnitError if it fails."""
        done = self.call(*words)
        if done.returncode:
            raise UnitError(f"systemctl {' '.join(words)}: {done.stderr.strip()}")

    def journal_tail(self, name: str) -> str:
        """Return the last journal lines of the unit."""
        command = ("journalctl", "--no-pager", "--quiet", "--output=cat", "--lines=40", f"--unit={name}")
        try:
            return run_patiently(command, LONGEST_TAIL).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"(journalctl: {error})"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run systemctl. Raise TimeoutExpired if it does not finish."""
    environ = {**os.environ, "TZ": "UTC"}
    return run_patiently(("systemctl", *words), LONGEST_CALL, environ)


def parse_record(block: str) -> Live:
    """Parse one unit of `systemctl show`."""
    properties = dict(line.partition("=")[::2] for line in block.splitlines())
    return Live(
        load=properties.get("LoadState", ""),
        active=properties.get("ActiveState", ""),
        detail=properties.get("SubState", ""),
        result=properties.get("Result", ""),
        boot=properties.get("UnitFileState", ""),
        invocation=properties.get("InvocationID", ""),
        started_at=started_at(properties.get("InactiveExitTimestampMonotonic", ""), properties.get("InactiveExitTimestamp", "")),
        stale=properties.get("NeedDaemonReload") == "yes",
        unit_files=tuple(filter(None, [properties.get("FragmentPath", ""), *properties.get("DropInPaths", "").split()])),
        suspended=suspension(properties.get("MainPID", "0"), properties.get("FreezerState", "")),
    )


def suspension(pid: str, freezer: str) -> str:
    """Return why a main process does not run: frozen (systemctl(1), freeze), or stopped (proc(5), /proc/pid/stat); else an empty string."""
    if freezer == FROZEN:
        return FROZEN
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            state = stream.read().rpartition(") ")[2][:1]
    except OSError:
        return ""
    return {"T": "suspended by a signal", "t": "suspended by a debugger"}.get(state, "")


def suspended_units(*names: str) -> list[str]:
    """Return the suspended units among these, with the reason: clients of a suspended unit would wait for a response."""
    try:
        return [f"{name} is {live.suspended}" for name, live in Systemd().show(list(names)).items() if live.suspended]
    except (UnitError, OSError):
        return []  # Without systemd, the clients' own timeouts apply.


def started_at(monotonic: str, recorded: str) -> float:
    """Return the start in seconds since the epoch, by the clock that also sets the modification times of files; 0 without a start.

    The monotonic clock is exact, but does not count a suspend and knows no step of the clock: after either, the time that systemd
    recorded counts, in whole seconds (`Thu 2026-11-26 08:29:48 UTC`).
    """
    exact = since_epoch(monotonic)
    try:
        noted = datetime.strptime(" ".join(recorded.split()[1:]), "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return exact
    return exact if abs(exact - noted) < WHOLE_SECONDS else noted


def since_epoch(monotonic: str) -> float:
    """Convert systemd's monotonic microseconds to seconds since the epoch; 0 for none."""
    if not monotonic.isdigit() or monotonic == "0":
        return 0.0
    return int(monotonic) / 1e6 + time.time() - time.monotonic()
