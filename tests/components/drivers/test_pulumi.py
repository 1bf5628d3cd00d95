"""The engine at Ctrl-C of `rackwright up`, and when its output has no reader any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS

import rackwright

_CALL = """
import sys
from pathlib import Path
from rackwright.drivers import pulumi
pulumi.executable = lambda: Path(sys.argv[1])
sys.exit(pulumi.run("up", "lab"))
"""
_ENGINE = "#!/bin/sh\ntrap 'sleep 0.3; echo cleaned up; exit 130' INT\necho runs\nwhile :; do sleep 0.05; done\n"


def test_ctrl_c_lets_engine_clean_up(tmp_path: Path) -> None:
    engine = tmp_path / "pulumi"
    engine.write_text(_ENGINE)
    engine.chmod(0o755)
    child = subprocess.Popen(
        [sys.executable, "-c", _CALL, str(engine)],
        env={**os.environ, "PYTHONPATH": str(Path(rackwright.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdout is not None and child.stdout.readline() == "runs\n"
    os.killpg(child.pid, signal.SIGINT)
    said, complaint = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, said, complaint) == (130, "cleaned up\n", "")


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
