#!/usr/bin/python3
"""Nodes, jobs and scheduler of Slurm, under the names of Slurm's own endpoint (25.11: slurm.schedmd.com/metrics.html).

That endpoint has no state of a single node and no GPUs in every release: rackwright_slurm_node_state and slurm_node_gpus are added.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rackwright_metrics import CollectError, Samples, output_of, run

BASE = {"ALLOCATED": "alloc", "DOWN": "down", "FUTURE": "future", "IDLE": "idle", "MIXED": "mixed", "UNKNOWN": "unknown"}
"""Base states and their names in metrics; scontrol prints one of them, then flags."""
FLAGS = {
    "COMPLETING": "completing",
    "DRAIN": "drain",
    "FAIL": "fail",
    "INVALID_REG": "invalid_reg",
    "MAINTENANCE": "maint",
    "NOT_RESPONDING": "noresp",
    "PLANNED": "planned",
    "POWERED_DOWN": "powered_down",
    "POWERING_DOWN": "powering_down",
    "POWERING_UP": "powering_up",
    "REBOOT_REQUESTED": "reboot_req",
    "RESERVED": "resv",
}
SUFFIXES = {
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
"""Flags that sinfo, and scontrol before Slurm 21.08, print as a character after a state: sinfo(1), NODE STATE CODES."""
SYNONYMS = {
    "CANCEL_REBOOT": "REBOOT_CANCELED",
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "FAILING": "FAIL",
    "INVAL": "INVALID_REG",
    "MAINT": "MAINTENANCE",
    "NO_RESPOND": "NOT_RESPONDING",
    "POWER": "POWERED_DOWN",
    "REBOOT": "REBOOT_REQUESTED",
}
"""Names of flags in older releases and in sinfo."""
ORIGINS = {"CLOUD", "DYNAMIC_FUTURE", "DYNAMIC_NORM", "EXTERNAL"}
"""Flags that say where a node comes from, not whether it accepts jobs."""
OTHERS = {"BLOCKED", "NPC", "PERFCTRS", "POWER_DOWN", "POWER_DRAIN", "POWER_UP", "REBOOT_CANCELED", "REBOOT_ISSUED", "RESUME", "UNDRAIN"}
"""Flags without a metric of their own (slurm_protocol_defs.c, node_states and flags, Slurm 20.11 to 26.11)."""
JOBS = {
    "BOOT_FAIL": "bootfail",
    "CANCELLED": "cancelled",
    "COMPLETED": "completed",
    "COMPLETING": "completing",
    "CONFIGURING": "configuring",
    "DEADLINE": "deadline",
    "FAILED": "failed",
    "NODE_FAIL": "node_failed",
    "OUT_OF_MEMORY": "outofmemory",
    "PENDING": "pending",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
    "RUNNING": "running",
    "SUSPENDED": "suspended",
    "TIMEOUT": "timeout",
}
HELD = ("JobHeldUser", "JobHeldAdmin")
DIAGNOSTICS = {
    "Server thread count": ("slurm_server_thread_cnt", "Threads of slurmctld that serve requests"),
    "Agent queue size": ("slurm_agent_queue_size", "Requests that slurmctld has not yet sent to nodes"),
    "DBD Agent queue size": ("slurm_slurmdbd_queue_size", "Records that slurmctld has not yet sent to slurmdbd"),
    "Last cycle": ("slurm_schedule_cycle_last", "Microseconds of the main scheduler's last cycle"),
}
"""Lines of sdiag; the first of equal ones is of the main scheduler."""


def states_of(cell: str) -> frozenset[str]:
    """Return base state and flags of a State field, and each part that is neither as it is printed.

    >>> sorted(states_of("DOWN*+DRAIN")), sorted(states_of("MIXED+PLANNED"))
    (['DOWN', 'DRAIN', 'NOT_RESPONDING'], ['MIXED', 'PLANNED'])
    >>> sorted(states_of("MIXED#+CLOUD")), sorted(states_of("IDLE+MAINT+?"))
    (['CLOUD', 'MIXED', 'POWERING_UP'], ['?', 'IDLE', 'MAINTENANCE'])
    """
    words: set[str] = set()
    for word in filter(None, cell.split("+")):
        name, marks = re.fullmatch(r"([A-Z_]*)(.*)", word).groups()  # type: ignore[union-attr]  # it matches any word
        words |= {SYNONYMS.get(name, name), *(SUFFIXES.get(mark, mark) for mark in marks)}
    return frozenset(words - {""})


def unread(states: frozenset[str]) -> bool:
    """Return whether a part of a State field was not read: it has no base state, or a part that is no state.

    A newer slurmctld has other states: scontrol prints INVALID for a base state and `?` for a flag that it does not know.

    >>> unread(frozenset({"IDLE", "DRAIN"})), unread(frozenset({"IDLE", "?"})), unread(frozenset({"INVALID", "DRAIN"}))
    (False, True, True)
    """
    return not states & set(BASE) or not states <= {*BASE, *FLAGS, *ORIGINS, *OTHERS}


def nodes(text: str) -> tuple[dict[str, dict[str, str]], int]:
    """Return fields by node from `scontrol --oneliner show nodes`, and the number of rows without the name of their node.

    A reason may contain anything and is left out. The state of a row without a line end is left out, because flags may be missing.
    """
    found, nameless = {}, 0
    *lines, cut = text.split("\n")
    for line in [*lines, cut.partition(" State=")[0]]:
        # Of a repeated key, as in a comment, the first counts.
        fields = dict(reversed(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line.partition(" Reason=")[0])))
        if line.startswith("NodeName=") and fields["NodeName"]:
            trailing = dict(re.findall(r"\s(CfgTRES|AllocTRES)=(\S*)", line))
            found[fields["NodeName"]] = {**trailing, **fields}
        else:
            nameless += bool({"State", "CPUTot"} & set(fields))
    if not found and "No nodes in the system" not in text:
        raise CollectError("scontrol lists no node")
    return found, nameless


def tres_gpus(cell: str) -> int:
    """Return the GPUs of a TRES field: the untyped number, else the sum of all types.

    >>> tres_gpus("cpu=8,mem=2G,gres/gpu=8,gres/gpu:h100=8"), tres_gpus("cpu=8,gres/gpu:a=1,gres/gpu:b=2"), tres_gpus("")
    (8, 3, 0)
    """
    untyped = re.search(r"(?:^|,)gres/gpu=(\d+)", cell)
    return int(untyped[1]) if untyped else sum(int(number) for number in re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)", cell))


def jobs(text: str) -> tuple[list[tuple[str, tuple[str, ...], str, str]], int]:
    """Return state, partitions, account and reason of each line of squeue, and the number of lines that were not read.

    A pending job may name several partitions.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [cells for line in lines if len(cells := line.split("|", 3)) == 4]
    if lines and not found:
        raise CollectError(f'squeue printed "{lines[0][:80]}"')
    return [(state, tuple(names.split(",")), account, reason) for state, names, account, reason in found], len(lines) - len(found)


