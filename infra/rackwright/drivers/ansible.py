"""Playbook runs in a child process, and their results: changed hosts, failed hosts with the reason.

The child starts from an allow-list of environment variables: an inherited ANSIBLE_HOST_KEY_CHECKING=False would switch off host key
checking under Mitogen, regardless of ansible.cfg.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.drivers.failure_reason import reason_in_output
from rackwright.drivers.process import CompletedProcess, ProcessTimeoutError, stream
from rackwright.drivers.supervision import INTERRUPTED, current
from rackwright.report.redact import Redactor, redactor
from rackwright.time_limits import slowness

_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "RACKWRIGHT_HOME", "SSH_AUTH_SOCK")
_LONGEST: Final = 3600.0
"""Seconds of a run without a limit of its own: the first `up` installs packages on every node."""
_CALLBACKS: Final = ("module_recorder", "no_log_changes", "failed_nodes")
_CUT_OFF: Final = ("Context has disconnected", "EOF on stream", "Connection timed out")
"""Messages of Mitogen about a broken connection (mitogen/core.py, mitogen/parent.py)."""
_CONNECT: Final = 90
"""Seconds to connect at slowness 1, as `timeout` of ansible.cfg. Mitogen starts Python on the node in them: an emulated machine that the
checks kept busy took more than 30 (`rackwright drift lab-vm`). SSH detects within seconds that a node is down."""


@dataclass(frozen=True)
class TaskResult:
    """One task on one host."""

    host: str
    phase: str
    task: str
    detail: str = ""
    role: str = ""
    live: str = ""
    """Live value and then declared value of a task that would change something; a few lines for display."""
    declared: str = ""

    def __str__(self) -> str:
        """Return host and task in one line, then the decisive lines."""
        return ": ".join(part for part in (self.host, self.phase, self.task, self.detail) if part)


@dataclass
class PlaybookResult:
    """Result of a playbook run."""

    status: int = 0
    failed: list[TaskResult] = field(default_factory=list)
    unreachable: list[TaskResult] = field(default_factory=list)
    changed: list[TaskResult] = field(default_factory=list)
    requires_drain: list[TaskResult] = field(default_factory=list)
    """Nodes that must be drained before the declared configuration can be applied, and why."""
    message: str = ""
    times: list[list[Any]] = field(default_factory=list)
    """Phase, role, host, start and end (ISO 8601, UTC), number of tasks and of failed ones."""
    ended_early: str = ""
    """In which phase a run ended before its last one, and which nodes were left as they were."""
    unrecorded: str = ""
    """Why task results are missing from the run's record."""
    cut_after: float | None = None
    """Seconds after which a run with a limit was ended; its results are those until then. None for a run that ended by itself."""

    @property
    def connection_lost(self) -> bool:
        """Return whether a connection broke during a task, so that it is unknown whether the task completed."""
        return any(sign in result.detail for result in (*self.failed, *self.unreachable) for sign in _CUT_OFF)

    @property
    def reasons(self) -> list[str]:
        """Return why the run failed; empty after a successful run."""
        found = [str(result) for result in (*self.unreachable, *self.failed)]
        found += [self.ended_early] if found and self.ended_early else []
        return found or ([self.message or f"ansible ended with status {self.status}"] if self.status else [])


async def play(
    root: Path,
    playbook: str,
    *,
    inventory: Path,
    extra_vars: Sequence[Path] = (),
    values: dict[str, Any] | None = None,
    limit: Sequence[str] = (),
    skip_tags: Sequence[str] = (),
    check: bool = False,
    answers: Path | None = None,
    limit_s: float | None = None,
    record: Path | None = None,
    lost: Collection[str] = (),
    on_progress: Callable[[str], Awaitable[None]],
) -> PlaybookResult:
    """Run one playbook of the project. `check` runs check mode; `answers` is a file that records the modules' arguments and results.

    `lost`: unreachable nodes, which the limit leaves out; nodes that need them are left out, too.
    `record`: file to which each task result is appended, with secrets of `extra_vars` masked (rackwright.report.run_record).
    `limit_s`: seconds after which check mode is ended, because its tasks may wait for a daemon.
    """
    request = {
        "root": str(root),
        "playbook": playbook,
        "inventory": str(inventory),
        "extra_vars": [str(path) for path in extra_vars],
        "values": {**(values or {}), **({"unreachable_nodes": sorted(lost)} if lost else {})},
        "limit": list(limit),
        "skip_tags": list(skip_tags),
        "check": check,
        "record": str(record or ""),
    }
    return await _run_child(request, {**environment(root), **_recorder_environment(answers)}, limit_s, on_progress)


async def _run_child(
    request: Mapping[str, Any], variables: Mapping[str, str], limit_s: float | None, on_progress: Callable[[str], Awaitable[None]]
) -> PlaybookResult:
    applied = PlaybookResult()

    async def on_line(line: str) -> None:
        if line.startswith("{"):
            await _handle(json.loads(line), applied, on_progress)

    command = [sys.executable, "-m", "rackwright.drivers.ansible_child"]
    try:
        ended = await stream(command, on_line, stdin=json.dumps(request).encode(), env=dict(variables), timeout=limit_s or _LONGEST)
    except ProcessTimeoutError:
        if limit_s is None:
            raise
        applied.cut_after = limit_s
        return applied
    return _ended(applied, ended, redactor(*(Path(path) for path in request["extra_vars"])))


def _ended(applied: PlaybookResult, ended: CompletedProcess, mask: Redactor) -> PlaybookResult:
    """Return the result with the exit status, and with the child's own error if it reported none."""
    applied.status = applied.status or ended.status
    if ended.status and current.cancelled:
        return PlaybookResult(applied.status, changed=applied.changed, message=INTERRUPTED)
    if ended.status and not applied.message:
        applied.message = reason_in_output(mask(ended.stderr))
    return applied


async def _handle(event: dict[str, Any], applied: PlaybookResult, on_progress: Callable[[str], Awaitable[None]]) -> None:
    kind = event.pop("event")
    if kind == "progress":
        await on_progress(event["text"])
    elif kind in ("ended_early", "unrecorded"):
        setattr(applied, kind, event["text"])
    elif kind == "times":
        applied.times += event["rows"]
    elif kind == "end":
        applied.status, applied.message = event["status"], event["message"]
    else:
        getattr(applied, kind).append(TaskResult(**event))


def _recorder_environment(answers: Path | None) -> dict[str, str]:
    """Return the environment that makes the callback record module results."""
    return {} if answers is None else {"RACKWRIGHT_MODULE_RECORDING": str(answers)}


def environment(root: Path) -> dict[str, str]:
    """Return the environment variables that Ansible and its ssh inherit from this process."""
    import ansible_mitogen

    strategies = Path(next(iter(ansible_mitogen.__path__))) / "plugins" / "strategy"
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited.get("PATH", os.defpath)]),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(layout.IMPORT_ROOT),
        layout.PROJECT_ENV: str(layout.project_root()),
        "ANSIBLE_CONFIG": str(root / layout.ANSIBLE_CFG),
        "ANSIBLE_STRATEGY_PLUGINS": str(strategies),
        "ANSIBLE_STRATEGY": "mitogen_linear",
        "ANSIBLE_TIMEOUT": str(_CONNECT * slowness()),
        "ANSIBLE_CALLBACKS_ENABLED": ",".join(f"{layout.COLLECTION_NAME}.{name}" for name in _CALLBACKS),
    }
