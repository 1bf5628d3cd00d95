"""`rackwright ssh` and `rackwright inventory`: what a stack that is up gives to a person and to other tools."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import Annotated, Any

import typer
import yaml

from rackwright.cli.live import must_be_up
from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.finding import did_you_mean


def ssh(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    node: Annotated[str, typer.Argument(help="The node's name; `alice@login0` is that node as one of the cluster's users.")],
    command: Annotated[list[str] | None, typer.Argument(help="What to run there; a shell where nothing is given.")] = None,
) -> None:
    """Log in to a node, or run a command there."""
    everything = load(stack)["all"]
    user, _, name = node.rpartition("@")
    _known(stack, "node", name, list(everything["hosts"]))
    if user:
        _known(stack, "user", user, ["root", *(one["name"] for one in everything["vars"]["cluster"]["users"])])
    terminal = ("-t",) if sys.stdin.isatty() and not command else ()
    os.execvp("ssh", ["ssh", "-F", str(paths.ssh_config(stack)), *terminal, name, *_as_user(user, command or [])])


ssh.settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # type: ignore[attr-defined]
"""What follows the node is the command with its own options, as with ssh itself."""


def _known(stack: str, what: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise BadInput(f"stack {stack} has no {what} `{name}`", path=name, hint=did_you_mean(name, names))


def _as_user(user: str, command: list[str]) -> list[str]:
    """The command as another user, over the connection of the nodes' own: it needs no key of that user's."""
    if not user:
        return command
    return ["sudo", "runuser", "-l", user, *(["-c", shlex.quote(" ".join(command))] if command else [])]


def inventory(
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of YAML.")] = False,
) -> None:
    """The hand-over of a stack that is up, as Ansible and testinfra read it."""
    found = load(stack)
    typer.echo(json.dumps(found, indent=2) if as_json else yaml.safe_dump(found, sort_keys=False))


def must_run_slurm(stack: str, what: str) -> None:
    """Raises where the stack's jobs are not Slurm's: `what` is not there for others yet."""
    scheduler = (load(stack)["all"]["vars"]["cluster"].get("scheduler") or {}).get("kind", "slurm")
    if scheduler != "slurm":
        hint = f"`rackwright verify {stack} --level smoke` runs pods on every idle worker"
        raise BadInput(
            f"{what} sends its jobs through Slurm, and this stack runs {scheduler.capitalize()}", path=f"stack {stack}", hint=hint
        )


def load(stack: str) -> dict[str, Any]:
    """The inventory of the last run; raises BadInput when the stack is not up."""
    file = must_be_up(stack)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=loader)
    return found
