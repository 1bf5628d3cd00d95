"""A lab's power agent: the process that stops and starts workers for Slurm. The agent outlives the run that starts it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from rackwright import layout
from rackwright.drivers.daemon import is_running, terminate
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.protocol.diff import DiffResult, PropertyDiffKind
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

_AGENT: Final = "rackwright.provider.lab.power_agent"
_COMMAND: Final = (sys.executable, "-m", _AGENT)
_START: Final = 15.0
"""Seconds until a started agent must have written its lock file."""
_END: Final = 25.0
"""Seconds an agent may take to stop: it waits for the containers that it is stopping."""
_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "XDG_RUNTIME_DIR")


class Agent(NamedTuple):
    """A process: its number and its start time (clock ticks since the machine's boot)."""

    pid: int
    start_time: int


class PowerManager(Resource):
    """Inputs: stack, controller (its container), nodes (those in power saving), agent (digest of its code). Outputs: pid, start_time."""

    token: ClassVar[str] = "rackwright:lab:PowerManager"
    required: ClassVar[tuple[str, ...]] = ("stack", "controller", "nodes", "agent")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """Return changed inputs, or an agent that has exited, without a refresh: jobs would wait for nodes that never start."""
        found = super().diff(state, news)
        return found if running_agent(state.inputs["stack"]) else found.with_change("pid", PropertyDiffKind.UPDATE)

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Start the agent; replace one from an earlier run."""
        return await _restarted(news)

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the recorded state while the agent runs; a restarted machine has none."""
        agent = running_agent(state.inputs["stack"])
        return _made(state.outputs, agent) if agent else None

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Restart the agent: it reads its arguments and its code at the start only."""
        return await _restarted(news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Stop the agent and remove its files."""
        stack, recorded = state.inputs["stack"], Agent(state.outputs.get("pid", 0), state.outputs.get("start_time", 0))
        for agent in {recorded, running_agent(stack) or recorded}:
            await _end(stack, agent)
        for folder in (paths.suspended_file(stack, "any").parent, paths.resumed_file(stack, "any").parent):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (paths.power_lock(stack), *paths.folder(stack).glob(f"{paths.power_log(stack).name}*")):
            file.unlink(missing_ok=True)


def running_agent(stack: str) -> Agent | None:
    """Return the stack's agent that its lock file names, or None if no such process runs."""
    with suppress(OSError, ValueError):
        pid, since = map(int, paths.power_lock(stack).read_text().split())
        if is_running(pid, since, (_AGENT, stack)):
            return Agent(pid, since)
    return None


async def _restarted(news: Properties) -> LiveResource:
    stack = news["stack"]
    if before := running_agent(stack):
        await _end(stack, before)
    paths.prepare(stack)
    child = _start(stack, [news["controller"], *news["nodes"]])
    deadline = asyncio.get_running_loop().time() + _START
    while not ((agent := running_agent(stack)) and agent.pid == child.pid):
        if child.poll() is not None or asyncio.get_running_loop().time() > deadline:
            raise RackwrightError(f"the power agent does not start: {_last_line(paths.power_log(stack))}", path=f"stack {stack}")
        await asyncio.sleep(0.05)
    return _made(news, agent)


def _start(stack: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start the agent in a session of its own, since the provider stops its other children at exit."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with open(paths.power_log(stack), "a") as log:
        return subprocess.Popen(
            [*_COMMAND, stack, *arguments],
            cwd="/",
            env={**environment, "RACKWRIGHT_HOME": str(paths.home()), "PYTHONPATH": str(layout.IMPORT_ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def _end(stack: str, agent: Agent) -> None:
    if not await asyncio.to_thread(terminate, *agent, (_AGENT, stack), patience=_END):
        raise RackwrightError(f"power agent (process {agent.pid}) does not exit", path=f"stack {stack}", hint=f"run `kill -9 {agent.pid}`")


def _made(properties: Properties, agent: Agent) -> LiveResource:
    return LiveResource(f"{properties['stack']}-power", {**properties, "pid": agent.pid, "start_time": agent.start_time})


def _last_line(file: Path) -> str:
    lines = file.read_text().splitlines() if file.exists() else []
    return lines[-1] if lines else "it printed nothing"
