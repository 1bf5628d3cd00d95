"""The definitions of a package and what the names of its modules refer to, from the text of the files. No module is imported."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Definition:
    """A function, method or class of the package."""

    module: str
    name: str
    """`function`, `Class` or `Class.method`."""
    node: Function | ast.ClassDef

    @cached_property
    def is_accessor(self) -> bool:
        """Return whether the function is one `return` statement, after its docstring."""
        body = [line for line in self.node.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
        return not isinstance(self.node, ast.ClassDef) and len(body) == 1 and isinstance(body[0], ast.Return)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the positional parameters, without `self` or `cls` of a method."""
        if isinstance(self.node, ast.ClassDef):
            return tuple(line.target.id for line in self.node.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name))
        names = tuple(one.arg for one in (*self.node.args.posonlyargs, *self.node.args.args))
        return names[1:] if "." in self.name and not _is_static(self.node) else names

    @property
    def rest(self) -> str:
        """Return the name of the parameter for further positional arguments, or an empty text."""
        return "" if isinstance(self.node, ast.ClassDef) or self.node.args.vararg is None else self.node.args.vararg.arg


class Package:
    """All modules of a package below a folder. A module is parsed when it is needed."""

    def __init__(self, root: Path, name: str) -> None:
        self._name = name
        self._files = {_module(root, file): file for file in sorted((root / name).rglob("*.py"))}
        self._parsed: dict[str, tuple[ast.Module, dict[str, str]]] = {}

    def find(self, module: str, dotted: str) -> Definition | None:
        """Return what a dotted name refers to in a module, through imports; None outside the package."""
        first, _, rest = dotted.partition(".")
        if (definition := self._defined(module, dotted)) is not None:
            return definition
        target = self._read(module)[1].get(first)
        if target is None:
            return None
        where = f"{target}.{rest}".strip(".")
        owner = max((known for known in self._files if where.startswith(f"{known}.")), key=len, default=None)
        if owner is None or owner == module:
            return None
        return self.find(owner, where.removeprefix(f"{owner}."))

    def _defined(self, module: str, dotted: str) -> Definition | None:
        first, _, member = dotted.partition(".")
        for line in self._read(module)[0].body:
            if isinstance(line, Function | ast.ClassDef) and line.name == first:
                if not member:
                    return Definition(module, first, line)
                methods = [one for one in line.body if isinstance(one, Function) and one.name == member]
                return Definition(module, dotted, methods[0]) if methods else None
        return None

    def _read(self, module: str) -> tuple[ast.Module, dict[str, str]]:
        """Return the tree of a module, and its imports from the package."""
        if module not in self._parsed:
            text = self._files[module].read_text(encoding="utf-8") if module in self._files else ""
            tree = ast.parse(text)
            self._parsed[module] = (tree, dict(_imports(tree, self._name)))
        return self._parsed[module]


class Layers:
    """The layers of the package, from the first contract of import-linter."""

    def __init__(self, pyproject: Path) -> None:
        contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
        rows = next(one["layers"] for one in contracts if one["type"] == "layers")
        self._level = {part.strip(" ()"): -index for index, row in enumerate(rows) for part in row.split("|")}

    def level(self, module: str) -> int:
        """Return the level of a module's layer: 0 is the highest, lower ones are negative."""
        known = [name for name in self._level if module == name or module.startswith(f"{name}.")]
        return self._level[max(known, key=len)] if known else min(self._level.values()) - 1


def _module(root: Path, file: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imports(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    """Yield local name -> full name for every import from the package, inside functions as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)


def _is_static(node: Function) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list)
