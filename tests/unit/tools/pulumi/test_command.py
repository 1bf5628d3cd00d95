"""What the shim reads from a command line."""

from __future__ import annotations

import pytest

from shim.command import Command


@pytest.mark.parametrize(
    ("line", "stack"),
    [
        ("up -s lab", "lab"),
        ("up -slab", "lab"),
        ("up --stack lab --yes", "lab"),
        ("up --stack=lab", "lab"),
        ("-C infra preview -s lab", "lab"),
        ("--color never up -ys lab", "lab"),
        ("up -s organization/rackwright/lab", "organization/rackwright/lab"),
        ("stack select lab", "lab"),
        ("stack rm lab --yes", "lab"),
        ("up -m -slab", None),
        ("up -- -s lab", None),
        ("up", None),
        ("config set -s lab text -- -s", "lab"),
        ("up -s", ""),
    ],
)
def test_stack(line: str, stack: str | None) -> None:
    assert Command(line.split()).stack == stack


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("up -s lab --yes", False),
        ("up -s lab -c size=3", True),
        ("up -s lab --config size=3", True),
        ("up -s lab --config=size=3", True),
        ("up -s lab -yc size=3", True),
        ("up -s lab --config-path", False),
        ("config set size 3", True),
        ("stack history", True),
        ("refresh", False),
        ("destroy --yes", False),
        ("up -s config", False),
    ],
)
def test_whether_the_stack_file_may_be_written(line: str, stays: bool) -> None:
    assert Command(line.split()).may_write_stack_file is stays


@pytest.mark.parametrize("line", ["up --config-file other.yaml", "up --config-file=other.yaml"])
def test_a_named_config_file_is_noticed(line: str) -> None:
    assert Command(line.split()).names_config_file
    assert not Command(line.split()).saves_config


def test_folder_help_and_login() -> None:
    assert Command(["-C", "sub", "up"]).folder == "sub"
    assert Command(["--cwd=sub", "up"]).folder == "sub"
    assert Command(["up", "-h"]).asks_for_help
    assert not Command(["up", "-s", "h"]).asks_for_help
    assert Command(["login"]).changes_login
    assert Command(["stack", "init", "x"]).makes_or_removes_a_stack
    assert not Command(["stack", "select", "x"]).makes_or_removes_a_stack
