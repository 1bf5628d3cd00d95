"""Assertion that a stack is up: the first step of every command that queries a running cluster."""

from __future__ import annotations

from pathlib import Path

from rackwright.errors import BadInput
from rackwright.inventory import paths
from rackwright.stackfile.load import find_stack_file, stack_name


def must_be_up(stack: str) -> Path:
    """Return the path of the last run's inventory; raise BadInput if there is none."""
    file = paths.inventory(stack)
    if not file.is_file():
        raise not_up(stack)
    return file


def not_up(stack: str) -> BadInput:
    """Return the error for a stack that is not up. Raises BadInput for a name that no stack file has."""
    name = stack_name(find_stack_file(stack, paths.stacks()))
    if name != stack:
        return BadInput("is a file, but this command expects the name of a running stack", path=stack, hint=f"use `{name}`")
    return BadInput("is not up", path=f"stack {stack}", hint=f"run `rackwright up {stack}`")
