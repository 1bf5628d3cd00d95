"""Progress of the bootstrap: the current stage and its duration."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from bootstrap.failure import Failure

_KEPT = 40
"""Number of lines of a failed command's output to show."""

_SIGN_OF_LIFE = 5.0
"""Seconds between two lines of a stage without a terminal."""


class Stages:
    """The stages of one bootstrap; prints nothing if there is nothing to do."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._count = 0

    def stage(self, title: str) -> Stage:
        """Return a stage as a context manager."""
        self._count += 1
        return Stage(title)

    def end(self) -> None:
        """Print a closing line if there was a stage."""
        if self._count:
            print(f"ready in {elapsed(self._begun)}", flush=True)


class Stage:
    """One stage: a line with its title and its duration."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._note = ""
        self._outcome = "done in"
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._terminal = sys.stdout.isatty()
        self._pauses = False
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Stage:
        self._line(end="" if self._terminal else "\n")
        self._clock.start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        self._over.set()
        self._clock.join()
        self._line(word="stopped after" if kind else self._outcome, end="\n")

    def note(self, text: str) -> None:
        """Set the current step, shown with the duration."""
        self._note = text

    def give_up(self, reason: str) -> None:
        """Mark the stage as ended without a result, which is no failure because of a fallback."""
        self._outcome = f"not possible: {reason};"

    def _tick(self) -> None:
        while not self._over.wait(1.0 if self._terminal else _SIGN_OF_LIFE):
            if not self._pauses:
                self._line(end="" if self._terminal else "\n")

    def _line(self, word: str = "", end: str = "\n") -> None:
        note = f" ({self._note})" if self._note and not word else ""
        head, tail = f"==> {self._title}{note}", f" {word + ' ' if word else ''}{elapsed(self._begun)}"
        if self._terminal and not word:  # a wrapped line cannot be redrawn
            head = head[: max(0, shutil.get_terminal_size().columns - len(tail) - 1)]
        print(("\r\x1b[K" if self._terminal else "") + head + tail, end=end, flush=True)

    def run(
        self,
        command: list[str],
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        on_terminal: bool = False,
    ) -> None:
        """Run a command; raise Failure with its last lines if it fails. `on_terminal`: the command may prompt the user."""
        if on_terminal and self._terminal:
            self._pauses = True
            print(flush=True)
            code, lines = subprocess.run(command, cwd=cwd, env=env, check=False).returncode, deque([""])
            self._pauses = False
        else:
            code, lines = _watched(command, cwd, env, on_line)
        if code:
            shown = "\n".join("  " + line for line in lines)
            raise Failure(f"{self._title}: `{' '.join(command[:6])} …` failed with exit code {code}\n{shown}")


def _watched(
    command: list[str], cwd: Path | None, env: Mapping[str, str] | None, on_line: Callable[[str], None] | None
) -> tuple[int, deque[str]]:
    lines: deque[str] = deque(maxlen=_KEPT)
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise Failure(f"{command[0]} cannot be started: {error.strerror}") from None
    with process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if on_line:
                    on_line(line.rstrip())
        except BaseException:
            # An abandoned build must not continue. A process that sudo started cannot be ended from here; the terminal ends it.
            with contextlib.suppress(PermissionError):
                process.terminate()
                process.wait()
            raise
    return process.returncode, lines


def elapsed(begun: float) -> str:
    """Return the time since a reading of the monotonic clock, as text."""
    seconds = time.monotonic() - begun
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
