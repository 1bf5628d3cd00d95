"""docs/reference/documents.md: the JSON documents that commands print and that the state directory holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import rackwright
from reference.json_types import Types, described
from reference.markdown import anchor, cell, head, table

PACKAGE: Final = Path(rackwright.__file__).parent
ROOT: Final = Path(__file__).parents[2]
_STACK_FILE: Final = "stack.schema.json"
_TEXT: Final = """
Documents that commands print with `--json`, or that lie in the state directory. The name of a document ends with its version.
The schema of stack files is on [a page of its own](stack-file.md).
"""


def schemas() -> Mapping[str, tuple[Path, dict[str, Any]]]:
    """Return path and schema of each document, by its name with version. Raises ValueError for a schema without a name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.schema.json")):
        if path.name != _STACK_FILE:
            schema = json.loads(path.read_text(encoding="utf-8"))
            name = schema.get("$id") or schema["title"].partition(":")[0]
            if not name.startswith("rackwright."):
                raise ValueError(f"{path.name}: name {name!r} (expected rackwright.NAME/VERSION)")
            found[name] = (path, schema)
    return dict(sorted(found.items()))


def page() -> str:
    """Return the whole page."""
    every = schemas()
    contents = [f"- [{name}](#{anchor(name)}): {cell(_title(schema))}" for name, (_, schema) in every.items()]
    sections = (line for name, (path, schema) in every.items() for line in _document(name, path, schema))
    return "\n".join([head("JSON documents", "the JSON schemas of the package", _TEXT), *contents, "", *sections])


def _title(schema: Mapping[str, Any]) -> str:
    return (
        str(schema["title"]).removeprefix(f"{str(schema['title']).partition(':')[0]}: ") if "/" in schema["title"] else str(schema["title"])
    )


def _document(name: str, path: Path, schema: Mapping[str, Any]) -> Iterator[str]:
    short = name.removeprefix("rackwright.").partition("/")[0]
    definitions: Mapping[str, Mapping[str, Any]] = schema.get("$defs", {})
    types = Types(definitions, lambda inner, _: f"[{inner}](#{anchor(f'{short}: {inner}')})")
    yield from (f"## {name}", "", f"{cell(_title(schema))}. Schema: [{path.name}](../../{path.relative_to(ROOT).as_posix()}).", "")
    yield from _object(schema, types)
    for inner, definition in definitions.items():
        if "properties" in definition:
            yield from (f"### {short}: {inner}", "")
            yield from _object(definition, types)


def _object(schema: Mapping[str, Any], types: Types) -> Iterator[str]:
    if schema.get("description"):
        yield from (described(schema), "")
    required = schema.get("required", ())
    rows = (
        (f"`{key}`", types.text(inner), "yes" if key in required else "no", described(inner)) for key, inner in schema["properties"].items()
    )
    yield from table(("key", "type", "always present", "meaning"), rows)
