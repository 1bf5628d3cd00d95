"""What the home holds of its stacks that must not be lost, and the locks of runs that are changing it."""

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
from rackwright.handover import paths
from rackwright.model.units import is_label

PROJECT: Final = "rackwright"
"""The engine's project, by which the state is sorted."""

_STATE: Final = (".engine", "state", ".pulumi")
_PASSPHRASE: Final = (".engine", "passphrase")
_OF_STACKS: Final = ("stacks", "history", "backups")
_FORMAT: Final = (("meta.yaml",), ("meta.yaml.attrs",))
_REMADE: Final = ("results", "refresh", "sockets", "power.lock", "power.log", "power.log.1")
"""In a stack's folder: raw results, the way to ssh's sockets, what is the power agent's; the next run makes them again."""

_DRAFT: Final = ".tmp"
"""State that is being written: renamed, or gone, a moment later."""

_CHECKPOINT: Final = re.compile(r"([^.]+)\.json(\.gz|\.zst)?")


def belongs(path: PurePosixPath) -> bool:
    """Whether a file of the home, by its path in there, is one to keep. Nothing outside the home belongs."""
    parts = path.parts
    if ".." in parts or "\0" in str(path):
        return False
    if parts[:3] == _STATE:
        of_stack = len(parts) > 5 and parts[3] in _OF_STACKS and parts[4] == PROJECT
        return parts[3:] in _FORMAT or (of_stack and path.suffix != _DRAFT)
    return parts == _PASSPHRASE or (_in_folder(parts) and parts[1] not in _REMADE and not parts[1].startswith("."))


def stack_of(path: PurePosixPath) -> str | None:
    """The stack a file belongs to; None for what all stacks share."""
    if path.parts[:3] == _STATE:
        return path.parts[5].partition(".json")[0] if len(path.parts) > 5 else None
    return path.parts[0] if _in_folder(path.parts) else None


def is_state(path: PurePosixPath) -> bool:
    """Whether the file is a stack's state as of now: without it the engine knows no such stack."""
    return path.parts[:-1] == (*_STATE, "stacks", PROJECT) and _CHECKPOINT.fullmatch(path.name) is not None


def files() -> list[PurePosixPath]:
    """Every file to keep, by its path in the home, of stacks that exist."""
    home = paths.home()
    tops = [home.joinpath(*_STATE), *(folder for folder in home.glob("*") if is_label(folder.name))]
    found = [home.joinpath(*_PASSPHRASE), *(file for top in tops for file in top.rglob("*"))]
    kept = [PurePosixPath(file.relative_to(home)) for file in found if file.is_file() and not file.is_symlink()]
    kept = sorted(path for path in kept if belongs(path))
    alive = {stack_of(path) for path in kept if is_state(path) or _in_folder(path.parts)}  # a removed stack leaves its history
    return [path for path in kept if stack_of(path) in {None, *alive}]


def stacks() -> list[str]:
    """Every stack of the home, be its state there or only its folder."""
    return sorted({stack for stack in map(stack_of, files()) if stack})


def stacks_with_state() -> list[str]:
    """The stacks whose state lies in the home, not on another backend."""
    return sorted({stack for path in files() if is_state(path) and (stack := stack_of(path))})


@contextmanager
def held(names: Iterable[str]) -> Iterator[None]:
    """Keeps runs away from the stacks; raises where one is at work."""
    with ExitStack() as locks:
        for stack in names:
            _refuse_while_the_engine_works(stack)
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
            raise _at_work(stack, lock, file.read(32).strip()) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _refuse_while_the_engine_works(stack: str) -> None:
    """The engine's own locks, which it holds before and after the provider holds the stack's."""
    for lock in paths.home().joinpath(*_STATE, "locks", "organization", PROJECT, stack).glob("*.json"):
        try:
            told = json.loads(lock.read_text(encoding="utf-8"))
            holder = f"{told['pid']} on {told['hostname']}"
            if told["hostname"] == os.uname().nodename and not _lives(int(told["pid"])):
                continue
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            holder = ""
        raise _at_work(stack, lock, holder, f"; `pulumi cancel -s {stack}` removes a lock that nobody holds any more")


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _at_work(stack: str, lock: Path, holder: str, more: str = "") -> RackwrightError:
    hint = f"wait for it to end, then run this again{more}"
    return RackwrightError(f"a run is changing stack {stack} (process {holder or 'unknown'})", path=str(lock), hint=hint)


@contextmanager
def os_errors_told(place: str, what: str) -> Iterator[None]:
    """What the system refuses is a person's business: a full disk, a folder without rights."""
    try:
        yield
    except OSError as fault:
        where = f" ({fault.filename})" if fault.filename and str(fault.filename) != place else ""
        hint = "look at the folder's rights and the room on its disk"
        raise RackwrightError(f"{what}: {fault.strerror or fault}{where}", path=place, hint=hint) from None


def _in_folder(parts: tuple[str, ...]) -> bool:
    return len(parts) > 1 and is_label(parts[0])
