"""docs/reference/environment.md: the variables whose names start with RACKWRIGHT_, from environment.yml beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from rackwright.yaml_loader import load_yaml
from reference.markdown import cell, head, table

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("ansible_collections", "infra", "playbooks", "roles", "tools", "tests", "benchmarks")
_FILE: Final = Path(__file__).with_name("environment.yml")
_NAME: Final = re.compile(r"\bRACKWRIGHT_[A-Z][A-Z_]*[A-Z]\b")
_TEXT: Final = """Users set the variables of the first table. The others pass values between the project's own programs and are not
meant to be set.

Pulumi's variables keep their meaning: `PULUMI_BACKEND_URL`, `PULUMI_CONFIG_PASSPHRASE` and `PULUMI_CONFIG_PASSPHRASE_FILE` replace
the project's defaults.
"""
_TITLES: Final = {
    "user": "Set by users",
    "notify": "Set for the notification command of `drift.notify`",
    "test": "Set by developers, for tests",
    "internal": "Internal",
}


def page() -> str:
    """Return the whole page."""
    return "\n".join(
        [head("Environment variables", "`tools/reference/environment.yml`", _TEXT), *(line for kind in _TITLES for line in _section(kind))]
    )


@cache
def described() -> Mapping[str, Mapping[str, str]]:
    """Return the descriptions by name: `for` (a key of the titles), `meaning`, and `default` if the user may set it."""
    loaded: dict[str, dict[str, str]] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return loaded


def used() -> frozenset[str]:
    """Return the names that occur in the product's files."""
    here = Path(__file__).parent
    paths = (
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if here not in path.parents and "__pycache__" not in path.parts
    )
    return frozenset(name for path in paths if path.is_file() for name in _NAME.findall(path.read_text(encoding="utf-8", errors="replace")))


def _section(kind: str) -> Iterator[str]:
    yield from (f"## {_TITLES[kind]}", "")
    rows = [(name, row) for name, row in sorted(described().items()) if row["for"] == kind]
    yield from table(
        ("variable", "default", "meaning"), ((f"`{name}`", cell(row.get("default", "none")), cell(row["meaning"])) for name, row in rows)
    )
