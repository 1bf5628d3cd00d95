"""`make bench-hosts`: a night over 64 hosts, each a container of the lab with simulated GPUs, beside one script over SSH to each.

usage: python benchmarks/hosts.py [--hosts N] [--rounds N] [--write]      --write puts the table into docs/performance.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from looks import converged, drifted, lookups, say, timed, verified  # noqa: E402
from support.project import Project, clone  # noqa: E402

_PAGE: Final = HERE.parent / "docs" / "performance.md"
_MARKS: Final = ("<!-- hosts -->", "<!-- /hosts -->")
_OTHERS: Final = 2
"""Hosts that are no workers: one login node with the controller, one storage node."""
_TICK: Final = os.sysconf("SC_CLK_TCK")
_REST: Final = 30.0
"""Seconds without a request, in which the CPU time of idle hosts is measured."""
_PATIENCE: Final = 3600.0
"""Seconds that the first `up` may take."""


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and of all cores of the machine, on which the hosts run as well."""

    seconds: float
    cpu: float


def main() -> int:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rackwright-hosts-") as folder:
        project = many(Path(folder) / "checkout", asked.hosts)
        try:
            table = measure(project, asked.hosts, asked.rounds)
        finally:
            project.remove()
    print(table)
    if asked.write:
        head, rest = _PAGE.read_text().split(_MARKS[0])
        _PAGE.write_text(f"{head}{_MARKS[0]}\n\n{machine(asked.rounds)}\n\n{table}\n\n{_MARKS[1]}{rest.split(_MARKS[1])[1]}")
    return 0


def many(folder: Path, hosts: int) -> Project:
    """The stack `lab` with so many hosts; the fabric is laid out for its workers.

    No jobs: on 62 nodes that share this machine they would measure that. For the same reason nodes look at themselves every five minutes.
    """
    project = clone(folder, number=183)
    workers = hosts - _OTHERS
    project.edit(lambda cluster: cluster["groups"]["worker"].update(count=workers))
    project.edit(lambda cluster: cluster["fabric"].update(max_nodes=workers))
    project.edit(lambda cluster: cluster.update(verify_level="checks"))
    project.edit(lambda cluster: cluster["scheduler"].update(health_check_interval="5m"))
    return project


def measure(project: Project, hosts: int, rounds: int) -> str:
    """All rows, on one stack that is up."""
    say(f"{hosts} hosts come up; the image first, if it is not cached yet")
    first = cost(lambda: project.run_checked("up", timeout=_PATIENCE))
    drifted(project)  # The first look after an `up` is the phases' own.
    say("what changes nothing")
    idle = cost(lambda: time.sleep(_REST))
    rows = {
        "one SSH script per host (`benchmarks/lookups.sh`)": [cost(lambda: lookups(project)) for _ in range(rounds)],
        "converge by the phases themselves, nothing to do": [cost(lambda: converged(project)) for _ in range(rounds)],
        "`pulumi up --refresh`, nothing to do: nodes asked what the phases asked them": [
            cost(lambda: project.run_checked("up", "--refresh", timeout=_PATIENCE)) for _ in range(rounds)
        ],
        "`rackwright verify`, passive checks": [cost(lambda: verified(project)) for _ in range(rounds)],
        "`rackwright drift`, three layers, nothing differs": [cost(lambda: drifted(project)) for _ in range(rounds)],
    }
    lines = ["| what | median | of all cores, per host | against the script |", "|---|---|---|---|"]
    floor = statistics.median(one.seconds for one in next(iter(rows.values())))
    lines += [row(what, costs, hosts, floor) for what, costs in rows.items()]
    lines.append(row("first `pulumi up` to verified at level checks, once", [first], hosts, floor))
    lines.append(f"| (the hosts by themselves, in {idle.seconds:.0f} s) | | {1000 * idle.cpu / hosts:.0f} ms | |")
    return "\n".join(lines)


def row(what: str, costs: list[Cost], hosts: int, floor: float) -> str:
    """Medians."""
    seconds, cpu = (statistics.median(values) for values in zip(*((one.seconds, one.cpu) for one in costs), strict=True))
    return f"| {what} | {seconds:.1f} s | {1000 * cpu / hosts:.0f} ms | {seconds / floor:.1f} × |"


def cost(call: Callable[[], object]) -> Cost:
    """What a call costs the machine, hosts included."""
    before = busy()
    seconds = timed(call)
    return Cost(seconds, busy() - before)


def busy() -> float:
    """Seconds in which a core of this machine had something to do, since it started: user, nice, system, irq, softirq (man 5 proc_stat)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    user, nice, system, _idle, _waiting, irq, softirq = ticks
    return (user + nice + system + irq + softirq) / _TICK


def machine(rounds: int) -> str:
    """What it was measured on, and how often."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Measured on {date.today()} with `python benchmarks/hosts.py --rounds {rounds}`: {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"kernel {platform.release().split('-')[0]}, Python {platform.python_version()}.\n"
        "The hosts and the control machine share these cores; GPUs and fabric are simulated."
    )


if __name__ == "__main__":
    sys.exit(main())