def add_nodes(live: Mapping[str, Mapping[str, str]], samples: Samples) -> None:
    """Count nodes by state, and add CPUs and GPUs of each. A node without a base state that is known has no state and counts in none."""
    counts: Counter[str] = Counter()
    samples.describe("slurm_nodes", "Number of nodes")
    samples.describe("rackwright_slurm_node_state", "Whether a node has a state or flag")
    samples.describe("rackwright_slurm_node_unread", "Whether a part of a node's state could not be read")
    for name, fields in live.items():
        states = states_of(fields.get("State", ""))
        samples.set("rackwright_slurm_node_unread", unread(states), node=name)
        for word, short in {**BASE, **FLAGS}.items() if states & set(BASE) else ():
            counts[short] += word in states
            samples.set("rackwright_slurm_node_state", word in states, node=name, state=short)
        for key, metric in (("CPUTot", "slurm_node_cpus"), ("CPUAlloc", "slurm_node_cpus_alloc")):
            if fields.get(key, "").isdigit():
                samples.set(metric, int(fields[key]), node=name)
        samples.set("slurm_node_gpus", tres_gpus(fields.get("CfgTRES", "")), node=name)
        samples.set("slurm_node_gpus_alloc", tres_gpus(fields.get("AllocTRES", "")), node=name)
    samples.set("slurm_nodes", len(live))
    for short in (*BASE.values(), *FLAGS.values()):
        samples.set(f"slurm_nodes_{short}", counts[short])


