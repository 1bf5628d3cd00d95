"""Each program fulfils the contract of rackwright.remote: its imports, its docstring, and loading by a bare Python."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.programs import edit_program

from rackwright.remote import command, programs

NAMES = sorted(path.stem for path in Path(programs.__file__).parent.glob("*.py") if path.stem != "__init__")
LOADED = """


def main(request):
    import sys
    return sorted(name for name in sys.modules if name.startswith("rackwright.remote.programs."))
"""
SENT_WITH = {"job_submission": ("slurm_jobs", "kubernetes_jobs", "kubernetes_nodes")}
"""Libraries by program: each is sent with a command of its own."""
LATER_THAN_3_9 = {"tomllib"}
SENT = {"module_replay": {"ansible"}}
"""Packages that a program finds in its request."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of a text, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level and node.module, "a relative import: its module has no file on the node"
            yield node.module


@pytest.mark.parametrize("name", NAMES)
class TestProgram:
    def test_program_imports_programs_and_standard_library(self, name: str) -> None:
        tree = ast.parse(command.source(name), feature_version=(3, 9))
        others = {module for module in imported(tree) if not f"{module}.".startswith(f"{command.PACKAGE}.")}
        standard = sys.stdlib_module_names - LATER_THAN_3_9
        assert {module.partition(".")[0] for module in others} <= standard | SENT.get(name, set())

    def test_docstring_states_location_and_exchange(self, name: str) -> None:
        tree = ast.parse(command.source(name))
        text = ast.get_docstring(tree) or ""
        assert text.startswith(("Run on the node", "Run in a container"))
        assert text.endswith("Python 3.9, standard library only.")
        starts = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        assert starts == ("Input" in text and "Output: " in text) == ("imported by" not in text.splitlines()[0])

    def test_bare_python_loads_program_and_imports(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        edit_program(monkeypatch, name, lambda text: text + LOADED)
        for libraries in [(one,) for one in SENT_WITH.get(name, ())] or [()]:
            words = command.python_arguments(name, {}, libraries=libraries)
            ended = subprocess.run([sys.executable, *words[1:]], capture_output=True, check=False)
            assert f"{command.PACKAGE}.{name}" in json.loads(ended.stdout), ended.stderr

    def test_stripping_keeps_statements_and_line_numbers(self, name: str) -> None:
        text, stripped = command.source(name), command._strip(command.source(name))
        assert statements(stripped) == statements(text)


def statements(text: str) -> list[tuple[int, str]]:
    """Return the statements of a text without bare constants, each with its line."""
    return [
        (node.lineno, ast.dump(node) if not hasattr(node, "body") else type(node).__name__)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
