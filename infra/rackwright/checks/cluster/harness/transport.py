"""Transport: one ssh connection to one node through testinfra's ssh backend, with a time limit and line-by-line output."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from testinfra.backend.base import CommandResult
from testinfra.backend.ssh import SshBackend

from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.remote.command import python_command
from rackwright.time_limits import MAX_SLOWNESS, slowness
from rackwright.unknown_reasons import MOST_ALIKE

ROUND_LIMIT: Final = 10.0
"""Time limit of the passive probes of one round, in seconds; longer if a probe has a longer limit. A node that does not respond is given up
after this one: with the connect time-out, a dead node is known within 15 s."""
_WORKERS: Final = 4
"""Number of commands that a node runs in parallel. One slow tool then does not delay the rest."""
_OVERHEAD: Final = 3.0
"""Seconds beyond the node's own limit before the connection is closed. The connect time-outs of two hops fit into it."""
_STEADY: Final = 4
"""Slowness up to which the limit for a node's first line is not scaled. This limit applies mostly to dead nodes."""
SHELL_STARTED: Final = "rackwright: shell started"
"""The line that a node's shell prints before it starts Python. A dead or suspended node prints nothing."""
_PYTHON_START: Final = 60.0
"""Seconds in which a node whose shell has started must start Python. Chosen: four times 13 s, which did not suffice for an emulated machine
that had a third of a processor."""
_LAST_WORDS: Final = 2.0
"""Seconds for an ssh client to print its error and exit after its output has ended."""
_MARGIN: Final = 1.0
"""Seconds by which the time of a command may fall short of its limit and still count as all of it: the first one starts late."""
_SLICE: Final = 0.25
"""Seconds between two checks of whether a command is still running."""
_running: set[subprocess.Popen[bytes]] = set()


class BoundedSsh(SshBackend):  # type: ignore[misc]
    """testinfra's ssh backend with a time limit. Without one, the ssh client of a paused node does not return."""

    def __init__(self, name: str, ssh_config: Path, *, become: bool = False, limit: float = 30.0) -> None:
        super().__init__(name, ssh_config=str(ssh_config), timeout=3 * local_slowness(), sudo=become)
        self.limit = limit
        self.node_slowness = 1
        """Highest factor that the node has reported for its time limits."""

    def run_local(self, command: str, *args: str) -> CommandResult:
        """Run ssh until it exits or for `limit` seconds. No shell is used, so that terminating the child terminates ssh."""
        line = self.quote(command, *args)
        child = subprocess.Popen(shlex.split(line), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _running.add(child)
        try:
            out, err = child.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            _abandon(child)
            return self.result(255, line.encode(), b"", f"no end after {self.limit:.0f} s".encode())
        finally:
            _running.discard(child)
        return self.result(child.returncode, line.encode(), out, err)

    @property
    def connected(self) -> bool:
        """Return whether a master connection is open, so that a round needs no handshake."""
        command = ["ssh", "-F", str(self.ssh_config), "-O", "check", self.hostname]
        try:
            return subprocess.run(command, capture_output=True, timeout=2, check=False, stdin=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def lines(
        self, command: str, began: Callable[[str], None] = lambda _: None, over: Callable[[], bool] = lambda: False
    ) -> tuple[list[tuple[float, str]], str]:
        """Return the lines of a command with their times of arrival, until the output ends or the limit is reached; and ssh's error.

        `began` is called with each line and may raise `limit`. `over` returns whether all remaining lines can be ignored.
        """
        template, arguments = self._build_ssh_command(self.get_command(command))
        argv = shlex.split(self.quote(" ".join(template), *arguments))
        with tempfile.TemporaryFile() as complaints:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, bufsize=0)
            _running.add(child)
            found, started = [], time.monotonic()
            for line in _until(child, lambda: started + (0.0 if over() else self.limit)):
                found.append((time.time(), line.decode(errors="replace")))
                began(found[-1][1])
            late = not over() and time.monotonic() >= started + self.limit
            if not late and not over():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=_LAST_WORDS)
            _abandon(child)
            _running.discard(child)
            complaints.seek(0)
            error = complaints.read().decode(errors="replace").strip()
        return found, f"no end after {self.limit:.0f} s" if late and not error else error


def _until(child: subprocess.Popen[bytes], deadline: Callable[[], float]) -> Iterator[bytes]:
    """Yield the lines of a child's output until its end or the deadline, which a line or another node's result may move."""
    assert child.stdout is not None
    rest = b""
    while (left := deadline() - time.monotonic()) > 0:
        if not select.select([child.stdout], [], [], min(left, _SLICE))[0]:
            continue
        if not (read := os.read(child.stdout.fileno(), 65536)):
            break
        *whole, rest = (rest + read).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _abandon(child: subprocess.Popen[bytes]) -> None:
    """Terminate a child without waiting for its pipes: its ssh master holds them, for half a minute if the node is paused."""
    child.kill()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    child.wait()


