"""YAML of the project is read in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from rackwright import yaml_loader

PACKAGE = Path(__file__).parents[2] / "infra/rackwright"
READERS = {"load", "safe_load", "load_all", "safe_load_all", "CSafeLoader"}
"""What PyYAML offers to read data. `compose`, which yields positions in the text, is for editors of stack files."""


def uses(file):
    text = file.read_text(encoding="utf-8")
    if "yaml" not in text:  # to parse all modules takes 2 s
        return []
    return [
        f"{file.relative_to(PACKAGE)}:{node.lineno}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in READERS and isinstance(node.value, ast.Name) and node.value.id == "yaml"
    ]


def test_no_other_module_chooses_a_loader():
    found = {file: uses(file) for file in PACKAGE.rglob("*.py")}
    reader = Path(yaml_loader.__file__)
    assert found.pop(reader), "the test does not recognise the reader itself"
    assert [use for rows in found.values() for use in rows] == []


def test_the_c_loader_is_used_where_it_exists():
    assert yaml_loader.LOADER is getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def test_empty_text_is_none_and_objects_are_refused():
    assert yaml_loader.load_yaml("") is None
    assert yaml_loader.load_yaml("a: [1, {b: x}]") == {"a": [1, {"b": "x"}]}
    with pytest.raises(yaml.YAMLError):
        yaml_loader.load_yaml("!!python/object/apply:os.getcwd []")
