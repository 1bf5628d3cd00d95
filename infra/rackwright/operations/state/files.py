"""The files of the state directory that a backup contains, and the locks of runs that change them."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.model.names import is_label

PROJECT: Final = "rackwright"
"""Name of the Pulumi project; the state directory groups stacks by project."""

_STATE: Final = (".engine", "state", ".pulumi")
_PASSPHRASE: Final = (".engine", "passphrase")
_OF_STACKS: Final = ("stacks", "history", "backups")
_FORMAT: Final = (("meta.yaml",), ("meta.yaml.attrs",))
_REMADE: Final = ("results", "refresh", "sockets", "power.lock", "power.log", "power.log.1")
"""Entries of a stack's folder that the next run creates again: raw results, the link to the ssh sockets, the power agent's files."""

_DRAFT: Final = ".tmp"
"""Suffix of state that is being written; the file is renamed or deleted a moment later."""

_CHECKPOINT: Final = re.compile(r"([^.]+)\.json(\.gz|\.zst)?")


def is_backed_up(path: PurePosixPath) -> bool:
    """Return whether a backup contains a file, by its path in the state directory. False for paths outside of it."""
    parts = path.parts
    if ".." in parts or "\0" in str(path):
        return False
    if parts[:3] == _STATE:
        of_stack = len(parts) > 5 and parts[3] in _OF_STACKS and parts[4] == PROJECT
        return parts[3:] in _FORMAT or (of_stack and path.suffix != _DRAFT)
    return parts == _PASSPHRASE or (_in_folder(parts) and parts[1] not in _REMADE and not parts[1].startswith("."))


def stack_of(path: PurePosixPath) -> str | None:
    """Return the stack that a file belongs to, or None for files that all stacks share."""
    if path.parts[:3] == _STATE:
        return path.parts[5].partition(".json")[0] if len(path.parts) > 5 else None
    return path.parts[0] if _in_folder(path.parts) else None


def is_state(path: PurePosixPath) -> bool:
    """Return whether the file is a stack's current state; without it Pulumi does not list the stack."""
    return path.parts[:-1] == (*_STATE, "stacks", PROJECT) and _CHECKPOINT.fullmatch(path.name) is not None


def files() -> list[PurePosixPath]:
    """Return the files of existing stacks that a backup contains, as paths in the state directory."""
    home = paths.home()
    tops = [home.joinpath(*_STATE), *(folder for folder in home.glob("*") if is_label(folder.name))]
    found = [home.joinpath(*_PASSPHRASE), *(file for top in tops for file in top.rglob("*"))]
    candidates = [PurePosixPath(file.relative_to(home)) for file in found if file.is_file() and not file.is_symlink()]
    candidates = sorted(path for path in candidates if is_backed_up(path))
    # Pulumi keeps the history of a removed stack
    alive = {stack_of(path) for path in candidates if is_state(path) or _in_folder(path.parts)}
    return [path for path in candidates if stack_of(path) in {None, *alive}]


def stacks() -> list[str]:
    """Return every stack of the state directory, with Pulumi state or with a folder only."""
    return sorted({stack for stack in map(stack_of, files()) if stack})


def stacks_with_state() -> list[str]:
    """Return the stacks whose Pulumi state is in the state directory, not on another backend."""
    return sorted({stack for path in files() if is_state(path) and (stack := stack_of(path))})


@contextmanager
def locked(names: Iterable[str]) -> Iterator[None]:
    """Hold the locks of the stacks; raise RackwrightError if a run holds one."""
    with ExitStack() as locks:
        for stack in names:
            _refuse_engine_locks(stack)
            if paths.folder(stack).is_dir():
                locks.enter_context(_locked(stack))
        yield


@contextmanager
def _locked(stack: str) -> Iterator[None]:
    lock = paths.lock_file(stack)
    with open(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _lock_error(stack, lock, file.read(32).strip()) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _refuse_engine_locks(stack: str) -> None:
    """Raise RackwrightError if Pulumi holds its own lock, which it does before and after the provider holds the stack's lock."""
    for lock in paths.home().joinpath(*_STATE, "locks", "organization", PROJECT, stack).glob("*.json"):
        try:
            owner = json.loads(lock.read_text(encoding="utf-8"))
            holder = f"{owner['pid']} on {owner['hostname']}"
            if owner["hostname"] == os.uname().nodename and not _is_running(int(owner["pid"])):
                continue
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            holder = ""
        raise _lock_error(stack, lock, holder, f"; for a stale lock run `pulumi cancel -s {stack}`")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _lock_error(stack: str, lock: Path, holder: str, more: str = "") -> RackwrightError:
    hint = f"wait for that run to finish, then run this command again{more}"
    return RackwrightError(f"another run is changing stack {stack} (process {holder or 'unknown'})", path=str(lock), hint=hint)


@contextmanager
def translate_os_errors(place: str, what: str) -> Iterator[None]:
    """Raise RackwrightError for an OSError, which the user can resolve: a full disk, missing permissions."""
    try:
        yield
    except OSError as fault:
        where = f" ({fault.filename})" if fault.filename and str(fault.filename) != place else ""
        hint = "check the folder's permissions and the free space of its disk"
        raise RackwrightError(f"{what}: {fault.strerror or fault}{where}", path=place, hint=hint) from None


def _in_folder(parts: tuple[str, ...]) -> bool:
    return len(parts) > 1 and is_label(parts[0])
