"""Run on the node, imported by its health check (roles/slurm_worker): query slurmctld for the node, drain it, and resume it.

Python 3.9, standard library only.
"""

from __future__ import annotations

import re
import subprocess

from rackwright.remote.programs import daemon_states

LONGEST_REASON = 160
"""Characters of a drain reason."""
OURS = re.compile(r"rackwright: ([a-z_]+\.[a-z_]+)(:|$)")
"""Drain reason of a check. Rackwright's other drains contain no check id."""
ROLLING = "rackwright: rolling"
BY_PROLOG = "Prolog error"
"""Slurm's drain reason after a failed prolog, which is the health check."""
HELD = {"DRAIN", "DOWN", "FAIL"}
MUNGE = "munge.service"
GOES_ON = {"PENDING", "CONFIGURING", "EXPEDITING", "RESIZING", "RUNNING", "SIGNALING", "STOPPED", "SUSPENDED"}
"""States of a job that may start or runs (squeue(1), JOB STATE CODES)."""


class SlurmNode:
    """Access this node in slurmctld."""

    def __init__(self, node: str, *, only_looks: bool = False) -> None:
        self.node, self.only_looks = node, only_looks

    def update(self, *words: str) -> None:
        """Set the state of the node. Raise OSError if slurmctld rejects it."""
        if not self.only_looks:
            self.call("update", f"NodeName={self.node}", *words)

    def call(self, *words: str) -> str:
        """Return the output of scontrol. Raise OSError if it fails, and at once if munged is suspended: scontrol would wait for it."""
        if state := daemon_states.suspended([MUNGE]).get(MUNGE):
            raise OSError(f"scontrol: not called, because {MUNGE} is {state}")
        try:
            done = subprocess.run(
                ["scontrol", *words],
                capture_output=True,
                encoding="utf-8",
                errors="replace",  # names and comments of jobs are any bytes
                timeout=10,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError("scontrol: no answer in 10 s") from None
        if done.returncode:
            raise OSError(f"scontrol: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def seen(self) -> tuple[frozenset[str], str, bool]:
        """Return the node's states, their reason, and whether the reason is Slurm's own prolog error."""
        line = self.call("--oneliner", "show", "node", self.node)
        state = re.search(r" State=(\S+)", line)
        reason = re.search(r" Reason=(.*?)(?: \[([^@\]]+)@[^\]]*\]|$)", line.strip())
        text, by = reason.groups() if reason else ("", "")
        words = state.group(1).split("+") if state else []
        return frozenset(word.rstrip("*~#!%$@^-") for word in words), text, text == BY_PROLOG and by == "slurm"

    def is_over(self, job: str) -> bool:
        """Return whether a job has ended or was cancelled: it does not start here, whatever the prolog returns."""
        try:
            told = re.findall(r"\bJobState=(\w+)", self.call("--oneliner", "show", "job", job))
        except OSError as error:
            return "Invalid job id" in str(error)
        return bool(told) and not GOES_ON.intersection(told)  # the name of a job may say anything, also a state

    def drain(self, check: str, why: str, rolled: bool) -> bool:
        """Drain the node because of a check; return whether it did. Drains by others keep their reason."""
        states, reason, prolog = self.seen()
        mine = OURS.match(reason)
        yields = prolog or (rolled and reason == ROLLING) or (mine and mine.group(1) != check)
        if states & HELD and not yields:
            return False
        text = f"rackwright: {check}: {why}".translate({91: "(", 93: ")", 34: "'"})
        text = "".join(character if character.isprintable() else " " for character in text)
        self.update("State=DRAIN", f"Reason={text[:LONGEST_REASON]}")
        return True

    def lift(self) -> bool:
        """Resume the node if `drain` or a failed prolog drained it; return whether it did."""
        states, reason, prolog = self.seen()
        if "DRAIN" not in states or not (OURS.match(reason) or prolog):
            return False
        self.update("State=RESUME")
        return True
