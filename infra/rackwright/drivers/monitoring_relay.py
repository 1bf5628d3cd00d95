"""Requests to Prometheus and Alertmanager of a running stack: one ssh session, at whose other end a program asks the daemons.

The daemons demand a client certificate. It stays on the monitoring node, where root can read it: nothing of it reaches this machine.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shlex
import subprocess
import threading
import zlib
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self

from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.remote.command import python_command
from rackwright.time_limits import slowness

Daemon = Literal["prometheus", "alertmanager"]
_STARTING: Final = 30.0
"""Seconds until the program has started: connect time-outs of two hops (3 s each), and Python on a busy node. Longer on a slow machine."""
_ANSWER: Final = 150.0
"""Seconds for an answer: Prometheus ends a query after 120 s."""
_GRACE: Final = 3.0
"""Seconds for the program to end after its input has ended."""


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """An HTTP request for a daemon. Its path starts with a slash and holds the query."""

    daemon: Daemon
    path: str
    method: str = "GET"
    type: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True)
class RelayAnswer:
    """A daemon's answer."""

    status: int
    type: str
    body: bytes


class MonitoringRelay:
    """A session with the monitoring node; a context manager. `send` may be called from several threads."""

    def __init__(self, stack: str, node: str, ports: Mapping[str, int], *, sudo: bool) -> None:
        self.node, self._stack = node, stack
        self.lost = threading.Event()
        """Set when the session has ended."""
        program = python_command("monitoring_relay", {"host": node, "ports": dict(ports)})
        become = f"{shlex.join(['sudo', '-n'])} " if sudo else ""
        self._command = ["ssh", "-F", str(paths.ssh_config(stack)), node, f"{become}{program}"]
        self._numbers, self._lock = itertools.count(1), threading.Lock()
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self._ready = threading.Event()
        self._complaints: list[str] = []

    def __enter__(self) -> Self:
        """Raise UndeterminedError if the program does not start."""
        pipe = subprocess.PIPE
        # A session of its own: Ctrl-C in the terminal must not kill ssh before the requests have ended.
        self._child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        self._threads = [threading.Thread(target=task, daemon=True) for task in (self._listen, self._read_stderr)]
        for thread in self._threads:
            thread.start()
        limit = _STARTING * slowness()
        if not self._ready.wait(limit) or self.lost.is_set():
            why = self.why_lost() if self.lost.is_set() else f"no response within {limit:.0f} s"
            self.__exit__(None, None, None)
            hint = f"run `rackwright ssh {self._stack} {self.node}` to see whether the node responds"
            raise UndeterminedError(f"cannot ask its Prometheus: {why}", path=self.node, hint=hint)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the session; the program on the node ends with its input."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
            self._child.wait(_GRACE)
        except (OSError, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()
        for thread in self._threads:
            thread.join(_GRACE)

    def send(self, request: RelayRequest) -> RelayAnswer:
        """Return the daemon's answer. Raises UndeterminedError with the reason if there is none."""
        number, future = next(self._numbers), Future[dict[str, Any]]()
        self._pending[number] = future
        row = {"daemon": request.daemon, "method": request.method, "path": request.path, "type": request.type, "body": request.body}
        self._write({"id": number, **row})
        if self.lost.is_set():  # The answer to a request that was written after the end never comes.
            self._fail_pending()
        try:
            answer = future.result(_ANSWER)
        except FutureTimeoutError:
            answer = {"error": f"no answer within {_ANSWER:.0f} s"}
        finally:
            self._pending.pop(number, None)
        if "error" in answer:
            raise UndeterminedError(answer["error"], path=self.node)
        return RelayAnswer(answer["status"], answer["type"], zlib.decompress(base64.b64decode(answer["body"])))

    def why_lost(self) -> str:
        """Return why the session ended: the last line of ssh or of the program."""
        try:
            self._child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "no reason given"
        self._threads[1].join(_GRACE)
        return self._complaints[-1] if self._complaints else f"ssh ended with status {self._child.returncode}"

    def _write(self, row: Mapping[str, Any]) -> None:
        assert self._child.stdin is not None
        with self._lock:
            try:
                self._child.stdin.write(json.dumps(row) + "\n")
                self._child.stdin.flush()
            except (OSError, ValueError):  # ValueError: the session was closed meanwhile.
                self.lost.set()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if not line.startswith("{"):  # A login message is no answer.
                continue
            answer = json.loads(line)
            if answer.get("ready"):
                self._ready.set()
            elif (future := self._pending.get(answer.get("id", 0))) is not None:
                _settle(future, answer)
        self.lost.set()
        self._ready.set()
        self._fail_pending()

    def _fail_pending(self) -> None:
        for future in list(self._pending.values()):
            _settle(future, {"error": f"the tunnel is lost: {self.why_lost()}"})

    def _read_stderr(self) -> None:
        assert self._child.stderr is not None
        self._complaints += filter(None, (line.strip() for line in self._child.stderr))


def _settle(future: Future[dict[str, Any]], answer: dict[str, Any]) -> None:
    """Give a request its answer; the first one counts."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(answer)
