"""Wrapper of infiniband-diags: the adapter of each tool, and its wait for a free slot. The tool is a stand-in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS

FILE = Path(__file__).parents[2] / "roles" / "fabric" / "files" / "infiniband-diags"
TOOL = """#!/bin/sh
echo "$SIM_HOST at $IBSIM_SERVER_NAME:$IBSIM_SERVER_PORT says $*"
echo "CA 'ibsim0'"
pwd >> "$FOLDER/rooms"
"""
CROWDED = '[ -e "$FOLDER/tried" ] || { touch "$FOLDER/tried"; echo "ibpanic: sim_init: connect failed: Success" >&2; exit 255; }\n'


@pytest.fixture
def ask(tmp_path):
    """Run a tool; return exit status, lines of output and standard error."""
    conf, tools = tmp_path / "simulated-fabric.conf", tmp_path / "sbin"
    conf.write_text('node=worker0\nhcas="mlx5_0 mlx5_1"\nserver=192.0.2.1\nport=7070\n')
    script = FILE.read_text().replace("/etc/rackwright/simulated-fabric.conf", str(conf)).replace("/usr/sbin/", f"{tools}/")
    script = script.replace("export LD_PRELOAD=", "export PRELOADED=")
    assert "$((5 * slowness))" in script
    script = script.replace("$((5 * slowness))", "${LIMIT:-600}")
    tools.mkdir()

    def run(name, *words, tool=TOOL, **more):
        for path, text in ((tmp_path / name, script), (tools / name, tool)):
            path.write_text(text)
            path.chmod(0o755)
        environment = {**os.environ, "FOLDER": str(tmp_path), "TMPDIR": str(tmp_path), **more}
        ended = subprocess.run(
            [str(tmp_path / name), *words], env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )
        return ended.returncode, ended.stdout.splitlines(), ended.stderr

    return run


def test_ibstat_reports_all_adapters_by_name(ask):
    assert ask("ibstat") == (
        0,
        [
            "worker0/mlx5_0 at 192.0.2.1:7070 says ",
            "CA 'mlx5_0'",
            "worker0/mlx5_1 at 192.0.2.1:7070 says ",
            "CA 'mlx5_1'",
        ],
        "",
    )


def test_ibstat_reports_one_adapter_and_port(ask):
    assert ask("ibstat", "mlx5_1", "1")[1] == ["worker0/mlx5_1 at 192.0.2.1:7070 says mlx5_1 1", "CA 'mlx5_1'"]


def test_other_tools_use_first_adapter(ask):
    assert ask("perfquery", "-x", "15", "1")[1][0] == "worker0/mlx5_0 at 192.0.2.1:7070 says -x 15 1"


@pytest.mark.parametrize("words", [("-C", "mlx5_1"), ("-Cmlx5_1",), ("--Ca", "mlx5_1"), ("--Ca=mlx5_1",)])
def test_adapter_option_selects_adapter(ask, words):
    status, lines, _ = ask("iblinkinfo", *words, "-l")
    assert (status, lines[0]) == (0, f"worker0/mlx5_1 at 192.0.2.1:7070 says {' '.join(words)} -l")


def test_missing_adapter_is_reported(ask):
    assert ask("ibstat", "mlx5_9") == (255, [], "ibstat: 'mlx5_9' is no adapter of worker0; it has mlx5_0 mlx5_1\n")


def test_tool_retries_without_free_slot(ask):
    assert ask("sminfo", tool=TOOL.replace("\n", "\n" + CROWDED, 1)) == (0, ["worker0/mlx5_0 at 192.0.2.1:7070 says ", "CA 'mlx5_0'"], "")


def test_other_failure_is_passed_through(ask):
    assert ask("sminfo", tool="#!/bin/sh\necho 'connect failed: Connection refused (ibsim0)' >&2\nexit 255\n") == (
        255,
        [],
        "connect failed: Connection refused (mlx5_0)\n",
    )


def test_missing_server_is_awaited_once(ask):
    status, _, said = ask("ibstat", tool=TOOL + f"exec sleep {ENDLESS_SECONDS}\n", LIMIT="0.3")
    assert (status, said) == (124, "ibstat: the simulated fabric at 192.0.2.1 gives no answer\n")


def test_tool_runs_in_temporary_folder(ask, tmp_path):
    ask("ibstat")
    rooms = (tmp_path / "rooms").read_text().split()
    assert rooms and not any(Path(room).exists() for room in rooms)
