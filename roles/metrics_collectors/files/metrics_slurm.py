#!/usr/bin/python3
"""Nodes, jobs and scheduler of Slurm, under the names of Slurm's own endpoint (25.11: slurm.schedmd.com/metrics.html).

That endpoint has no state of a single node and no GPUs in every release: rackwright_slurm_node_state and slurm_node_gpus are added.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
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
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "-": "PLANNED",
}
"""Flags that sinfo, and scontrol before Slurm 21.08, print as a character after a state: sinfo(1), NODE STATE CODES."""
SYNONYMS = {
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
ORIGINS = {"CLOUD", "DYNAMIC_FUTURE", "DYNAMIC_NORM"}
"""Flags that say where a node comes from, not whether it accepts jobs."""
UNKNOWN_FLAG = "?"
"""What scontrol prints for a flag of a newer slurmctld (slurm_protocol_defs.c, node_state_flag_string_single)."""
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
    """Return base state and flags of a State field.

    >>> sorted(states_of("DOWN*+DRAIN")), sorted(states_of("MIXED+PLANNED"))
    (['DOWN', 'DRAIN', 'NOT_RESPONDING'], ['MIXED', 'PLANNED'])
    >>> sorted(states_of("MIXED#+CLOUD")), sorted(states_of("IDLE+MAINT"))
    (['CLOUD', 'MIXED', 'POWERING_UP'], ['IDLE', 'MAINTENANCE'])
    """
    words: set[str] = set()
    for word in cell.split("+"):
        if words and word == UNKNOWN_FLAG:
            continue
        name = re.match(r"[A-Z_]+", word)
        if not name:
            raise CollectError(f'"{cell}" is no state of a node')
        words |= {SYNONYMS.get(name[0], name[0]), *(SUFFIXES[mark] for mark in word[name.end() :] if mark in SUFFIXES)}
    return frozenset(words)


def nodes(text: str) -> dict[str, dict[str, str]]:
    """Return fields by node from `scontrol --oneliner show nodes`; a reason may contain anything and is left out."""
    found = {}
    for line in text.splitlines():
        if line.startswith("NodeName="):
            fields = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line.partition(" Reason=")[0]))
            trailing = dict(re.findall(r"\s(CfgTRES|AllocTRES)=(\S*)", line))
            found[fields["NodeName"]] = {**trailing, **fields}
    if not found and "No nodes in the system" not in text:
        raise CollectError("scontrol lists no node")
    return found


def tres_gpus(cell: str) -> int:
    """Return the GPUs of a TRES field: the untyped number, else the sum of all types.

    >>> tres_gpus("cpu=8,mem=2G,gres/gpu=8,gres/gpu:h100=8"), tres_gpus("cpu=8,gres/gpu:a=1,gres/gpu:b=2"), tres_gpus("")
    (8, 3, 0)
    """
    untyped = re.search(r"(?:^|,)gres/gpu=(\d+)", cell)
    return int(untyped[1]) if untyped else sum(int(number) for number in re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d+)", cell))


def jobs(text: str) -> Iterator[tuple[str, tuple[str, ...], str, str]]:
    """Yield state, partitions, account and reason of each line of squeue; a pending job may name several partitions."""
    for line in text.splitlines():
        cells = line.strip().split("|", 3)
        if len(cells) == 4:
            yield cells[0], tuple(cells[1].split(",")), cells[2], cells[3]
        elif line.strip():
            raise CollectError(f'squeue printed "{line.strip()[:80]}"')


def add_nodes(live: Mapping[str, Mapping[str, str]], samples: Samples) -> None:
    """Count nodes by state, and add CPUs and GPUs of each."""
    counts: Counter[str] = Counter()
    samples.describe("slurm_nodes", "Number of nodes")
    samples.describe("rackwright_slurm_node_state", "Whether a node has a state or flag")
    for name, fields in live.items():
        states = states_of(fields.get("State", ""))
        for word, short in {**BASE, **FLAGS}.items():
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
    idle = [fields.get("Partitions", "").split(",") for fields in live.values() if states_of(fields["State"]) - ORIGINS == {"IDLE"}]
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
    live = nodes(output_of(["scontrol", "--oneliner", "show", "nodes"]))
    rows = list(jobs(output_of(["squeue", "--noheader", "--states=all", "--format=%T|%P|%a|%r"])))
    add_nodes(live, samples)
    add_jobs(configuration["slurm"], rows, samples)
    add_partitions(configuration["slurm"], live, samples)
    add_diagnostics(output_of(["sdiag"]), samples)


if __name__ == "__main__":
    sys.exit(run("slurm", collect))
