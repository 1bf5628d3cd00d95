"""The session with the node from which jobs are submitted: one ssh connection; when it ends, everything that it started is cancelled."""

from __future__ import annotations

import json
import queue
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.remote.command import python_command

_GRACE: Final = 15.0
"""Seconds for cancelling what still runs, after the session has ended."""
_ANSWER: Final = 30.0
"""Seconds that an answer may take in addition to the work that was requested."""


class Submitter:
    """A session with one node, as one user; a context manager, because leaving it cancels the jobs.

    `jobs`: the program that runs the jobs, or queries the nodes (rackwright.remote.programs.job_submission).
    """

    def __init__(self, declared: Inventory, ssh_config: Path, node: str, user: str, jobs: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9._-]*", user):
            raise InputError("is not a user name", path=user)
        become = ["sudo", "-n"] if declared.needs_sudo(node) else []
        program = python_command("job_submission", {"jobs": jobs}, libraries=[jobs])
        there = f"{shlex.join([*become, 'runuser', '-u', user, '--'])} {program}"
        self.node = node
        self._command = ["ssh", "-F", str(ssh_config), node, there]
        self._said: queue.Queue[str] = queue.Queue()
        self._complaints: list[str] = []
        self._silent = ""
        """Why no more requests are sent."""

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace", start_new_session=True
        )
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._read_stderr, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the session, and wait until the remote program has cancelled what it had started."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
            self._child.wait(_GRACE)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()

    def ask(self, request: dict[str, Any], *, seconds: float = 0.0) -> dict[str, Any]:
        """Return the answer to a request whose work may take so many seconds; raises UndeterminedError if there is none."""
        if self._silent:
            raise UndeterminedError(self._silent)
        self._send(request)
        try:
            line = self._said.get(timeout=seconds + _ANSWER)
        except queue.Empty:
            # A late answer would be mistaken for the answer to the next request.
            self._silent = f"{self.node} did not respond within {seconds + _ANSWER:.0f} s"
            raise UndeterminedError(self._silent) from None
        if not line:
            raise UndeterminedError(f"{self.node} stopped responding: {self._why()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _send(self, what: Any) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(what) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise UndeterminedError(f"{self.node} accepts no requests: {self._why()}") from None

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith("{"):  # A login message is no answer.
                self._said.put(line)
        self._said.put("")

    def _read_stderr(self) -> None:
        assert self._child.stderr is not None
        self._complaints += filter(None, (line.strip() for line in self._child.stderr))

    def _why(self) -> str:
        """Return why the session ended: the last line of ssh or of the remote program."""
        try:
            self._child.wait(2)
        except subprocess.TimeoutExpired:
            return "no reason given"
        return self._complaints[-1] if self._complaints else f"ssh ended with status {self._child.returncode}"


SendRequest = Callable[..., dict[str, Any]]
"""`Submitter.ask`, or its replacement in a test."""


def split_by_role(submitter: SendRequest, controller: SendRequest, taints: Mapping[str, Sequence[str]]) -> SendRequest:
    """Combine two nodes: the states of nodes are read from a controller, everything else from the submitting node. `taints`: the plan's."""

    def ask(request: dict[str, Any], *, seconds: float = 0.0) -> dict[str, Any]:
        about = {"nodes", "settle_seconds", "completing_seconds"} & set(request)
        if not about:
            return submitter(request, seconds=seconds)
        states = controller({**{key: request[key] for key in about}, "taints": taints}, seconds=seconds)
        rest = {key: value for key, value in request.items() if key not in about}
        if states["error"] or not rest:
            return states
        return {**submitter(rest, seconds=seconds), "states": states["states"]}

    return ask
