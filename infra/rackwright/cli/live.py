"""Whether a stack is up: the first step of every command that asks a live cluster."""

from __future__ import annotations

from pathlib import Path

from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.load import find_stack_file, stack_name


def must_be_up(stack: str) -> Path:
    """The inventory of the last run; BadInput where there is none."""
    file = paths.inventory(stack)
    if not file.is_file():
        raise not_up(stack)
    return file


def not_up(stack: str) -> BadInput:
    """Why nothing can be asked of it. A name that no stack has is another mistake, and raised as that."""
    name = stack_name(find_stack_file(stack, paths.stacks()))
    if name != stack:
        return BadInput("is a file; what is up is asked for by its stack's name", path=stack, hint=f"the stack is `{name}`")
    return BadInput("is not up", path=f"stack {stack}", hint=f"`rackwright up {stack}` brings it up")
