"""The schema editors use says what the model says."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.rows import each_row

from rackwright import catalog
from rackwright.inventory import paths
from rackwright.stackfile import schema, yaml_reader


@functools.cache
def validator() -> Draft202012Validator:
    """The validator of the schema, which pydantic makes once for all tests."""
    return Draft202012Validator(schema.schema())


def errors(file_data: object) -> list[str]:
    """Where an editor would draw a red line."""
    return [error.json_path for error in validator().iter_errors(file_data)]


def test_the_committed_schema_is_current() -> None:
    """`rackwright schema > infra/rackwright/stackfile/stack.schema.json` writes it."""
    assert schema.COMMITTED.read_text() == schema.text()


def test_it_is_a_schema() -> None:
    """Editors say nothing about a broken one."""
    Draft202012Validator.check_schema(json.loads(schema.text()))


@each_row("file", sorted(paths.stacks().glob("Pulumi.*.yaml")), ids=lambda file: file.name)
def test_committed_stacks_keep_to_it(file: Any) -> None:
    """They are the examples."""
    assert errors(yaml_reader.read(file)[0]) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("verify_level: smok", "verify_level"),
        ("groups: {worker: {cout: 2, count: 2}}", "groups.worker"),
        ("groups: {worker: {count: 2, memory: 2GB}}", "groups.worker.memory"),
        ("groups: {Worker: {count: 2}}", "groups"),
        ("groups: {worker: {count: two}}", "groups.worker.count"),
        ("nodes: {worker0: {state: off}}", "nodes.worker0.state"),
    ],
)
def test_an_editor_draws_its_line_at_the_mistake(text: str, path: str) -> None:
    """While one types, not at `up`."""
    lab = yaml_reader.read(paths.stack_file("lab"))[0]
    lab["config"]["rackwright:cluster"] |= yaml_reader.parse(text, "x")[0]
    assert errors(lab) == [f"$.config['rackwright:cluster'].{path}"]


def test_every_gpu_of_the_catalogue_can_be_written() -> None:
    """Models are labels."""
    lab = yaml_reader.read(paths.stack_file("lab"))[0]
    groups = lab["config"]["rackwright:cluster"]["groups"]
    groups |= {f"gpus{at}": {"count": 1, "gpus": {"model": model, "count": 1}} for at, model in enumerate(catalog.gpus())}
    assert errors(lab) == []
