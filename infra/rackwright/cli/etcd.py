"""`rackwright etcd`: back up and restore etcd of a Kubernetes stack."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rackwright import layout
from rackwright.cli.progress import show_progress
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import load_inventory
from rackwright.operations.state import backup, files


class Action(StrEnum):
    """Action of `rackwright etcd`."""

    BACKUP = "backup"
    RESTORE = "restore"


_KEY = "secrets in it are encrypted, and the key is in the stack's state: back up the state as well (`rackwright state backup FILE`)"


def etcd(
    action: Annotated[Action, typer.Argument(help="backup to FILE, or restore from FILE.")],
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Snapshot file on this machine.")],
    force: Annotated[bool, typer.Option("--force", help="restore: replace all objects that the cluster has now.")] = False,
) -> None:
    """Back up or restore etcd, with all Kubernetes objects of a stack.

    Exit codes: 0 done, 1 refused or failed, 2 invalid input, 3 undetermined.
    """
    cluster = load_inventory(stack)["all"]["vars"]["cluster"]
    if cluster["scheduler"]["kind"] != "kubernetes":
        hint = "for Slurm's accounting run playbooks/accounting-backup.yml or accounting-restore.yml"
        raise InputError(
            f"has no etcd (expected scheduler kubernetes, found {cluster['scheduler']['kind']})", path=f"stack {stack}", hint=hint
        )
    if action is Action.BACKUP:
        _backup(stack, cluster, file, force=force)
    else:
        _restore(stack, cluster, file, force=force)


def _backup(stack: str, cluster: Mapping[str, Any], file: Path, *, force: bool) -> None:
    if force:
        raise InputError(
            "not valid with `etcd backup`, which replaces nothing", path="--force", hint="remove --force, or use `etcd restore`"
        )
    if os.path.lexists(file):
        raise backup.exists(file)
    if not file.parent.is_dir():
        raise InputError("folder does not exist", path=str(file.parent), hint=f"run `mkdir -p {file.parent}`")
    with files.translate_os_errors(str(file), "cannot write the snapshot"):
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # 0600
        os.close(descriptor)
        draft = Path(name)
        try:
            _played(stack, cluster, "etcd-backup.yml", draft, needs_all=False)
            backup.rename_noreplace(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    typer.echo(f"{file}: consistent etcd snapshot of stack {stack}\n  {_KEY}")


def _restore(stack: str, cluster: Mapping[str, Any], file: Path, *, force: bool) -> None:
    if not file.is_file():
        raise InputError("file does not exist", path=str(file), hint=f"run `rackwright etcd backup {stack} FILE` to create a snapshot")
    if not force:
        hint = "pass `--force` to confirm; objects created since the snapshot are lost, and pods that it does not contain are terminated"
        raise InputError("restore would replace all Kubernetes objects", path=f"stack {stack}", hint=hint)
    _played(stack, cluster, "etcd-restore.yml", file, needs_all=True)
    typer.echo(
        f"stack {stack}: restored from {file}\n"
        f"  run `rackwright verify {stack}` to check it, and `pulumi up -s {stack}` to add what was declared after the snapshot"
    )


def _played(stack: str, cluster: Mapping[str, Any], playbook: str, file: Path, *, needs_all: bool) -> None:
    """Run the playbook while holding the stack's lock, with its controllers connected."""
    try:
        asyncio.run(_play(stack, cluster["scheduler"]["controllers"], playbook, file.absolute(), needs_all=needs_all))
    except KeyboardInterrupt:
        hint = "run the same command again, or `rackwright up`, to continue"
        raise UndeterminedError(f"interrupted during {playbook}", path=f"stack {stack}", hint=hint) from None


async def _play(stack: str, controllers: Sequence[str], playbook: str, file: Path, *, needs_all: bool) -> None:
    from rackwright.drivers import ansible, ssh
    from rackwright.operations.stack_lock import StackLock

    await StackLock(stack).hold()
    lost = await ssh.connect_all(stack, controllers, within=15.0)
    if lost and (needs_all or len(lost) == len(controllers)):
        told = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
        what = (
            "all controllers must be reachable, because an etcd member that is left out would keep its current data"
            if needs_all and len(controllers) > 1
            else "no controller is reachable"
        )
        raise UndeterminedError(
            f"aborted before any change: {what}\n{told}", hint=f"run `rackwright up {stack}` to repair the controllers first"
        )
    applied = await ansible.play(
        layout.product_root(),
        playbook,
        inventory=paths.inventory(stack),
        extra_vars=[paths.secrets(stack)],
        values={"backup_file": str(file)},
        limit=[name for name in controllers if name not in lost],
        on_progress=show_progress,
    )
    if applied.reasons:
        raise RackwrightError("\n".join(applied.reasons))
