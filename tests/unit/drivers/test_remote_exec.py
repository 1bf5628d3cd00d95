"""A round of one program over all nodes: requests go by stdin, answers and reasons come back by node."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.drivers.process import CompletedProcess, ProcessTimeoutError

SECRET = "a-secret-that-ps-must-not-show"
ENDINGS = {
    "n0": CompletedProcess((), 0, '{"answers": []}\n', ""),
    "n1": CompletedProcess((), 1, "", "Traceback:\nValueError: no such module\n"),
    "n2": CompletedProcess((), 0, "Welcome", ""),
    "n3": CompletedProcess((), 255, "", ""),
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, tuple[list[str], bytes]]:
    """The command and the standard input of each node; n4 does not answer in time."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    found: dict[str, tuple[list[str], bytes]] = {}

    async def run(command: list[str], *, stdin: bytes, timeout: float) -> CompletedProcess:
        name = command[3]
        found[name] = (command, stdin)
        if name == "n4":
            raise ProcessTimeoutError(f"ssh timed out after {timeout:.0f} s")
        return ENDINGS[name]

    monkeypatch.setattr(ssh_connections, "run", run)
    return found


def test_answers_and_reasons_come_back_by_node(sent: dict[str, Any]) -> None:
    names = [*ENDINGS, "n4"]
    told, mute = asyncio.run(
        remote_exec.run_on_nodes(
            "lab", "module_replay", {name: {"secret": SECRET} for name in names}, dict.fromkeys(names, False), target="lab"
        )
    )
    assert told == {"n0": {"answers": []}}
    assert mute == {
        "n1": "ValueError: no such module",
        "n2": "answered what is no JSON: 'Welcome'",
        "n3": "python3 ended with 255",
        "n4": "the program did not end within 40 s",
    }


def test_request_is_in_stdin_and_not_in_the_command(sent: dict[str, Any]) -> None:
    asyncio.run(remote_exec.run_on_nodes("lab", "module_replay", {"n0": {"secret": SECRET}}, {"n0": True}, target="lab"))
    command, stdin = sent["n0"]
    assert stdin == b'{"secret": "%s"}\n' % SECRET.encode()
    assert SECRET not in " ".join(command)
    assert shlex.split(" ".join(command[4:]))[:5] == ["sudo", "-n", "python3", "-I", "-S"]
