"""The JSON schema of stack files, so that an editor completes and checks while one types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from rackwright.model.cluster import Cluster
from rackwright.model.load import CONFIG_KEY

COMMITTED: Final = Path(__file__).parent / "stack.schema.json"
"""What the stack files' first lines refer to; `rackwright schema` prints the text anew."""


def schema() -> dict[str, Any]:
    """The schema of a whole stack file: the cluster below `config`, beside whatever else the engine keeps there."""
    cluster = Cluster.model_json_schema(mode="validation")
    _close_patterns(cluster)
    definitions = cluster.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "rackwright stack file",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "type": "object",
                "required": [CONFIG_KEY],
                "properties": {CONFIG_KEY: cluster},
            }
        },
        "$defs": definitions,
    }


def _close_patterns(part: Any) -> None:
    """Forbid keys that match no pattern: pydantic says what a name looks like, but not that others are wrong."""
    if isinstance(part, dict):
        if "patternProperties" in part:
            part.setdefault("additionalProperties", False)
        for inside in part.values():
            _close_patterns(inside)
    elif isinstance(part, list):
        for inside in part:
            _close_patterns(inside)


def text() -> str:
    """The schema as it is committed."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"
