"""`rackwright state`: the home's state and keys in one file, back again, or on another backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from rackwright.cli import backup, move
from rackwright.errors import BadInput
from rackwright.handover import paths


class Action(StrEnum):
    """What is to be done with the state."""

    BACKUP = "backup"
    RESTORE = "restore"
    MOVE = "move"


@dataclass(frozen=True)
class Done:
    """What a person is told, line by line, what is left to do, and the stacks for programs."""

    lines: list[str]
    then: list[str]
    stacks: list[dict[str, Any]]


def state(
    action: Annotated[Action, typer.Argument(help="backup into FILE, restore from FILE, or move to BACKEND_URL.")],
    place: Annotated[str, typer.Argument(metavar="FILE|BACKEND_URL", help="The backup's file, or the new backend's address.")],
    force: Annotated[bool, typer.Option("--force", help="restore: replace stacks that this home already has.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was done, as JSON.")] = False,
) -> None:
    """Take state, keys and reports of all stacks to a file, another machine, or another backend."""
    if force and action is not Action.RESTORE:
        raise BadInput(f"`state {action}` replaces nothing", path="--force", hint="leave it out: it belongs to `state restore`")
    done = _restore(place, force=force) if action is Action.RESTORE else _ACTIONS[action](place)
    if as_json:
        typer.echo(json.dumps({"action": action.value, "place": place, "stacks": done.stacks, "next": done.then}, indent=2))
    else:
        typer.echo("\n".join([*done.lines, *(f"  {line}" for line in done.then)]))


def _backup(place: str) -> Done:
    kept = backup.pack(Path(place))
    then = [
        "it holds keys and secrets in clear text: keep it where you keep those",
        "stack files are not in it: they belong to the checkout",
    ]
    if move.brings_passphrase():
        then.append("the passphrase of your environment (PULUMI_CONFIG_PASSPHRASE…) is not in it: keep that as well")
    elif not paths.engine_passphrase().is_file():
        then.append("this home has no passphrase, so none is in it")
    return Done([f"{place}: backed up from {paths.home()}", *map(_line, kept)], then, [_told(entry) for entry in kept])


def _restore(place: str, *, force: bool) -> Done:
    kept = backup.unpack(Path(place), force=force)
    then = [f"`pulumi refresh -s {entry.stack}` compares it with what is really there" for entry in kept if entry.state]
    return Done([f"{place}: restored to {paths.home()}", *map(_line, kept)], then, [_told(entry) for entry in kept])


def _move(place: str) -> Done:
    url = move.address(place)
    moved = move.move(url)
    lines = [f"stack {entry.stack}: {'was there already' if entry.already else 'moved'}" for entry in moved]
    then = [f"`pulumi login {url}`, or `export PULUMI_BACKEND_URL={url}`: without it pulumi goes on with the old state", _passphrase(url)]
    old = f"PULUMI_BACKEND_URL={move.FILE}{paths.engine_state()} pulumi stack rm --force"
    then += [f"the old state stays until you remove it: `{old} {entry.stack}`" for entry in moved]
    return Done([f"{url}: has the state of this home's stacks", *lines], then, [{"stack": e.stack, "already": e.already} for e in moved])


def _passphrase(url: str) -> str:
    """Whose passphrase opens the moved state, and who says so to the engine."""
    if move.brings_passphrase():
        return "the passphrase stays the one of your environment"
    if url.startswith(move.FILE):
        return f"the passphrase stays the one in {paths.engine_passphrase()}; pulumi finds it by itself, on this machine"
    return f"`export PULUMI_CONFIG_PASSPHRASE_FILE={paths.engine_passphrase()}`: it stays the same, and pulumi does not find it by itself"


def _line(entry: backup.Kept) -> str:
    if not entry.state:
        return f"stack {entry.stack}: keys and reports; its state is not in the home but on another backend"
    return f"stack {entry.stack}: {'state, keys and reports' if entry.folder else 'state'}"


def _told(entry: backup.Kept) -> dict[str, Any]:
    return {"stack": entry.stack, "state": entry.state, "folder": entry.folder, "files": entry.files}


_ACTIONS: Final[dict[Action, Callable[[str], Done]]] = {Action.BACKUP: _backup, Action.MOVE: _move}
