"""The documents that other programs read, each with its JSON schema beside this file: `NAME.schema.json` for `rackwright.NAME/1`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def breaches(name: str, data: Mapping[str, Any]) -> list[str]:
    """Where a document breaks a contract, as `path: what`; empty when it keeps it."""
    from jsonschema import Draft202012Validator, FormatChecker

    found = Draft202012Validator(schema(name), format_checker=FormatChecker()).iter_errors(data)
    return [f"{breach.json_path}: {breach.message}" for breach in sorted(found, key=lambda breach: breach.json_path)]


@cache
def schema(name: str) -> dict[str, Any]:
    """A contract as a JSON schema."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded
