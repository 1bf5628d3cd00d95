"""States of a Slurm node: the meaning of each, whether the node works in it or will when a job needs it, and whether a job can start."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from rackwright.errors import UndeterminedError


class State(NamedTuple):
    """One state."""

    is_working: bool
    meaning: str


STATES: Final[Mapping[str, State]] = {
    "ALLOCATED": State(True, "all CPUs are allocated to jobs"),
    "BLOCKED": State(True, "a job with --exclusive=topo keeps other jobs away"),
    "CANCEL_REBOOT": State(True, "a reboot was requested and cancelled"),
    "CLOUD": State(True, "the node is created when a job needs it"),
    "COMPLETING": State(True, "a job ends on the node"),
    "DOWN": State(False, "the node is out of use"),
    "DRAIN": State(False, "no job starts on the node"),
    "DRAINED": State(False, "no job starts or runs on the node"),
    "DRAINING": State(False, "jobs still run, and no job starts on the node"),
    "DYNAMIC_FUTURE": State(True, "a FUTURE node that slurmd registered"),
    "DYNAMIC_NORM": State(True, "slurmd added the node when it registered"),
    "ERROR": State(False, "the node is in an error state"),
    "EXTERNAL": State(True, "the node is managed by another system"),
    "FAIL": State(False, "the node is expected to fail, and no job starts on it"),
    "FAILING": State(False, "the node is expected to fail, and a job still runs on it"),
    "FUTURE": State(True, "the node is defined and not in use yet"),
    "IDLE": State(True, "no job runs on the node"),
    "INVAL": State(False, "the node registered with other resources than it is configured with"),
    "INVALID_REG": State(False, "the node registered with other resources than it is configured with"),
    "MAINT": State(True, "the node is in a reservation with the flag maint"),
    "MAINTENANCE": State(True, "the node is in a reservation with the flag maint"),
    "MIXED": State(True, "a part of the CPUs is allocated to jobs"),
    "NO_RESPOND": State(False, "slurmctld gets no answer from the node"),
    "NOT_RESPONDING": State(False, "slurmctld gets no answer from the node"),
    "NPC": State(True, "a program holds the network performance counters"),
    "PERFCTRS": State(True, "a program holds the network performance counters"),
    "PLANNED": State(True, "the backfill scheduler keeps the node for a job of higher priority"),
    "POWER": State(True, "the node is powered up when a job needs it"),
    "POWER_DOWN": State(True, "the node is about to be powered down"),
    "POWER_DRAIN": State(True, "the node is powered down when its jobs end"),
    "POWER_UP": State(True, "the node is about to be powered up"),
    "POWERED_DOWN": State(True, "the node is powered up when a job needs it"),
    "POWERING_DOWN": State(True, "the node is being powered down"),
    "POWERING_UP": State(True, "the node is being powered up"),
    "REBOOT": State(False, "a reboot is requested"),
    "REBOOT_CANCELED": State(True, "a reboot was requested and cancelled"),
    "REBOOT_ISSUED": State(False, "the node reboots"),
    "REBOOT_REQUESTED": State(False, "a reboot is requested"),
    "RESERVED": State(True, "the node is in a reservation"),
    "RESUME": State(True, "the node is about to be resumed"),
    "UNDRAIN": State(True, "the node is about to be resumed"),
    "UNKNOWN": State(False, "slurmctld has started, and does not know the node's state yet"),
}
"""States by name: `man sinfo`, NODE STATE CODES, and the names that scontrol prints for them (Slurm 24.11, node_state_flag_string;
POWER: Slurm 20.11)."""
POWER_CHANGES: Final = frozenset({"POWER", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
"""States in which a node need not respond: slurm.conf(5), ResumeTimeout and SuspendTimeout. A node that responds too late is DOWN."""

SUFFIXES: Final[Mapping[str, str]] = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""Meaning of a character after a state (`man sinfo`, NODE STATE CODES). A `+` after a state means that there are more."""


_SILENT: Final = frozenset({"NO_RESPOND", "NOT_RESPONDING"})


def states_of(text: str) -> frozenset[str]:
    """Return the states of a field `State=`, including those of its suffixes. Raise ValueError where there is none.

    Slurm prints `?` for a flag that its command does not know (slurm_protocol_defs.c, node_state_flag_string_single).

    >>> sorted(states_of("IDLE*+CLOUD+RESERVED"))
    ['CLOUD', 'IDLE', 'NOT_RESPONDING', 'RESERVED']
    """
    found = set[str]()
    for word in filter(None, text.strip().upper().split("+")):
        name = re.match(r"[A-Z][A-Z_]*", word) or (re.match(r"\?$", word) if found else None)
        if not name or not set(word[name.end() :]) <= set(SUFFIXES):
            raise ValueError(f'"{text}" is not a state of a node')
        found |= {name[0], *(SUFFIXES[character] for character in word[name.end() :])}
    if not found:
        raise ValueError("a node without a state")
    return frozenset(found)


def is_working(states: Collection[str]) -> bool:
    """Return whether a node works in these states. Raise UndeterminedError for a state that is not listed, unless another one is bad.

    >>> is_working({"IDLE", "CLOUD", "NOT_RESPONDING", "POWERING_UP"}), is_working({"IDLE", "CLOUD", "NOT_RESPONDING"})
    (True, False)
    """
    expected = _SILENT if POWER_CHANGES & set(states) else frozenset[str]()
    if any(not STATES[state].is_working for state in states if state in STATES and state not in expected):
        return False
    unlisted = sorted(set(states) - set(STATES))
    if unlisted:
        raise UndeterminedError(f"{', '.join(unlisted)}: not a known state of a Slurm node")
    return True


_FREE: Final = frozenset({"IDLE", "POWERED_DOWN", "POWERING_UP", "POWER_DOWN", "POWERING_DOWN"})
"""States in which a job can start, at once or after the node is powered up."""
_OCCUPIED: Final = frozenset({"ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "RESERVED", "MAINT", "MAINTENANCE", "BLOCKED"})
"""States of a node at work, or kept for a job or a reservation."""


def at_work(state: str) -> bool:
    """Return whether a healthy node runs jobs or is kept from others, by sinfo's long state. A reservation excludes other jobs.

    >>> at_work("mixed none"), at_work("mixed! none"), at_work("idle$ none")
    (True, True, True)
    >>> at_work("allocated* Not responding"), at_work("draining leaving"), at_work("mixed@ none")
    (False, False, False)
    """
    found = _states(state)
    return bool(found & _OCCUPIED) and is_healthy(found)


def is_idle(state: str) -> bool:
    """Return whether a job can start on a node, by sinfo's long state: it is idle, or is powered up when the job needs it.

    >>> is_idle("idle none"), is_idle("idle~ none"), is_idle("idle* Not responding"), is_idle("idle@ none")
    (True, True, False, False)
    """
    found = _states(state)
    return bool(found) and found <= _FREE


def is_healthy(found: frozenset[str]) -> bool:
    """Return whether a node works in these states; False for a state that is not known."""
    try:
        return is_working(found)
    except UndeterminedError:
        return False


def _states(state: str) -> frozenset[str]:
    """Return the states in the first word of sinfo's long state; none if it is no state."""
    try:
        return states_of(next(iter(state.split()), ""))
    except ValueError:
        return frozenset()