def add_jobs(configuration: Mapping[str, Any], rows: list[tuple[str, tuple[str, ...], str, str]], samples: Samples) -> None:
    """Count jobs by state, partition and account; partitions and accounts of the plan without a job get 0."""
    states = Counter(state for state, *_ in rows)
    held = Counter(name for state, names, _, reason in rows if state == "PENDING" and reason in HELD for name in ("", *names))
    of_partition = Counter((state, name) for state, names, *_ in rows for name in names)
    of_account = Counter((state, account) for state, _, account, _ in rows if account)
    samples.set("slurm_jobs", len(rows))
    samples.set("slurm_jobs_hold", held[""])
    for state, short in JOBS.items():
        samples.set(f"slurm_jobs_{short}", states[state])
    for partition in sorted({*configuration["partitions"], *(name for _, name in of_partition)}):
        samples.set("slurm_partition_jobs_hold", held[partition], partition=partition)
        for state in ("PENDING", "RUNNING"):
            samples.set(f"slurm_partition_jobs_{JOBS[state]}", of_partition[state, partition], partition=partition)
    for account in sorted({*configuration["accounts"], *(name for _, name in of_account)}):
        for state in ("PENDING", "RUNNING"):
            samples.set(f"slurm_account_jobs_{JOBS[state]}", of_account[state, account], account=account)


def add_partitions(configuration: Mapping[str, Any], live: Mapping[str, Mapping[str, str]], samples: Samples) -> None:
    """Count the idle nodes of each partition that accept jobs."""
    idle = [fields.get("Partitions", "").split(",") for fields in live.values() if states_of(fields.get("State", "")) - ORIGINS == {"IDLE"}]
    for partition in sorted({*configuration["partitions"], *(name for names in idle for name in names if name)}):
        samples.set("slurm_partition_nodes_idle", sum(partition in names for names in idle), partition=partition)


def add_diagnostics(text: str, samples: Samples) -> None:
    """Add the figures of sdiag that a release prints."""
    for words, (name, described) in DIAGNOSTICS.items():
        found = re.search(rf"^\s*{words}:\s+(\d+)", text, re.MULTILINE)
        if found:
            samples.describe(name, described)
            samples.set(name, int(found[1]))


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """The first command that fails ends the collection: each of them waits for the same daemon."""
    live, nameless = nodes(output_of(["scontrol", "--oneliner", "show", "nodes"]))
    rows, damaged = jobs(output_of(["squeue", "--noheader", "--states=all", "--format=%T|%P|%a|%r"]))
    samples.describe("rackwright_slurm_rows_unread", "Number of rows that could not be read: nodes without a name, jobs")
    samples.set("rackwright_slurm_rows_unread", nameless, command="scontrol")
    samples.set("rackwright_slurm_rows_unread", damaged, command="squeue")
    add_nodes(live, samples)
    add_jobs(configuration["slurm"], rows, samples)
    add_partitions(configuration["slurm"], live, samples)
    add_diagnostics(output_of(["sdiag"]), samples)


if __name__ == "__main__":
    sys.exit(run("slurm", collect))
