"""Contracts of documents that other programs read: `NAME.schema.json` next to this file is the JSON schema of `rackwright.NAME/1`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def schema_errors(name: str, data: Mapping[str, Any]) -> list[str]:
    """Return a document's violations of a contract as `path: message`; empty for a valid document."""
    from jsonschema import Draft202012Validator, FormatChecker

    found = Draft202012Validator(schema(name), format_checker=FormatChecker()).iter_errors(data)
    return [f"{breach.json_path}: {breach.message}" for breach in sorted(found, key=lambda breach: breach.json_path)]


@cache
def schema(name: str) -> dict[str, Any]:
    """Return a contract as a JSON schema."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded
