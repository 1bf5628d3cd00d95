"""SIGTERM and SIGHUP to a command: it cleans up as at Ctrl-C, once, and a signal that it was started without stays ignored."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS

import rackwright

COMMAND = """
import asyncio, sys
from rackwright.cli.interruption import end_like_ctrl_c

def show(line):
    print(line, flush=True)

async def work():
    try:
        show("works")
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0.5)  # Time for a second signal.
        show("cleaned up")
        with open(sys.argv[1], "w") as file:
            file.write("cleaned up")

with end_like_ctrl_c():
    try:
        asyncio.run(work())
    except KeyboardInterrupt:
        sys.exit(3)
"""


@contextmanager
def command(tmp_path: Path, stdout: int = subprocess.PIPE, ignored: tuple[signal.Signals, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start the command in a session of its own, with signals ignored."""

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    environment = {**os.environ, "PYTHONPATH": str(Path(rackwright.__file__).parents[1])}
    script = [sys.executable, "-c", COMMAND, str(tmp_path / "done")]
    with subprocess.Popen(script, env=environment, stdout=stdout, text=True, start_new_session=True, preexec_fn=prepare) as child:
        try:
            if child.stdout is not None:
                assert child.stdout.readline() == "works\n"
            yield child
        finally:
            child.kill()


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGINT,),
        (signal.SIGTERM,),
        (signal.SIGHUP,),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGHUP, signal.SIGHUP),
        (signal.SIGHUP, signal.SIGTERM),
    ],
)
def test_command_cleans_up_once(tmp_path: Path, numbers: tuple[signal.Signals, ...]) -> None:
    with command(tmp_path) as child:
        for number in numbers:
            child.send_signal(number)
        said, _ = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, said) == (3, "cleaned up\n")


def test_background_command_of_script_ends_at_sigterm(tmp_path: Path) -> None:
    """Shells start it with SIGINT ignored."""
    with command(tmp_path, ignored=(signal.SIGINT,)) as child:
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGTERM)
        said, _ = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, said) == (3, "cleaned up\n")


def test_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    with command(tmp_path, ignored=(signal.SIGHUP,)) as child:
        child.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1)
        child.send_signal(signal.SIGTERM)
        said, _ = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, said) == (3, "cleaned up\n")


def test_command_cleans_up_without_its_terminal(tmp_path: Path) -> None:
    """What it prints then would fail with EIO."""
    window, terminal = pty.openpty()
    with command(tmp_path, stdout=terminal) as child:
        os.close(terminal)
        assert os.read(window, 100).split() == [b"works"]
        os.close(window)
        child.send_signal(signal.SIGHUP)
        assert child.wait(HANG_SECONDS) == 3
    assert (tmp_path / "done").read_text() == "cleaned up"
