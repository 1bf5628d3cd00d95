"""The layout page lists every folder of the package in the order that import-linter enforces."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/contributing/layout.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_layout_page_lists_every_folder() -> None:
    folders = {path.parent.name for path in (ROOT / "infra/rackwright").glob("*/__init__.py")}
    assert folders == set(LISTED)


def test_layout_page_has_order_of_import_linter() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    ranks = {name: rank for rank, layer in enumerate(layers) for name in re.findall(r"rackwright\.(\w+)", layer)}
    assert [ranks[name] for name in LISTED] == sorted(ranks[name] for name in LISTED)
