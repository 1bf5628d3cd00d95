"""Back up and restore etcd of a running Kubernetes stack."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.drivers import ansible, ssh_connections
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import load_inventory
from rackwright.operations.stack_lock import StackLock
from rackwright.operations.state import backup, files

_CONNECT_TIMEOUT: Final = 15.0
"""Seconds for the SSH connections to all controllers; chosen."""

Progress = Callable[[str], Awaitable[None]]


def save_snapshot(stack: str, file: Path, on_progress: Progress) -> None:
    """Write a consistent snapshot of the stack's etcd to a new file with mode 0600.

    Raises InputError for an existing file, a missing folder or a stack without etcd, UndeterminedError if no controller is
    reachable or at Ctrl-C, and RackwrightError if the playbook fails. A failure leaves no file.
    """
    scheduler = _require_etcd(stack)
    if os.path.lexists(file):
        raise backup.file_exists_error(file)
    if not file.parent.is_dir():
        raise InputError("folder does not exist", path=str(file.parent), hint=f"run `mkdir -p {file.parent}`")
    with files.translate_os_errors(str(file), "cannot write the snapshot"):
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # 0600
        os.close(descriptor)
        draft = Path(name)
        try:
            _run(stack, scheduler, "etcd-backup.yml", draft, on_progress, needs_all=False)
            backup.rename_noreplace(draft, file)
        finally:
            draft.unlink(missing_ok=True)


def restore_snapshot(stack: str, file: Path, on_progress: Progress, *, force: bool) -> None:
    """Replace all Kubernetes objects of the stack with those of the snapshot.

    Raises InputError for a missing file, a stack without etcd, or without `force`; UndeterminedError unless all controllers are
    reachable, and at Ctrl-C; RackwrightError if the playbook fails.
    """
    scheduler = _require_etcd(stack)
    if not file.is_file():
        raise InputError("file does not exist", path=str(file), hint=f"run `rackwright etcd backup {stack} FILE` to create a snapshot")
    if not force:
        hint = "pass `--force` to confirm; objects created since the snapshot are lost, and pods that it does not contain are terminated"
        raise InputError("restore would replace all Kubernetes objects", path=f"stack {stack}", hint=hint)
    _run(stack, scheduler, "etcd-restore.yml", file, on_progress, needs_all=True)


def _require_etcd(stack: str) -> Mapping[str, Any]:
    """Return the scheduler section of the running stack's inventory; raise InputError if the scheduler is not Kubernetes."""
    scheduler: Mapping[str, Any] = load_inventory(stack)["all"]["vars"]["cluster"]["scheduler"]
    if scheduler["kind"] != "kubernetes":
        hint = "for Slurm's accounting run playbooks/accounting-backup.yml or accounting-restore.yml"
        raise InputError(f"has no etcd (expected scheduler kubernetes, found {scheduler['kind']})", path=f"stack {stack}", hint=hint)
    return scheduler


def _run(stack: str, scheduler: Mapping[str, Any], playbook: str, file: Path, on_progress: Progress, *, needs_all: bool) -> None:
    try:
        asyncio.run(_run_playbook(stack, scheduler, playbook, file, on_progress, needs_all=needs_all))
    except KeyboardInterrupt:
        hint = "run the same command again, or `rackwright up`, to continue"
        raise UndeterminedError(f"interrupted during {playbook}", path=f"stack {stack}", hint=hint) from None


async def _run_playbook(
    stack: str, scheduler: Mapping[str, Any], playbook: str, file: Path, on_progress: Progress, *, needs_all: bool
) -> None:
    """Run the playbook on the reachable controllers while holding the stack's lock."""
    controllers = scheduler["controllers"]
    await StackLock(stack).hold()
    lost = await ssh_connections.connect_all(stack, controllers, within=_CONNECT_TIMEOUT)
    if lost and (needs_all or len(lost) == len(controllers)):
        raise _unreachable(stack, lost, needs_all=needs_all and len(controllers) > 1)
    applied = await ansible.play(
        layout.product_root(),
        playbook,
        inventory=paths.inventory(stack),
        extra_vars=[paths.secrets(stack)],
        values={"backup_file": str(file.absolute())},
        limit=[name for name in controllers if name not in lost],
        on_progress=on_progress,
    )
    if applied.reasons:
        raise RackwrightError("\n".join(applied.reasons))


def _unreachable(stack: str, lost: Mapping[str, str], *, needs_all: bool) -> UndeterminedError:
    causes = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
    what = (
        "all controllers must be reachable, because an etcd member that is left out would keep its current data"
        if needs_all
        else "no controller is reachable"
    )
    hint = f"run `rackwright up {stack}` to repair the controllers first"
    return UndeterminedError(f"aborted before any change: {what}\n{causes}", hint=hint)
