"""`rackwright ssh`: log in to a node of a running stack."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Annotated

import typer

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import load_inventory
from rackwright.model.finding import did_you_mean


def ssh(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    node: Annotated[str, typer.Argument(help="Node name; `alice@login0` logs in to the node as a user of the cluster.")],
    command: Annotated[list[str] | None, typer.Argument(help="Command to run (default: a login shell).")] = None,
) -> None:
    """Log in to a node, or run a command on it."""
    everything = load_inventory(stack)["all"]
    user, _, name = node.rpartition("@")
    _known(stack, "node", name, list(everything["hosts"]))
    if user:
        _known(stack, "user", user, ["root", *(one["name"] for one in everything["vars"]["cluster"]["users"])])
    terminal = ("-t",) if sys.stdin.isatty() and not command else ()
    os.execvp("ssh", ["ssh", "-F", str(paths.ssh_config(stack)), *terminal, name, *_as_user(user, command or [])])


ssh.settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # type: ignore[attr-defined]
"""The words after the node are the command with its own options, as with ssh."""


def _known(stack: str, what: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise InputError(f"stack {stack} has no {what} `{name}`", path=name, hint=did_you_mean(name, names))


def _as_user(user: str, command: list[str]) -> list[str]:
    """Return the command that runs as another user over the stack's own SSH connection; it needs no key of that user."""
    if not user:
        return command
    return ["sudo", "runuser", "-l", user, *(["-c", shlex.quote(" ".join(command))] if command else [])]
