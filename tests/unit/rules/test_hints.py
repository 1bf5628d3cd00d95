"""Every finding says what to do: a finding without a hint leaves the reader with the vendor's manual."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rackwright import rules
from rackwright.inventory import paths
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY, load_cluster, load_text

WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    float("inf"),
    float("nan"),
    "",
    " ",
    "x y",
    "Ä",
    "5",
    "5XB",
    "x" * 5000,
    [],
    [None],
    [[]],
    ["x", 7],
    {},
    {"x": 1},
    {"": {}},
    {"Ä ö": None},
]
"""Values of every kind, most of them wrong at most places."""


HERE = Path(__file__).parent
LAB: dict[str, Any] = yaml_reader.read(HERE / "good.yml")[0][0]["cluster"]
NAMES = ["aws-p5", "lab-k8s-addons", "onprem-gpu"]


def stack(name: str) -> Any:
    """Return the description in a stack file of the project."""
    return yaml_reader.read(paths.stack_file(name))[0]["config"][CONFIG_KEY]


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place in a tree."""
    inside = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    if path:
        yield path
    for key, value in inside:
        yield from places(value, (*path, key))


def changed(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return the tree with one value replaced; the parts around it are copies."""
    key, inside = place[0], place[1:]
    copied = copy.copy(tree)
    copied[key] = changed(tree[key], inside, value) if inside else value
    return copied


def nested(depth: int) -> Any:
    """Return lists inside each other."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_every_field_error_has_a_hint(name: str) -> None:
    """Every value of every kind at every place."""
    whole, found = stack(name), {}
    for place in places(whole):
        for wrong in WRONG:
            for finding in load_cluster(changed(whole, place, wrong), "lab").findings:
                found[finding.cause, finding.hint] = finding
    assert len(found) > 50
    assert [str(finding) for finding in found.values() if not finding.hint] == []
    assert [str(finding) for finding in found.values() if "Input should" in str(finding) or "pydantic" in str(finding)] == []


@pytest.mark.parametrize("depth", [150, 300, 900])
def test_nesting_too_deep_has_a_hint(depth: int) -> None:
    """As a value, and as text of a file."""
    loaded = load_cluster({**LAB, "users": nested(depth)}, "lab")
    assert loaded.cluster is None
    assert all(finding.cause and finding.hint for finding in loaded.findings)
    text = "config:\n  rackwright:cluster: " + "[" * depth * 20 + "]" * depth * 20
    from_file = load_text(Path("Pulumi.lab.yaml"), text)
    assert from_file.findings and all(finding.cause and finding.hint for finding in from_file.findings)


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\t- x", "a: &a [*a]", "a: *b", "a: !!python/object:x {}", "? [x]\n: y", "- \x00"])
def test_every_syntax_error_has_a_hint(text: str) -> None:
    """Also what PyYAML refuses without a mark."""
    found = load_text(Path("Pulumi.lab.yaml"), text).findings
    assert found and all(finding.cause and finding.hint for finding in found), found


def test_findings_beside_a_field_error_have_hints() -> None:
    """Rules go on where one part of the file is invalid."""
    cluster = changed(LAB, ("access",), {"port": 22, "bind_address": "x"})
    found = rules.check(load_cluster(cluster, "lab"), date(2026, 12, 1))
    assert len(found) > 1 and all(finding.hint for finding in found)


def test_document_is_read_without_findings() -> None:
    """The control: a valid text has none."""
    assert yaml_reader.parse("a: 1", "x") == ({"a": 1}, [])
