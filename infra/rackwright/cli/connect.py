"""`rackwright ssh` and `rackwright inventory`: what a stack that is up gives to a person and to other tools."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import yaml

from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.finding import did_you_mean


def ssh(stack: str, node: str, command: Sequence[str]) -> None:
    """Become ssh to a node of the stack; raises BadInput when there is no such node."""
    known = list(load(stack)["all"]["hosts"])
    if node not in known:
        raise BadInput(f"stack {stack} has no node `{node}`", path=node, hint=did_you_mean(node, known))
    config = str(paths.ssh_config(stack))
    os.execvp("ssh", ["ssh", "-F", config, node, *command])


def inventory(stack: str, *, as_json: bool) -> str:
    """The hand-over of the stack, as Ansible and testinfra read it."""
    found = load(stack)
    return json.dumps(found, indent=2) if as_json else yaml.safe_dump(found, sort_keys=False)


def load(stack: str) -> dict[str, Any]:
    """The inventory of the last run; raises BadInput when the stack is not up."""
    file = paths.inventory(stack)
    if not file.is_file():
        raise BadInput("is not up", path=f"stack {stack}", hint=f"`pulumi up -s {stack}` brings it up")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=loader)  # noqa: S506 - a safe loader
    return found
