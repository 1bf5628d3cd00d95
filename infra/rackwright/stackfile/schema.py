"""The JSON schema of stack files, for completion and validation in editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from rackwright.model.cluster import Cluster
from rackwright.stackfile.load import CONFIG_KEY

COMMITTED: Final = Path(__file__).parent / "stack.schema.json"
"""Schema file that the first lines of stack files refer to; `rackwright schema` prints it."""


def schema() -> dict[str, Any]:
    """Return the schema of a complete stack file: the cluster below `config`, in addition to other keys of Pulumi."""
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
    """Forbid keys that match no pattern: pydantic states the pattern of names, but does not forbid other names."""
    if isinstance(part, dict):
        if "patternProperties" in part:
            part.setdefault("additionalProperties", False)
        for inside in part.values():
            _close_patterns(inside)
    elif isinstance(part, list):
        for inside in part:
            _close_patterns(inside)


def text() -> str:
    """Return the text of the committed schema."""
    return json.dumps(schema(), indent=2, sort_keys=True) + "\n"
