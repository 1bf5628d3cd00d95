"""Backup of the state directory: Pulumi state, its passphrase, and the keys, secrets and reports of every stack, in one file."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.operations.state import files as state_files

SCHEMA: Final = "rackwright.backup/1"

_CONTENTS: Final = PurePosixPath("backup.json")
"""The archive's first member: the list of stacks in the backup."""


@dataclass(frozen=True)
class StackContents:
    """The part of a backup that belongs to one stack."""

    stack: str
    state: bool
    """Whether the backup includes the Pulumi state; false if the stack uses another backend."""
    folder: bool
    """Whether the backup includes keys, secrets and reports."""
    files: int
    places: tuple[str, str]
    """The stack's folder and its socket folder when the backup was created; the ssh files contain both paths."""


def pack(target: Path) -> list[StackContents]:
    """Write the backup with mode 0600, completely or not at all, and return its contents by stack.

    Raises InputError if the target exists or there is nothing to back up.
    """
    if os.path.lexists(target):
        raise file_exists_error(target)
    if not target.parent.is_dir():
        raise InputError("folder does not exist", path=str(target.parent), hint=f"run `mkdir -p {target.parent}`")
    stacks = state_files.stacks()
    if not stacks:
        raise InputError(
            "state directory has no stacks to back up", path=str(paths.home()), hint="set RACKWRIGHT_HOME to use another state directory"
        )
    with state_files.locked(stacks), state_files.translate_os_errors(str(target), "cannot write the backup"):
        files = state_files.files()
        contents = [_contents_of(stack, files) for stack in stacks]
        _write(target, files, json.dumps({"schema": SCHEMA, "stacks": [asdict(entry) for entry in contents]}, indent=2).encode())
    return contents


def unpack(source: Path, *, force: bool) -> list[StackContents]:
    """Restore a backup into the state directory and return its contents by stack. Replace existing stacks only with `force`."""
    if not source.is_file():
        raise InputError("file does not exist", path=str(source), hint="run `rackwright state backup FILE` to create a backup")
    with state_files.translate_os_errors(str(source), "cannot restore the backup"):
        engine = paths.engine_passphrase().parent
        for folder in (paths.home(), engine):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="restore-", dir=engine) as name:
            staging = Path(name)
            contents = _extract(source, staging)
            with state_files.locked(entry.stack for entry in contents):
                _refuse_to_lose(staging, {entry.stack for entry in contents}, force=force)
                _place(staging, contents)
    return contents


def _contents_of(stack: str, files: list[PurePosixPath]) -> StackContents:
    own = [path for path in files if state_files.stack_of(path) == stack]
    places = (str(paths.folder(stack)), str(paths.socket_folder(stack)))
    return StackContents(stack, any(map(state_files.is_state, own)), any(path.parts[0] == stack for path in own), len(own), places)


def _write(target: Path, files: list[PurePosixPath], contents: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # 0600
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with tarfile.open(fileobj=raw, mode="w:gz") as archive:
                _add(archive, _CONTENTS, contents)
                for path in files:
                    _add(archive, path, (paths.home() / path).read_bytes())
            raw.flush()
            os.fsync(raw.fileno())
        rename_noreplace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, path: PurePosixPath, content: bytes) -> None:
    member = tarfile.TarInfo(str(path))
    member.size, member.mode = len(content), 0o600
    archive.addfile(member, BytesIO(content))


def rename_noreplace(draft: Path, target: Path) -> None:
    """Rename the draft to its final name; raise InputError if the name exists.

    A hard link fails if the name exists. File systems without hard links, as on USB sticks, get a check and a rename.
    """
    try:
        target.hardlink_to(draft)
    except OSError:
        if os.path.lexists(target):
            raise file_exists_error(target) from None
        draft.rename(target)


def file_exists_error(target: Path) -> InputError:
    return InputError("file exists, and backups are never overwritten", path=str(target), hint="choose another name, or delete the file")


