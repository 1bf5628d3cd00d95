"""`rackwright state`: back up, restore or migrate the state and keys of all stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.render import state as render_state
from rackwright.cli.render.state import StateOutput
from rackwright.operations.state import backup, migrate

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
    _print(render_state.backed_up(file, backup.pack(Path(file))), as_json)


@state.command("restore")
def restore(
    file: BackupFile,
    force: Annotated[bool, typer.Option("--force", help="Replace stacks that the state directory already contains.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore all stacks of a backup."""
    _print(render_state.restored(file, backup.unpack(Path(file), force=force)), as_json)


@state.command("migrate")
def move(
    backend: Annotated[str, typer.Argument(metavar="BACKEND_URL", help="URL of the new Pulumi backend.")],
    as_json: AsJson = False,
) -> None:
    """Copy the Pulumi state of all stacks to another backend."""
    url = migrate.address(backend)
    _print(render_state.migrated(backend, url, migrate.migrate(url)), as_json)


def _print(found: StateOutput, as_json: bool) -> None:
    typer.echo(found.json() if as_json else found.text())
