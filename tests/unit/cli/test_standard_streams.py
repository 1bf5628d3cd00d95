"""Commands whose reader closes standard output or standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS
from support.rows import each_row

from rackwright.inventory import paths

PIPE_CLOSED = 141
"""128 + SIGPIPE (signal(7)): exit code of a command whose standard output was closed too early."""
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in {"RACKWRIGHT_TRACEBACK", "PYTHONUNBUFFERED"}},
    "PYTHONPATH": str(paths.project_root() / "infra"),
}
RACKWRIGHT = "import sys; from rackwright.cli.main import app; sys.argv[0] = 'rackwright'; app()"
COMMAND = """
import subprocess, sys, typer
from rackwright.cli import main
from rackwright.cli.standard_streams import end_if_unread

def command():
    for step in ("drain", "apply", "resume"):
        {code}
        with open({record!r}, "a") as record:
            print(step, file=record)

def program():
    single = typer.Typer(add_completion=False)
    single.command()(command)
    return typer.main.get_command(single)

main._program = program
main.app()
"""


def run_unread(program: str, *arguments: str, unread: tuple[str, ...] = ("stdout",)) -> tuple[int, str, str]:
    """Run a Python program of whose output these streams have no reader. Return exit code, standard output and standard error."""
    reader, writer = os.pipe()
    os.close(reader)
    ends = {stream: writer if stream in unread else subprocess.PIPE for stream in ("stdout", "stderr")}
    command = [sys.executable, "-c", program, *arguments]
    try:
        ended = subprocess.run(
            command, stdout=ends["stdout"], stderr=ends["stderr"], text=True, env=ENVIRONMENT, check=False, timeout=HANG_SECONDS
        )
    finally:
        os.close(writer)
    return ended.returncode, ended.stdout or "", ended.stderr or ""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """File in which a command records the steps that it has done."""
    return tmp_path / "steps"


@each_row("unbuffered", ["", "-u"])
def test_reader_of_one_line_is_no_error(unbuffered: str) -> None:
    """The schema has 180 kB and a pipe holds 64 kB (pipe(7)): the command still writes when `head` has ended."""
    pipeline = f"'{sys.executable}' {unbuffered} -m rackwright.cli.main schema | head -1; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (PIPE_CLOSED, "{\n", "")


@each_row("command", [("validate", "lab"), ("plan", "lab"), ("plan", "lab", "--json"), ("schema",), ("--version",), ("--help",)])
def test_output_without_reader_ends_with_141(command: tuple[str, ...]) -> None:
    assert run_unread(RACKWRIGHT, *command) == (PIPE_CLOSED, "", "")


def test_findings_without_reader_are_no_success(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text("config:\n  rackwright:cluster: {target: {kind: lab}}\n")
    assert run_unread(RACKWRIGHT, "validate", str(file)) == (PIPE_CLOSED, "", "")


def test_output_that_is_read_keeps_the_exit_code() -> None:
    assert run_unread(RACKWRIGHT, "validate", "lab", unread=()) == (0, "stack lab: valid, 4 nodes\n", "")


def test_error_without_reader_keeps_its_exit_code() -> None:
    assert run_unread(RACKWRIGHT, "plan", "labb", unread=("stderr",)) == (2, "", "")


@pytest.mark.parametrize(
    ("code", "unread", "expected"),
    [
        ("print(step, flush=True)", ("stdout",), PIPE_CLOSED),
        ("typer.echo(step)", ("stdout", "stderr"), PIPE_CLOSED),
        ("typer.echo(step, err=True)", ("stderr",), 0),
        ("typer.echo(step); subprocess.run(['sh', '-c', 'echo 1; echo 2'], check=True)", ("stdout",), PIPE_CLOSED),
    ],
)
def test_command_that_changes_something_completes(record: Path, code: str, unread: tuple[str, ...], expected: int) -> None:
    found = run_unread(COMMAND.format(code=code, record=str(record)), unread=unread)
    assert (found, record.read_text()) == ((expected, "", ""), "drain\napply\nresume\n")


def test_command_that_only_shows_ends_at_once(record: Path) -> None:
    code = "print(step) if step == 'apply' else None; end_if_unread()"
    found = run_unread(COMMAND.format(code=code, record=str(record)))
    assert (found, record.read_text()) == ((PIPE_CLOSED, "", ""), "drain\n")


@each_row("unread", [("stdout",), ()])
def test_broken_pipe_to_a_child_is_reported(record: Path, unread: tuple[str, ...]) -> None:
    code, out, err = run_unread(COMMAND.format(code="raise BrokenPipeError(32, 'Broken pipe')", record=str(record)), unread=unread)
    assert (code, out) == (3, "")
    assert err.startswith("BrokenPipeError: [Errno 32] Broken pipe\n  this is a bug in rackwright")
