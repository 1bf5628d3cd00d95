"""What modules import, found in seconds for a thousand of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

_FROM: Final = re.compile(r"\bfrom[ \t]+(\w+)[.\w \t]*(?:import\b|\\)")
_IMPORT: Final = re.compile(r"\bfrom[ \t]+[.\w]+[ \t]+import\b|\bimport\s+([^\n;#]+)")


def foreign_imports(file: Path, known: Collection[str]) -> set[str]:
    """Return the packages that a module imports, also inside functions, and that are not known; of relative imports none.

    Only a text that names another package after `from` or `import` is parsed, which takes a millisecond.
    """
    text = file.read_text(encoding="utf-8")
    return _imported(text) - set(known) if _mentioned(text) - set(known) else set()


def _mentioned(text: str) -> set[str]:
    """Return every word that may be an imported package, those of sentences included."""
    named = {part.strip() for match in _IMPORT.findall(text) for part in match.split(",")} - {""}
    return set(_FROM.findall(text)) | {found[0] for name in named if (found := re.match(r"\w+", name))}


def _imported(text: str) -> set[str]:
    nodes = list(_statements(ast.parse(text).body))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in plain | parts}


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements and those inside them. To visit the expressions, too, takes twice as long."""
    for statement in body:
        yield statement
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(statement, name, ()))
