"""The engine at Ctrl-C and other signals to the command that started it, and when its output has no reader any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS

import rackwright

ROOT = Path(__file__).resolve().parents[3]

_CALL = """
import sys
from pathlib import Path
from rackwright.drivers import pulumi
pulumi.executable = lambda: Path(sys.argv[1])
sys.exit(pulumi.run("up", "lab"))
"""
_RECONCILE = """
import sys
from pathlib import Path
from rackwright.drivers import pulumi
from rackwright.errors import UndeterminedError
from rackwright.operations.drift import reconcile
pulumi.executable = lambda: Path(sys.argv[1])
try:
    reconcile.run("lab", reconcile.PulumiRun(""))
except UndeterminedError as error:
    print(error)
    sys.exit(error.exit_code)
"""
_EXPIRED = """
import sys
from pathlib import Path
from rackwright.drivers import pulumi
from rackwright.operations import expired_stacks
pulumi.executable = lambda: Path(sys.argv[1])
ended = expired_stacks.run_pulumi("destroy", shown=True)
sys.exit(5 if ended.was_interrupted else 6)
"""
_ENGINE = (
    "#!/bin/sh\ntrap 'trap \"\" INT TERM HUP; sleep 0.5; echo cleaned up; exit 130' INT TERM\n"
    "trap : HUP\necho runs\nwhile :; do sleep 0.05; done\n"
)
"""An engine that takes signals in succession for one, and a hangup for none, as `pulumi` of this environment does."""


@contextmanager
def _engine(tmp_path: Path, call: str) -> Iterator[subprocess.Popen[str]]:
    engine = tmp_path / "pulumi"
    engine.write_text(_ENGINE)
    engine.chmod(0o755)
    child = subprocess.Popen(
        [sys.executable, "-c", call, str(engine)],
        env={**os.environ, "PYTHONPATH": str(Path(rackwright.__file__).parents[1]), "RACKWRIGHT_PROJECT": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "runs\n"
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


SIGNALS = [(kill, number) for kill in (os.killpg, os.kill) for number in (signal.SIGINT, signal.SIGTERM)]
CALLS = [(_CALL, 130, SIGNALS), (_RECONCILE, 3, SIGNALS[::3]), (_EXPIRED, 5, SIGNALS[::3])]
ROWS = [(call, status, *how) for call, status, signals in CALLS for how in [*signals, (os.kill, signal.SIGHUP)]]


@pytest.mark.parametrize(("call", "status", "kill", "number"), ROWS)
def test_interrupted_engine_cleans_up(
    tmp_path: Path, call: str, status: int, kill: Callable[[int, int], None], number: signal.Signals
) -> None:
    with _engine(tmp_path, call) as child:
        kill(child.pid, number)
        said, _ = child.communicate(timeout=HANG_SECONDS)
    assert "cleaned up\n" in said, said
    assert child.returncode == status
    if call == _RECONCILE:
        assert "reconciliation was interrupted" in said and "run the same command again" in said


_WORK = (
    "#!/bin/sh\necho plan\necho warning >&2\nread -r _\nfor step in 1 2 3; do echo $step; echo $step >&2; done\n: > {done}\nexit {status}\n"
)
"""An engine that SIGPIPE ends when its reader has closed, as it ends Pulumi: Python starts `sh` with the default action."""


def _start(tmp_path: Path, status: int, stderr: int) -> subprocess.Popen[str]:
    engine = tmp_path / "pulumi"
    engine.write_text(_WORK.format(done=tmp_path / "done", status=status))
    engine.chmod(0o755)
    return subprocess.Popen(
        [sys.executable, "-c", _CALL, str(engine)],
        env={**os.environ, "PYTHONPATH": str(Path(rackwright.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        bufsize=1,
    )


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT])
@pytest.mark.parametrize("status", [0, 7])
def test_engine_completes_after_reader_has_closed(tmp_path: Path, stderr: int, status: int) -> None:
    with _start(tmp_path, status, stderr) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "plan\n"
        child.stdout.close()
        if child.stderr is not None:
            child.stderr.close()
        child.stdin.write("go on\n")
        assert child.wait(HANG_SECONDS) == 141
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize(
    ("stderr", "out", "err"),
    [
        (subprocess.PIPE, "plan\n1\n2\n3\n", "warning\n1\n2\n3\n"),
        (subprocess.STDOUT, "plan\nwarning\n1\n1\n2\n2\n3\n3\n", None),
    ],
)
def test_output_that_is_read_is_complete_and_in_order(tmp_path: Path, stderr: int, out: str, err: str | None) -> None:
    with _start(tmp_path, 7, stderr) as child:
        assert child.communicate("go on\n", timeout=HANG_SECONDS) == (out, err)
    assert child.returncode == 7
