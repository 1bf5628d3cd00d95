"""The inventory of a stack that is up: the first step of every command that queries a running cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory, load, load_document
from rackwright.stackfile.load import find_stack_file, stack_name


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A stack that is up, with its inventory: read once, and handed to everything that queries the stack."""

    name: str
    inventory: Inventory

    @classmethod
    def of(cls, name: str) -> RunningStack:
        """Return the stack of this name; raise InputError if it is not up, or was applied by a version with another inventory."""
        return cls(name, load(require_up(name)))


def require_up(stack: str) -> Path:
    """Return the path of the last run's inventory; raise InputError if there is none."""
    file = paths.inventory(stack)
    if not file.is_file():
        raise not_up(stack)
    return file


def not_up(stack: str) -> InputError:
    """Return the error for a stack that is not up. Raises InputError for a name that no stack file has."""
    name = stack_name(find_stack_file(stack, paths.stacks()))
    if name != stack:
        return InputError("is a file, but this command expects the name of a running stack", path=stack, hint=f"use `{name}`")
    return InputError("is not up", path=f"stack {stack}", hint=f"run `rackwright up {stack}`")


def require_slurm(stack: str, what: str) -> None:
    """Raise InputError if the stack's scheduler is not Slurm; `what` supports no other scheduler yet."""
    declared = load_inventory(stack)["all"]["vars"]["cluster"].get("scheduler") or {}
    scheduler = declared.get("kind", "slurm")
    if scheduler == "slurm" and declared.get("controllers") == []:
        hint = "run it on the stack of a cluster; `rackwright verify` checks a runner"
        raise InputError(f"{what} submits its jobs to Slurm, and a stack of runners has none", path=f"stack {stack}", hint=hint)
    if scheduler != "slurm":
        hint = f"run `rackwright verify {stack} --level smoke` to run pods on every idle worker"
        raise InputError(f"{what} submits its jobs to Slurm (found scheduler {scheduler.capitalize()})", path=f"stack {stack}", hint=hint)


def load_inventory(stack: str) -> dict[str, Any]:
    """Return the inventory of the last run; raise InputError if the stack is not up, or if the file is damaged."""
    return load_document(require_up(stack))
