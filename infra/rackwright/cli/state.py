"""`rackwright state`: back up, restore or migrate the state and keys of all stacks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rackwright.inventory import paths
from rackwright.operations.state import backup, migrate


@dataclass(frozen=True)
class Done:
    """Result of an action: lines to print, remaining steps, and the stacks as data for JSON."""

    lines: list[str]
    then: list[str]
    stacks: list[dict[str, Any]]


state = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Back up, restore or migrate the state, keys and reports of all stacks.",
)
state.callback()(lambda: None)

BackupFile = Annotated[str, typer.Argument(metavar="FILE", help="Backup file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@state.command("backup")
def save(file: BackupFile, as_json: AsJson = False) -> None:
    """Back up state, keys and reports of all stacks in a new file."""
    _print("backup", file, _backup(file), as_json)


@state.command("restore")
def restore(
    file: BackupFile,
    force: Annotated[bool, typer.Option("--force", help="Replace stacks that the state directory already contains.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore all stacks of a backup."""
    _print("restore", file, _restore(file, force=force), as_json)


@state.command("migrate")
def move(
    backend: Annotated[str, typer.Argument(metavar="BACKEND_URL", help="URL of the new Pulumi backend.")],
    as_json: AsJson = False,
) -> None:
    """Copy the Pulumi state of all stacks to another backend."""
    _print("migrate", backend, _move(backend), as_json)


def _print(action: str, place: str, done: Done, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"action": action, "place": place, "stacks": done.stacks, "next": done.then}, indent=2))
    else:
        typer.echo("\n".join([*done.lines, *(f"  {line}" for line in done.then)]))


def _backup(place: str) -> Done:
    kept = backup.pack(Path(place))
    then = [
        "it contains keys and secrets in clear text: store it as securely as those",
        "it does not contain the stack files, which are part of the checkout",
    ]
    if migrate.brings_passphrase():
        then.append("it does not contain the passphrase of your environment (PULUMI_CONFIG_PASSPHRASE…): back it up as well")
    elif not paths.engine_passphrase().is_file():
        then.append("it contains no passphrase: the state directory has none")
    return Done([f"{place}: backed up from {paths.home()}", *map(_line, kept)], then, [_told(entry) for entry in kept])


def _restore(place: str, *, force: bool) -> Done:
    kept = backup.unpack(Path(place), force=force)
    then = [f"run `pulumi refresh -s {entry.stack}` to compare the state with the real resources" for entry in kept if entry.state]
    return Done([f"{place}: restored to {paths.home()}", *map(_line, kept)], then, [_told(entry) for entry in kept])


def _move(place: str) -> Done:
    url = migrate.address(place)
    moved = migrate.migrate(url)
    lines = [f"stack {entry.stack}: {'already moved' if entry.already else 'moved'}" for entry in moved]
    then = [
        f"run `pulumi login {url}` or `export PULUMI_BACKEND_URL={url}`; otherwise pulumi continues to use the old state",
        _passphrase(url),
    ]
    old = f"PULUMI_BACKEND_URL={migrate.FILE}{paths.engine_state()} pulumi stack rm --force"
    then += [f"the old state is kept; to delete it, run `{old} {entry.stack}`" for entry in moved]
    return Done(
        [f"{url}: contains the state of all stacks of {paths.home()}", *lines],
        then,
        [{"stack": e.stack, "already": e.already} for e in moved],
    )


def _passphrase(url: str) -> str:
    """Return the line that says which passphrase decrypts the moved state and how Pulumi finds it."""
    if migrate.brings_passphrase():
        return "the passphrase is still the one of your environment"
    if url.startswith(migrate.FILE):
        return f"the passphrase is still the one in {paths.engine_passphrase()}; pulumi finds it automatically on this machine"
    export = f"export PULUMI_CONFIG_PASSPHRASE_FILE={paths.engine_passphrase()}"
    return f"run `{export}`; the passphrase is the same, but pulumi does not find it automatically"


def _line(entry: backup.Kept) -> str:
    if not entry.state:
        return f"stack {entry.stack}: keys and reports; its state is on another backend"
    return f"stack {entry.stack}: {'state, keys and reports' if entry.folder else 'state'}"


def _told(entry: backup.Kept) -> dict[str, Any]:
    return {"stack": entry.stack, "state": entry.state, "folder": entry.folder, "files": entry.files}
