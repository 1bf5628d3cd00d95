"""`rackwright ssh` and `rackwright inventory`: what a stack that is up gives to a person and to other tools."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer
import yaml

from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.finding import did_you_mean


def ssh(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    node: Annotated[str, typer.Argument(help="The node's name.")],
    command: Annotated[list[str] | None, typer.Argument(help="What to run there; a shell where nothing is given.")] = None,
) -> None:
    """Log in to a node, or run a command there."""
    known = list(load(stack)["all"]["hosts"])
    if node not in known:
        raise BadInput(f"stack {stack} has no node `{node}`", path=node, hint=did_you_mean(node, known))
    config = str(paths.ssh_config(stack))
    os.execvp("ssh", ["ssh", "-F", config, node, *(command or [])])


def inventory(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of YAML.")] = False,
) -> None:
    """The hand-over of a stack that is up, as Ansible and testinfra read it."""
    found = load(stack)
    typer.echo(json.dumps(found, indent=2) if as_json else yaml.safe_dump(found, sort_keys=False))


def load(stack: str) -> dict[str, Any]:
    """The inventory of the last run; raises BadInput when the stack is not up."""
    file = paths.inventory(stack)
    if not file.is_file():
        raise BadInput("is not up", path=f"stack {stack}", hint=f"`pulumi up -s {stack}` brings it up")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=loader)
    return found