def _extract(source: Path, staging: Path) -> list[StackContents]:
    """Unpack into an empty folder and compare the files with the archive's own list. Change nothing else."""
    try:
        with gzip.open(source) as raw:
            with tarfile.open(fileobj=raw, mode="r|") as archive:
                for member in archive:
                    _extract_member(source, archive, member, staging)
            while raw.read(2**20):
                pass  # gzip verifies the checksum only at the end of the stream
        contents = _contents(staging)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, LookupError, TypeError) as fault:
        raise _no_backup(source, f"not a rackwright backup, or an incomplete one ({fault})") from None
    found = [PurePosixPath(file.relative_to(staging)) for file in staging.rglob("*") if file.is_file()]
    counted = {entry.stack: sum(state_files.stack_of(path) == entry.stack for path in found) for entry in contents}
    if counted != {entry.stack: entry.files for entry in contents} or {state_files.stack_of(path) for path in found} - {None, *counted}:
        raise _no_backup(source, f"files do not match the list in {_CONTENTS}")
    return contents


def _extract_member(source: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, staging: Path) -> None:
    """Extract one member, which must be a regular file with a path that the state directory uses."""
    path = PurePosixPath(member.name)
    content = archive.extractfile(member) if member.isreg() else None
    if content is None or str(path) != member.name or not (path == _CONTENTS or state_files.is_backed_up(path)):
        raise _no_backup(source, f"contains `{member.name}`, which is not part of a rackwright backup")
    _folder(staging, path)
    with open(os.open(staging / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)


def _contents(staging: Path) -> list[StackContents]:
    if not (staging / _CONTENTS).is_file():
        raise ValueError(f"{_CONTENTS} is missing")
    listed = json.loads((staging / _CONTENTS).read_bytes())
    (staging / _CONTENTS).unlink()
    if listed["schema"] != SCHEMA:
        raise ValueError(f"unsupported format: expected {SCHEMA}, found {listed['schema']}")
    return [StackContents(**{**entry, "places": (str(entry["places"][0]), str(entry["places"][1]))}) for entry in listed["stacks"]]


def _no_backup(source: Path, cause: str) -> InputError:
    return InputError(cause, path=str(source), hint="use a file that `rackwright state backup` wrote; nothing was restored")


def _refuse_to_lose(staging: Path, names: set[str], *, force: bool) -> None:
    taken = sorted(names.intersection(state_files.stacks()))
    if taken and not force:
        hint = "pass `--force` to replace their state, keys and reports, or set RACKWRIGHT_HOME to another state directory"
        raise InputError(f"state directory already contains {', '.join(taken)}", path=str(paths.home()), hint=hint)
    others = sorted(set(state_files.stacks_with_state()) - names)
    here, there = paths.engine_passphrase(), staging / ".engine" / "passphrase"
    if others and here.is_file() and there.is_file() and here.read_bytes() != there.read_bytes():
        cause = f"the backup has a different passphrase; restoring it would make the secrets of {', '.join(others)} unreadable"
        raise InputError(cause, path=str(here), hint="set RACKWRIGHT_HOME to restore into another state directory")


def _place(staging: Path, entries: list[StackContents]) -> None:
    """Move the files into the state directory: passphrase, state, folders.

    If the process is killed in between, the same command with `--force` completes the restore.
    """
    home, names = paths.home(), {entry.stack for entry in entries}
    for entry in entries:
        _replace_paths(staging, entry)
    for path in state_files.files():
        if state_files.stack_of(path) in names:
            (home / path).unlink()
    for path in sorted(PurePosixPath(file.relative_to(staging)) for file in staging.rglob("*") if file.is_file()):
        _folder(home, path)
        (staging / path).replace(home / path)
    for entry in entries:
        if paths.folder(entry.stack).is_dir():
            paths.prepare(entry.stack)


def _replace_paths(staging: Path, entry: StackContents) -> None:
    """Replace the folder paths in the ssh files and the inventory: they name the state directory that the backup was created in."""
    here = (str(paths.folder(entry.stack)), str(paths.socket_folder(entry.stack)))
    for name in (paths.ssh_config(entry.stack).name, paths.inventory(entry.stack).name):
        file = staging / entry.stack / name
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            for old, new in zip(entry.places, here, strict=True):
                text = text.replace(f"{old}/", f"{new}/")
            file.write_text(text, encoding="utf-8")


def _folder(root: Path, path: PurePosixPath) -> None:
    """Create the folders above a file with mode 0700."""
    for parent in reversed(path.parents):
        (root / parent).mkdir(mode=0o700, exist_ok=True)
