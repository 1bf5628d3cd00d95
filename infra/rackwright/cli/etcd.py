"""`rackwright etcd`: back up and restore etcd of a Kubernetes stack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.progress import show_progress

etcd = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Back up or restore etcd, with all Kubernetes objects of a stack.",
)
etcd.callback()(lambda: None)

Stack = Annotated[str, typer.Argument(help="Stack name.")]
SnapshotFile = Annotated[Path, typer.Argument(metavar="FILE", help="Snapshot file on this machine.")]


@etcd.command("backup")
def save(stack: Stack, file: SnapshotFile) -> None:
    """Save a consistent snapshot in a new file.

    Exit codes: 0 done, 1 failed, 2 invalid input, 3 undetermined.
    """
    from rackwright.operations.etcd import save_snapshot

    save_snapshot(stack, file, show_progress)
    typer.echo(
        f"{file}: consistent etcd snapshot of stack {stack}\n"
        "  secrets in it are encrypted, and the key is in the stack's state: back up the state as well (`rackwright state backup FILE`)"
    )


@etcd.command("restore")
def restore(
    stack: Stack,
    file: SnapshotFile,
    force: Annotated[bool, typer.Option("--force", help="Confirm that all objects that the cluster has now are replaced.")] = False,
) -> None:
    """Replace all Kubernetes objects with those of a snapshot.

    Exit codes: 0 done, 1 failed, 2 invalid input or not confirmed, 3 undetermined.
    """
    from rackwright.operations.etcd import restore_snapshot

    restore_snapshot(stack, file, show_progress, force=force)
    typer.echo(
        f"stack {stack}: restored from {file}\n"
        f"  run `rackwright verify {stack}` to check it, and `pulumi up -s {stack}` to add what was declared after the snapshot"
    )
