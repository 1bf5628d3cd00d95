"""The engine at Ctrl-C of `rackwright up`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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
