"""A number of the package has a docstring with its unit, and with its source or the reason why it was chosen."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "infra/rackwright"


def is_number(node):
    """Return whether an expression is a number, or arithmetic of numbers."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_constant(statement):
    return isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None and is_number(statement.value)


def is_docstring(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


def undocumented(source):
    """Return the lines of module-level numbers without a docstring; numbers that follow one another may share one."""
    found, waiting = [], []
    for statement, following in pairwise([*ast.parse(source).body, ast.Pass()]):
        if not is_constant(statement):
            continue
        waiting.append(statement.lineno)
        if not is_constant(following):
            found += [] if is_docstring(following) else waiting
            waiting = []
    return found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("A = 3\n", [1]),
        ("A: Final = 60 * 2\nb = f()\n", [1]),
        ('A = 3\n"""Seconds."""\n', []),
        ('A = 1\nB = -2.5\n"""Smallest and largest."""\nC = 4\n', [4]),
        ('"""Module."""\nA = "x"\nB = True\nC = (1, 2)\n', []),
    ],
)
def test_the_reader_finds_undocumented_numbers(source, lines):
    assert undocumented(source) == lines


def test_every_number_of_the_package_is_documented():
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100, "the package was not found"
    found = {str(file.relative_to(PACKAGE)): undocumented(file.read_text(encoding="utf-8")) for file in files}
    assert {file: lines for file, lines in found.items() if lines} == {}