@dataclass(frozen=True)
class UnitWatch:
    """What is known of units during a round."""

    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Units of the node that each probe needs, by name of the probe."""
    record: Callable[[str, CommandOutput], None] = lambda name, answer: None
    """Called with each result as it arrives."""
    blocking_unit: Callable[[str], str] = lambda name: ""
    """Return the suspended unit that a probe waits for, with its node; empty where there is none."""


def ask_node(
    backend: BoundedSsh,
    questions: Sequence[tuple[str, str, float]],
    seconds: float,
    began: Callable[[str], None] = lambda line: None,
    known: UnitWatch | None = None,
) -> dict[str, CommandOutput]:
    """Send all commands in one round. Return a result for each; a command without output has the reason why there is none.

    `began` is called with each line. The limits apply to a node of usual speed. A node's first line reports the factor by which its own
    limits are longer. Until its shell has started, a node may be dead: that limit is not longer for long commands, and grows only on a very
    slow machine.
    """
    backend.limit = (min(seconds, ROUND_LIMIT) + _OVERHEAD) * max(1.0, local_slowness() / _STEADY)

    left = {name for name, _, _ in questions}
    known = known or UnitWatch()

    def on_line(line: str) -> None:
        if line == SHELL_STARTED:
            backend.limit = max(backend.limit, _PYTHON_START)
            return
        began(line)
        factor = _factor(line)
        backend.node_slowness = max(backend.node_slowness, factor)
        backend.limit = max(backend.limit, seconds * factor + _OVERHEAD * local_slowness())
        for name, answer in _read([(time.time(), line)], sent):
            left.discard(name)
            known.record(name, answer)

    def over() -> bool:
        return bool(left) and all(known.blocking_unit(name) for name in left)

    request = {
        "seconds": seconds,
        "workers": _WORKERS + sum(map(_is_long, questions)),
        "questions": list(questions),
        "needs": {name: known.needs[name] for name in left & set(known.needs)},
    }
    sent = time.time()
    command = f"echo '{SHELL_STARTED}'; exec {python_command('commands', request)}"
    lines, complaint = backend.lines(command, on_line, over)
    if [line for _, line in lines] == [SHELL_STARTED] and complaint.startswith("no end"):
        complaint += ": its shell started, Python did not"
    found = dict(_read(lines, sent))
    missing = [name for name, _, _ in questions if name not in found]
    held = {name: known.blocking_unit(name) if lines else "" for name in missing}
    return found | {name: _missing(name, backend.hostname, complaint, sent, held[name], bool(lines)) for name in missing}


def _missing(name: str, host: str, complaint: str, sent: float, held: str, began: bool) -> CommandOutput:
    """Return the output of a command without a result, with the reason why there is none."""
    why = f"{name}: not completed, because {held} is suspended" if held else _failure_reason(host, complaint, began)
    return CommandOutput(sent=sent, arrived=time.time(), error=why, waits_for=held)


def ask_node_in_rounds(
    backend: BoundedSsh,
    questions: Sequence[tuple[str, str, float]],
    seconds: float,
    began: Callable[[str], None] = lambda line: None,
    known: UnitWatch | None = None,
    *,
    rounds: int,
) -> dict[str, CommandOutput]:
    """Send commands again that lacked time, in at most `rounds` rounds; once, those that exceeded their own limit, unless it is long.

    Long commands have a worker each, so that they delay no other command. A node that does not respond gets one round.
    """
    left = [*questions[:1], *sorted(questions[1:], key=_is_long, reverse=True)]
    answers: dict[str, CommandOutput] = {}
    for number in range(rounds):
        answers |= ask_node(backend, left, seconds, began, known)
        left = [one for one in left if _is_repeated(answers[one[0]], first=number == 0 and not _is_long(one))]
        if not left:
            break
    return _joined_if_slow(answers, backend)


def _joined_if_slow(answers: Mapping[str, CommandOutput], backend: BoundedSsh) -> dict[str, CommandOutput]:
    """Give all commands that lacked time on a slow node one reason, so that the report has one finding and not one of each check.

    Commands that wait for a suspended unit keep theirs. A node that starts Python at the usual speed is not slow: there, the time was
    used by commands that hang, and each of them is a finding.
    """
    late = [name for name, answer in answers.items() if answer.starved_seconds is not None and answer.error and not answer.waits_for]
    if backend.node_slowness < _STEADY or len(late) <= MOST_ALIKE:
        return dict(answers)
    why = (
        f"{backend.hostname} is slow: it did not complete this and other commands in time, although their limits grew with its speed"
        " - check its load, for example with `uptime`"
    )
    return {name: replace(answer, error=why) if name in late else answer for name, answer in answers.items()}


def _is_long(question: tuple[str, str, float]) -> bool:
    """Return whether the limit of a command is longer than a round's."""
    return question[2] > ROUND_LIMIT


def _is_repeated(answer: CommandOutput, *, first: bool) -> bool:
    """Return whether to send a command again: while rounds are left if its time was cut short; once if it exceeded its own limit."""
    return answer.starved_seconds is not None and (first or answer.starved_seconds > _MARGIN)


def stop() -> None:
    """Terminate all running ssh clients."""
    for child in list(_running):
        with contextlib.suppress(ProcessLookupError):
            child.kill()


@cache
def local_slowness() -> int:
    """Return the slowness of this machine, the factor of its time limits. It is measured once."""
    return slowness()


def _factor(line: str) -> int:
    """Return the factor in the first line of a round, at most MAX_SLOWNESS; 1 for any other line."""
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        return min(max(int(json.loads(line).get("slowness", 1)), 1), MAX_SLOWNESS)
    return 1


def _read(lines: Sequence[tuple[float, str]], sent: float) -> list[tuple[str, CommandOutput]]:
    found = []
    for arrived, line in lines:
        with contextlib.suppress(ValueError):  # a login message is not a result
            answer: Any = json.loads(line)
            if isinstance(answer, dict) and "name" in answer:
                found.append((answer.pop("name"), CommandOutput(sent=sent, arrived=arrived, **answer)))
    return found


def _failure_reason(name: str, complaint: str, began: bool) -> str:
    """Return why a node did not respond: the decisive words of ssh's error."""
    if "HOST IDENTIFICATION HAS CHANGED" in complaint or "Host key verification failed" in complaint:
        return f"{name} presented a host key that is not the pinned one"
    last = complaint.splitlines()[-1] if complaint else "the connection ended"
    if "python3" in last and "not found" in last:
        return f"{name} has no python3 to run the probes"
    return f"{name} stopped responding: {last}" if began else f"{name} is unreachable: {last}"
