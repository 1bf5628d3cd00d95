"""Creation of a user's project folder: stack file, Pulumi project, tests, workflows and README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import time
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from rackwright import layout
from rackwright.drift import schedule
from rackwright.errors import InputError
from rackwright.files import write_atomic
from rackwright.stackfile.schema import text as schema_text

STACK: Final = "lab"
"""The stack of a new project."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SCHEMA: Final = "stack.schema.json"
_SCHEMA_OF_CHECKOUT: Final = "../infra/rackwright/stackfile/stack.schema.json"


class _File(NamedTuple):
    path: str
    text: str
    mode: int | None = None


def create(parent: Path, name: str) -> list[str]:
    """Create the project folder `name` in `parent` and return the paths of its files, relative to it.

    Raises InputError for a name that is no folder name, and for a folder that is not empty.
    """
    if not _NAME.fullmatch(name):
        hint = "start with a letter or a digit; use letters, digits, `.`, `_` and `-`, at most 63 characters"
        raise InputError(f"`{name}` is not a name for a project folder", path="NAME", hint=hint)
    folder = parent / name
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError("exists and is not a folder", path=str(folder), hint="choose another name")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError("exists and is not empty", path=str(folder), hint="choose another name, or an empty folder")
    made = list(_files(name))
    for file in made:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / file.path, file.text, file.mode)
    return [file.path for file in made]


def _files(name: str) -> Iterator[_File]:
    yield _File("Pulumi.yaml", _template("Pulumi.yaml"))
    yield _File(f"{layout.STACKS}/Pulumi.{STACK}.yaml", _stack_file())
    yield _File(f"{layout.STACKS}/{_SCHEMA}", schema_text())
    yield _File("program/__main__.py", _template("program.py"))
    yield _File("plugin/pulumi-resource-rackwright", _template("plugin.sh"), 0o755)
    yield _File("Makefile", _template("Makefile"))
    yield _File("tests/test_stacks.py", _template("stack_tests.py"))
    yield _File(".github/workflows/validate.yml", _template("validate.yml"))
    yield _File(f".github/workflows/drift-{STACK}.yml", _workflow())
    yield _File(".gitignore", _template("gitignore"))
    yield _File("README.md", _template("README.md").replace("@NAME@", name))


def _template(name: str) -> str:
    return files("rackwright.operations").joinpath("project_template", name).read_text(encoding="utf-8")


def _stack_file() -> str:
    """Return the stack file of the product's own lab, with a reference to the schema next to it."""
    text = (layout.product_root() / layout.STACKS / f"Pulumi.{STACK}.yaml").read_text(encoding="utf-8")
    if _SCHEMA_OF_CHECKOUT not in text:
        raise ValueError(f"{layout.STACKS}/Pulumi.{STACK}.yaml does not name {_SCHEMA_OF_CHECKOUT}")
    return text.replace(_SCHEMA_OF_CHECKOUT, _SCHEMA)


def _workflow() -> str:
    page = f"~/.local/state/rackwright/{STACK}/drift.html"
    return schedule.github(schedule.ScheduledScan(STACK, "rackwright", page, time(3), 0, checks_out=True))
