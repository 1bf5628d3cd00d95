"""A program is sent as words of a command: with its imported modules and its request, within the size of one argument."""

from __future__ import annotations

import doctest
import json
import os
import shlex
import subprocess
import sys
from typing import Any

import pytest

from rackwright.errors import RackwrightError
from rackwright.remote import command

PROGRAM = '''"""Run on the node."""
from __future__ import annotations

from rackwright.remote.programs import library
from rackwright.remote.programs.deeper import TEN


def main(request):
    """Return what the request and the libraries hold."""
    return {"request": request, "library": library.twice(TEN), "name": __name__}
'''
SOURCES = {
    "program": PROGRAM,
    "library": "from rackwright.remote.programs import deeper\n\n\ndef twice(number):\n    return number * 2 + deeper.TEN\n",
    "deeper": "TEN = 10\n",
    "chosen": "def main(request):\n    from rackwright.remote.programs import deeper\n    print(deeper.TEN)\n",
    "talks": "import sys\n\n\ndef main(request):\n    print(request, *sys.stdin)\n",
    "fails": '"""Two\nlines."""\n\n\ndef main(request):\n    # why\n    raise ValueError("no such file")\n',
}
ODD = {"text": 'it\'s "quoted" $HOME `date` \\ \n\u00e9\u4e16', "list": [1, None, True]}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the project's programs by those of SOURCES."""
    monkeypatch.setattr(command, "source", SOURCES.__getitem__)


def run(line: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in a shell whose `python3` is this interpreter."""
    shell = f'python3() {{ {shlex.quote(sys.executable)} "$@"; }}; {line}'
    return subprocess.run(["sh", "-c", shell], input=stdin, capture_output=True, check=False)


@pytest.mark.usefixtures("programs")
class TestCommand:
    def test_program_runs_with_its_imports_under_package_names(self) -> None:
        ended = run(command.python_command("program", ODD))
        assert json.loads(ended.stdout) == {"request": ODD, "library": 30, "name": "rackwright.remote.programs.program"}, ended.stderr

    def test_request_travels_by_stdin(self) -> None:
        line = command.python_command("program", None)
        assert json.loads(run(line, command.encode_request(ODD)).stdout)["request"] == ODD
        assert shlex.split(line)[-1] == "-"

    def test_conversation_follows_request_on_stdin(self) -> None:
        assert run(command.python_command("talks", None), b'{"a": 1}\nmore\n').stdout == b"{'a': 1} more\n\n"

    def test_program_that_returns_nothing_prints_its_own_lines(self) -> None:
        assert run(command.python_command("chosen", {}, libraries=["deeper"])).stdout == b"10\n"

    def test_unnamed_library_is_not_sent(self) -> None:
        ended = run(command.python_command("chosen", {}))
        assert ended.returncode and b"ImportError" in ended.stderr

    def test_exception_is_last_line_of_stderr(self) -> None:
        ended = run(command.python_command("fails", {}))
        assert (ended.returncode, ended.stdout) == (1, b"")
        assert ended.stderr.splitlines()[-1] == b"ValueError: no such file"
        assert b'File "rackwright.remote.programs.fails.py", line 7' in ended.stderr

    @pytest.mark.parametrize("compose", [command.python_command, command.python_arguments])
    def test_command_over_the_limit_names_its_program(self, compose: Any) -> None:
        with pytest.raises(
            RackwrightError, match=r"^program talks: its command is too long \(expected at most 131072 bytes, found 13\d{4}\)$"
        ):
            compose("talks", {"text": "x" * command.MAX_ARGUMENT})

    def test_kernel_accepts_command_at_limit(self) -> None:
        free = command.MAX_ARGUMENT - 1 - len(command.python_command("chosen", {"text": ""}, libraries=["deeper"]))
        line = command.python_command("chosen", {"text": "x" * free}, libraries=["deeper"])
        ended = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
        assert (len(line), ended.stdout) == (command.MAX_ARGUMENT - 1, b"10\n"), ended.stderr
        with pytest.raises(RackwrightError):
            command.python_command("chosen", {"text": "x" * (free + 1)}, libraries=["deeper"])
        if os.sysconf("SC_PAGE_SIZE") == 4096:
            with pytest.raises(OSError, match="Argument list too long"):
                subprocess.run(["sh", "-c", f"{line} "], check=False)


def test_unknown_program_raises() -> None:
    with pytest.raises(FileNotFoundError):
        command.python_command("no_such_program", {})


def test_docstring_examples_hold() -> None:
    assert not doctest.testmod(command).failed
