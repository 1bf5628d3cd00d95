"""`rackwright inventory`: the inventory of a running stack, for other tools."""

from __future__ import annotations

import json
from typing import Annotated

import typer
import yaml

from rackwright.inventory.running_stack import load_inventory


def inventory(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of YAML.")] = False,
) -> None:
    """Print the Ansible inventory of a running stack; testinfra reads it as well."""
    found = load_inventory(stack)
    typer.echo(json.dumps(found, indent=2) if as_json else yaml.safe_dump(found, sort_keys=False))
