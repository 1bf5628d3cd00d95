"""How a failure shows: Slurm's view of nodes and jobs, and the events of a training run, from the node where jobs are submitted."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from rackwright.drivers import remote_exec
from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.chaos.permission import Observation

_ANSWER: Final = 60.0
"""Seconds for an answer: two commands of Slurm with a limit of 15 s each, and the start of Python. Longer on a slow machine."""
_LINES: Final = 2000
"""Lines of a full answer (remote/programs/training_run.py); the next request reads on."""


@dataclass(frozen=True)
class ChaosSite:
    """The part of a stack where failures show."""

    submit_host: str
    user: str
    """User of the demo: the first declared one, as for `rackwright demo`."""
    results: str
    """Folder of training runs; empty without a shared file system."""


def find_site(declared: Inventory) -> ChaosSite:
    """Return where failures of a stack show. Raises InputError for a stack without Slurm, login node or user."""
    scheduler = declared.cluster.get("scheduler") or {}
    where = f"stack {declared.stack}"
    if scheduler.get("kind") != "slurm":
        found = str(scheduler.get("kind") or "none").capitalize()
        raise InputError(f"chaos reads the nodes' states from Slurm (found scheduler {found})", path=where, hint="use a stack with Slurm")
    hosts = [name for name in scheduler["submit_hosts"] if name in declared.nodes]
    if not hosts:
        raise InputError("has no node to submit jobs from", path=where, hint="give a group the role `login`")
    if not declared.cluster.get("users"):
        raise InputError("has no user whose jobs may be disturbed", path=where, hint="add one, for example `users: {alice: {uid: 2001}}`")
    mounts = [one["mount"] for one in declared.cluster.get("storage") or () if hosts[0] in one["clients"]]
    user = str(declared.cluster["users"][0]["name"])
    return ChaosSite(hosts[0], user, f"{mounts[0]}/validation/results" if mounts else "")


@dataclass
class Watch:
    """Repeated observations of one cluster."""

    running: RunningStack
    site: ChaosSite
    slowness: int
    run: str = ""
    """Name of the training run that is followed; empty without one."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)

    async def observe(self) -> Observation:
        """Return what Slurm shows now, and read what the training run has written."""
        name = self.site.submit_host
        sudo = {name: self.running.inventory.needs_sudo(name)}
        while True:
            request = {"results": self.site.results, "run": self.run, "offsets": self.offsets}
            found, lost = await remote_exec.run_on_nodes(
                self.running.name,
                "chaos_watch",
                {name: request},
                sudo,
                target=self.running.inventory.target,
                limit=_ANSWER * self.slowness,
            )
            if name in lost:
                return Observation(time.time(), f"{name}: {lost[name]}")
            answer = found[name]
            self._take(answer)
            if len(answer["lines"]) < _LINES:
                return Observation(answer["now"], answer["error"], answer["nodes"], answer["jobs"])

    def _take(self, answer: dict[str, Any]) -> None:
        self.run = answer["run"] if self.site.results else ""
        self.lines += answer["lines"]
        self.offsets = answer["offsets"]

    @property
    def has_run(self) -> bool:
        """Return whether a training run is in progress: it has trained a step, and no job has ended it."""
        steps = any(line["event"] == "step" for line in self.lines)
        return bool(self.run) and steps and not any(line["event"] in ("end", "gave-up") and "job" in line for line in self.lines)

    async def observe_current_run(self) -> Observation:
        """Observe; follow the next run from now on, if no job of the one before is left."""
        seen = await self.observe()
        if self.run and not seen.error and self.run not in {job["name"] for job in seen.jobs}:
            self.run, self.lines, self.offsets = "", [], {}
            seen = await self.observe()
        return seen
