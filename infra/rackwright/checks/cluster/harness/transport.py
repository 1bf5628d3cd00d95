"""One ssh round to one node through testinfra's ssh backend, bounded in time and read line by line."""

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
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from testinfra.backend.base import CommandResult
from testinfra.backend.ssh import SshBackend

from rackwright.checks.cluster.harness.probe import Raw
from rackwright.inventory.time_limits import SLOWEST, slowness
from rackwright.remote.command import python_command

_HANDS: Final = 4
"""Questions a node works on at a time: enough that one slow tool does not hold up the rest."""
_OVERHEAD: Final = 3.0
"""Seconds beyond the node's own limit before the connection is given up: two hops' connect time-outs run inside it."""
_STEADY: Final = 4
"""The factor up to which the limit for a node's first line stays as it is: its seconds are mostly for a node that is dead."""
_LAST_WORDS: Final = 2.0
"""Seconds a client whose output has ended may take to say why and to end."""
_MARGIN: Final = 1.0
"""Seconds that a question may lack of its own time and still count as having had it: the first of a round starts a moment late."""
_SLICE: Final = 0.25
"""Seconds between two looks at whether there is still something to wait for."""
_running: set[subprocess.Popen[bytes]] = set()


class BoundedSsh(SshBackend):  # type: ignore[misc]
    """testinfra's ssh backend with an end: a paused node keeps an ssh client waiting for ever."""

    def __init__(self, name: str, ssh_config: Path, *, become: bool = False, limit: float = 30.0) -> None:
        super().__init__(name, ssh_config=str(ssh_config), timeout=3 * local_slowness(), sudo=become)
        self.limit = limit

    def run_local(self, command: str, *args: str) -> CommandResult:
        """Run ssh to its end or for `limit` seconds; without a shell between, so that ending it ends it."""
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
        """Whether a master connection stands, so that a round costs no handshake."""
        command = ["ssh", "-F", str(self.ssh_config), "-O", "check", self.hostname]
        try:
            return subprocess.run(command, capture_output=True, timeout=2, check=False, stdin=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def lines(
        self, command: str, began: Callable[[str], None] = lambda _: None, over: Callable[[], bool] = lambda: False
    ) -> tuple[list[tuple[float, str]], str]:
        """Each line of a command's output with the time it came, up to its last or to the limit; and what ssh complained about.

        `began` is called with each line and may raise `limit`. `over` says that no line is worth waiting for.
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
            said = complaints.read().decode(errors="replace").strip()
        return found, f"no end after {self.limit:.0f} s" if late and not said else said


def _until(child: subprocess.Popen[bytes], deadline: Callable[[], float]) -> Iterator[bytes]:
    """Lines of a child's output up to its end or the deadline, which a line or another node's answer may move."""
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
    """End a child without waiting for its pipes: ssh hands them to its master, and that of a paused node holds them for half a minute."""
    child.kill()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    child.wait()


@dataclass(frozen=True)
class Known:
    """What is known of units while a node answers."""

    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Units of the node itself, by question."""
    told: Callable[[str, Raw], None] = lambda name, answer: None
    """Called with each answer as it comes."""
    holds: Callable[[str], str] = lambda name: ""
    """The suspended unit that keeps a question from being answered, with its node; empty where there is none."""


def ask_node(
    backend: BoundedSsh,
    questions: Sequence[tuple[str, str, float]],
    seconds: float,
    began: Callable[[], None] = lambda: None,
    known: Known | None = None,
) -> dict[str, Raw]:
    """All questions in one round; every one has an answer in what comes back, if only the reason why there is none.

    The limits hold for a node of usual speed. A node's first line tells by which factor its own are longer. Until then a node may be dead:
    that limit grows only on a very slow machine.
    """
    backend.limit = (seconds + _OVERHEAD) * max(1.0, local_slowness() / _STEADY)

    left = {name for name, _, _ in questions}
    known = known or Known()

    def heard(line: str) -> None:
        began()
        backend.limit = max(backend.limit, seconds * _factor(line) + _OVERHEAD * local_slowness())
        for name, answer in _read([(time.time(), line)], sent):
            left.discard(name)
            known.told(name, answer)

    def over() -> bool:
        return bool(left) and all(known.holds(name) for name in left)

    request = {
        "seconds": seconds,
        "hands": _HANDS,
        "questions": list(questions),
        "needs": {name: known.needs[name] for name in left & set(known.needs)},
    }
    sent = time.time()
    command = f"exec {python_command('commands', request)}"
    lines, complaint = backend.lines(command, heard, over)
    answers = dict(_read(lines, sent))
    for name, _, _ in questions:
        held = known.holds(name) if lines else ""
        why = f"{name}: not waited for, because {held} is suspended" if held else _why(backend.hostname, complaint, bool(lines))
        answers.setdefault(name, Raw(sent=sent, arrived=time.time(), trouble=why, held=held))
    return answers


def ask_node_in_rounds(
    backend: BoundedSsh,
    questions: Sequence[tuple[str, str, float]],
    seconds: float,
    began: Callable[[], None] = lambda: None,
    known: Known | None = None,
    *,
    rounds: int,
) -> dict[str, Raw]:
    """Ask again what a slow node had no time for, in at most so many rounds; once more, what had its own and did not answer in it.

    A node that does not answer at all is asked once.
    """
    left = list(questions)
    answers: dict[str, Raw] = {}
    for number in range(rounds):
        answers |= ask_node(backend, left, seconds, began, known)
        left = [one for one in left if _deserves_another(answers[one[0]], first=number == 0)]
        if not left:
            break
    return answers


def _deserves_another(answer: Raw, *, first: bool) -> bool:
    """Whether a question is to be asked again: what was given too little time, as long as there are rounds; what had all its own, once."""
    return answer.lacked is not None and (first or answer.lacked > _MARGIN)


def stop() -> None:
    """End every ssh client that still runs."""
    for child in list(_running):
        with contextlib.suppress(ProcessLookupError):
            child.kill()


@cache
def local_slowness() -> int:
    """Return the factor by which limits grow that depend on this machine; measured once."""
    return slowness()


def _factor(line: str) -> int:
    """Return the factor that a round's first line tells, at most SLOWEST; 1 for any other line."""
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        return min(max(int(json.loads(line).get("slowness", 1)), 1), SLOWEST)
    return 1


def _read(lines: Sequence[tuple[float, str]], sent: float) -> list[tuple[str, Raw]]:
    found = []
    for arrived, line in lines:
        with contextlib.suppress(ValueError):  # a login message is no answer
            answer: Any = json.loads(line)
            if isinstance(answer, dict) and "name" in answer:
                found.append((answer.pop("name"), Raw(sent=sent, arrived=arrived, **answer)))
    return found


def _why(name: str, complaint: str, began: bool) -> str:
    """Why a node gave no answer, in ssh's own decisive words."""
    if "HOST IDENTIFICATION HAS CHANGED" in complaint or "Host key verification failed" in complaint:
        return f"{name} showed a host key that is not the pinned one"
    last = complaint.splitlines()[-1] if complaint else "the connection ended"
    if "python3" in last and "not found" in last:
        return f"{name} has no python3 to run the questions"
    return f"{name} stopped answering: {last}" if began else f"{name} is unreachable: {last}"
