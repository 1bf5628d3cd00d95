"""The command line stays thin: one short file per command, and use cases that print nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.rows import each_row

import rackwright
from rackwright.cli.commands import COMMANDS

PACKAGE = Path(rackwright.__file__).parent
MAX_LINES = 80
ON_NODES = {"operations/check_mode/remote_replay.py"}
"""Programs that run on nodes and answer on standard output."""
OPERATIONS = sorted(str(file.relative_to(PACKAGE)) for file in (PACKAGE / "operations").rglob("*.py"))


def long_files(folder: Path) -> list[str]:
    """Return the files of a folder that have more lines than a command needs for arguments, one call and output."""
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in sorted(folder.glob("*.py"))}
    return [f"{name}: {lines} lines (at most {MAX_LINES})" for name, lines in lengths.items() if lines > MAX_LINES]


def prints(source: str) -> Iterator[str]:
    """Yield each use of a terminal: a call of `print`, and an import of a library that formats or prompts."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"line {node.lineno}: print"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (f"line {node.lineno}: {name}" for name in names if name.split(".")[0] in {"click", "rich", "typer"})


def test_files_of_commands_are_short() -> None:
    assert long_files(PACKAGE / "cli") == []


@each_row("command", COMMANDS)
def test_each_command_has_file_of_its_name(command: str) -> None:
    assert COMMANDS[command][0].split(":")[0] == f"rackwright.cli.{command.replace('-', '_')}"


@each_row("file", OPERATIONS)
def test_operations_print_nothing(file: str) -> None:
    assert file in ON_NODES or list(prints((PACKAGE / file).read_text(encoding="utf-8"))) == []


def test_long_file_and_print_are_found(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("x = 1\n" * MAX_LINES)
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_LINES + 1))
    assert long_files(tmp_path) == ["long.py: 81 lines (at most 80)"]
    assert list(prints("import typer\nfrom rich.console import Console\nprint(1)\nimport json\n")) == [
        "line 1: typer",
        "line 2: rich.console",
        "line 3: print",
    ]
