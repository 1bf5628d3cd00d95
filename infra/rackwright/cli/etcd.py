"""`rackwright etcd`: what a stack's Kubernetes holds, in a file, and back again."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rackwright.cli import backup, holdings
from rackwright.cli.connect import load
from rackwright.errors import BadInput, CouldNotTell, RackwrightError
from rackwright.handover import paths


class Action(StrEnum):
    """What is to be done with what the cluster holds."""

    BACKUP = "backup"
    RESTORE = "restore"


_KEY = "secrets in it are encrypted, and the key is in the stack's state: keep that as well (`rackwright state backup FILE`)"


def etcd(
    action: Annotated[Action, typer.Argument(help="backup into FILE, or restore from FILE.")],
    stack: Annotated[str, typer.Argument(help="The stack's name.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The snapshot's file on this machine.")],
    force: Annotated[bool, typer.Option("--force", help="restore: replace all that the cluster holds now.")] = False,
) -> None:
    """Back up or restore all objects of a stack's Kubernetes. Exit codes: 0 done, 1 refused, 2 bad input, 3 could not tell."""
    cluster = load(stack)["all"]["vars"]["cluster"]
    if cluster["scheduler"]["kind"] != "kubernetes":
        hint = "Slurm's accounting has playbooks/accounting-backup.yml and accounting-restore.yml"
        raise BadInput("runs no Kubernetes", path=f"stack {stack}", hint=hint)
    if action is Action.BACKUP:
        _backup(stack, cluster, file, force=force)
    else:
        _restore(stack, cluster, file, force=force)


def _backup(stack: str, cluster: Mapping[str, Any], file: Path, *, force: bool) -> None:
    if force:
        raise BadInput("`etcd backup` replaces nothing", path="--force", hint="leave it out: it belongs to `etcd restore`")
    if os.path.lexists(file):
        raise backup.exists(file)
    if not file.parent.is_dir():
        raise BadInput("there is no such folder", path=str(file.parent), hint=f"`mkdir -p {file.parent}` makes it")
    with holdings.os_errors_told(str(file), "the snapshot could not be written"):
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # 0600
        os.close(descriptor)
        draft = Path(name)
        try:
            _played(stack, cluster, "etcd-backup.yml", draft, needs_all=False)
            backup.publish(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    typer.echo(f"{file}: what stack {stack}'s Kubernetes holds, of one moment\n  {_KEY}")


def _restore(stack: str, cluster: Mapping[str, Any], file: Path, *, force: bool) -> None:
    if not file.is_file():
        raise BadInput("there is no such file", path=str(file), hint=f"`rackwright etcd backup {stack} FILE` writes one")
    if not force:
        hint = "`--force` does it: objects made since are gone, and pods that the snapshot does not know end"
        raise BadInput("would replace all that its Kubernetes holds now", path=f"stack {stack}", hint=hint)
    _played(stack, cluster, "etcd-restore.yml", file, needs_all=True)
    typer.echo(
        f"stack {stack}: restored from {file}\n  `rackwright verify {stack}` checks it, `pulumi up -s {stack}` adds what is declared since"
    )


def _played(stack: str, cluster: Mapping[str, Any], playbook: str, file: Path, *, needs_all: bool) -> None:
    """Run the playbook with the stack held and its controllers reached."""
    try:
        asyncio.run(_play(stack, cluster["scheduler"]["controllers"], playbook, file.absolute(), needs_all=needs_all))
    except KeyboardInterrupt:
        hint = "the same again, or `rackwright up`, goes on from there"
        raise CouldNotTell(f"interrupted in the middle of {playbook}", path=f"stack {stack}", hint=hint) from None


async def _play(stack: str, controllers: Sequence[str], playbook: str, file: Path, *, needs_all: bool) -> None:
    from rackwright.provider.drivers import ansible, ssh
    from rackwright.provider.stack_lock import StackLock

    await StackLock(stack).hold()
    lost = await ssh.reach(stack, controllers, within=15.0)
    if lost and (needs_all or len(lost) == len(controllers)):
        told = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
        what = (
            "a member of etcd that is left out would go on with what is there"
            if needs_all and len(controllers) > 1
            else "no controller answers"
        )
        raise CouldNotTell(f"nothing was touched, {what}\n{told}", hint="`rackwright up` repairs it first")
    applied = await ansible.play(
        paths.project_root(),
        playbook,
        inventory=paths.inventory(stack),
        extra_vars=[paths.secrets(stack)],
        values={"backup_file": str(file)},
        limit=[name for name in controllers if name not in lost],
        on_progress=_progress,
    )
    if applied.reasons:
        raise RackwrightError("\n".join(applied.reasons))


async def _progress(text: str) -> None:
    """On a terminal, one line that is overwritten; nowhere else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}\r", end="", file=sys.stderr, flush=True)
