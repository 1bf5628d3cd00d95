"""Types of JSON schemas as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from reference.markdown import cell, code

Schema = Mapping[str, Any]
Link = Callable[[str, Schema], str]
"""(name, definition) -> text that refers to a definition."""


class Types:
    """Texts for the types of one schema, whose `$ref` lead to `definitions`."""

    def __init__(self, definitions: Mapping[str, Schema], link: Link) -> None:
        self._definitions = definitions
        self._link = link

    def text(self, schema: Schema) -> str:
        """Return the type for a cell of a table; `any` for a schema without constraints."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            definition = self._definitions[name]
            return self._link(name, definition) if "properties" in definition else self.text(definition)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return " or ".join(dict.fromkeys(self.text(one) for one in schema[several] if one.get("type") != "null"))
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return ", ".join(code("null" if value is None else str(value)) for value in values)
        return self._of_kind(schema)

    def _of_kind(self, schema: Schema) -> str:
        kinds = schema.get("type", "any")
        if isinstance(kinds, list):
            return " or ".join(self._of_kind({**schema, "type": kind}) for kind in kinds)
        if kinds in ("integer", "number"):
            return f"{kinds}{_range(schema)}"
        if kinds == "array":
            inner = schema.get("items")
            return f"list of {self.text(inner)}" if inner else "list"
        if kinds == "object":
            return self._mapping(schema)
        return f"{kinds}, {schema['format']}" if kinds == "string" and "format" in schema else str(kinds)

    def _mapping(self, schema: Schema) -> str:
        if "properties" in schema:
            return "object with " + ", ".join(f"{code(name)}: {self.text(inner)}" for name, inner in schema["properties"].items())
        values = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        inner = next((value for value in values if isinstance(value, Mapping)), None)
        return f"mapping of name to {self.text(inner)}" if inner else "object"


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", {'above' if 'exclusiveMinimum' in schema else 'at least'} {low}"
    return f", at most {high}" if high is not None else ""


def example(schema: Schema) -> str:
    """Return the first example of a schema or of its alternatives, for a cell; empty without one."""
    for one in (schema, *schema.get("anyOf", ())):
        if one.get("examples"):
            return f"for example {code(str(one['examples'][0]))}"
    return ""


def default(value: object) -> str:
    """Return a default for a cell: `none` for null and for empty lists and mappings."""
    if value is None or value == [] or value == {}:
        return "none"
    return code(json.dumps(value, ensure_ascii=False)) if not isinstance(value, str) else code(value)


def described(schema: Schema) -> str:
    """Return the description for a cell; empty without one."""
    return cell(str(schema.get("description", "")))
