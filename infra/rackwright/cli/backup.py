"""One file with everything the home must not lose: the engine's state, its passphrase, and the keys, secrets and reports of every stack."""

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

from rackwright.cli import holdings
from rackwright.errors import BadInput
from rackwright.handover import paths

SCHEMA: Final = "rackwright.backup/1"

_CONTENTS: Final = PurePosixPath("backup.json")
"""The archive's first member: what the others are."""


@dataclass(frozen=True)
class Kept:
    """What a backup holds of one stack."""

    stack: str
    state: bool
    """Whether the engine's state is in it; it is not where the stack lives on another backend."""
    folder: bool
    """Whether keys, secrets and reports are in it."""
    files: int
    places: tuple[str, str]
    """The stack's folder and the one of its sockets where the backup was made: ssh's files name them."""


def pack(target: Path) -> list[Kept]:
    """Write the backup, 0600, whole or not at all; what it holds. Never overwrites."""
    if os.path.lexists(target):
        raise exists(target)
    if not target.parent.is_dir():
        raise BadInput("there is no such folder", path=str(target.parent), hint=f"`mkdir -p {target.parent}` makes it")
    stacks = holdings.stacks()
    if not stacks:
        raise BadInput("this home has no stacks to back up", path=str(paths.home()), hint="RACKWRIGHT_HOME chooses another home")
    with holdings.held(stacks), holdings.os_errors_told(str(target), "the backup could not be written"):
        files = holdings.files()
        kept = [_kept(stack, files) for stack in stacks]
        _write(target, files, json.dumps({"schema": SCHEMA, "stacks": [asdict(entry) for entry in kept]}, indent=2).encode())
    return kept


def unpack(source: Path, *, force: bool) -> list[Kept]:
    """Put a backup into the home; what it held. Without `force` nothing that is there is replaced."""
    if not source.is_file():
        raise BadInput("there is no such file", path=str(source), hint="`rackwright state backup FILE` writes one")
    with holdings.os_errors_told(str(source), "the backup could not be restored"):
        engine = paths.engine_passphrase().parent
        for folder in (paths.home(), engine):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="restore-", dir=engine) as name:
            staging = Path(name)
            kept = _extract(source, staging)
            with holdings.held(entry.stack for entry in kept):
                _refuse_to_lose(staging, {entry.stack for entry in kept}, force=force)
                _place(staging, kept)
    return kept


def _kept(stack: str, files: list[PurePosixPath]) -> Kept:
    own = [path for path in files if holdings.stack_of(path) == stack]
    places = (str(paths.folder(stack)), str(paths.socket_folder(stack)))
    return Kept(stack, any(map(holdings.is_state, own)), any(path.parts[0] == stack for path in own), len(own), places)


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
        publish(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, path: PurePosixPath, content: bytes) -> None:
    member = tarfile.TarInfo(str(path))
    member.size, member.mode = len(content), 0o600
    archive.addfile(member, BytesIO(content))


def publish(draft: Path, target: Path) -> None:
    """Give the draft its name. A link fails where the name is taken; file systems of USB sticks have no links."""
    try:
        target.hardlink_to(draft)
    except OSError:
        if os.path.lexists(target):
            raise exists(target) from None
        draft.rename(target)


def exists(target: Path) -> BadInput:
    return BadInput("exists already, and no backup is overwritten", path=str(target), hint="choose another name, or remove that file")


def _extract(source: Path, staging: Path) -> list[Kept]:
    """Unpack into an empty folder and compare with the archive's own contents; nothing else is touched."""
    try:
        with gzip.open(source) as raw:
            with tarfile.open(fileobj=raw, mode="r|") as archive:
                for member in archive:
                    _take(source, archive, member, staging)
            while raw.read(2**20):
                pass  # only at its end gzip compares the checksum
        kept = _contents(staging)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, LookupError, TypeError) as fault:
        raise _no_backup(source, f"is no backup of rackwright, or not a whole one ({fault})") from None
    found = [PurePosixPath(file.relative_to(staging)) for file in staging.rglob("*") if file.is_file()]
    counted = {entry.stack: sum(holdings.stack_of(path) == entry.stack for path in found) for entry in kept}
    if counted != {entry.stack: entry.files for entry in kept} or {holdings.stack_of(path) for path in found} - {None, *counted}:
        raise _no_backup(source, "does not hold the files that its own contents name")
    return kept


def _take(source: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, staging: Path) -> None:
    """One member, which must be a plain file with a place in the home."""
    path = PurePosixPath(member.name)
    content = archive.extractfile(member) if member.isreg() else None
    if content is None or str(path) != member.name or not (path == _CONTENTS or holdings.belongs(path)):
        raise _no_backup(source, f"holds `{member.name}`, which is nothing that a backup of rackwright has")
    _folder(staging, path)
    with open(os.open(staging / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)


def _contents(staging: Path) -> list[Kept]:
    if not (staging / _CONTENTS).is_file():
        raise ValueError(f"it has no {_CONTENTS}")
    told = json.loads((staging / _CONTENTS).read_bytes())
    (staging / _CONTENTS).unlink()
    if told["schema"] != SCHEMA:
        raise ValueError(f"its format is {told['schema']}, and this version reads {SCHEMA}")
    return [Kept(**{**entry, "places": (str(entry["places"][0]), str(entry["places"][1]))}) for entry in told["stacks"]]


def _no_backup(source: Path, cause: str) -> BadInput:
    return BadInput(cause, path=str(source), hint="nothing was restored; use a file that `rackwright state backup` wrote")


def _refuse_to_lose(staging: Path, names: set[str], *, force: bool) -> None:
    taken = sorted(names.intersection(holdings.stacks()))
    if taken and not force:
        hint = "`--force` replaces their state, keys and reports by the backup's; RACKWRIGHT_HOME chooses another home"
        raise BadInput(f"this home has its own {', '.join(taken)}", path=str(paths.home()), hint=hint)
    others = sorted(set(holdings.stacks_with_state()) - names)
    here, there = paths.engine_passphrase(), staging / ".engine" / "passphrase"
    if others and here.is_file() and there.is_file() and here.read_bytes() != there.read_bytes():
        cause = f"the backup brings another passphrase, and nobody could read {', '.join(others)} any more"
        raise BadInput(cause, path=str(here), hint="restore into another home: RACKWRIGHT_HOME chooses it")


def _place(staging: Path, kept: list[Kept]) -> None:
    """Move the files home: passphrase, state, folders. Killed in between, the same command with `--force` completes it."""
    home, names = paths.home(), {entry.stack for entry in kept}
    for entry in kept:
        _readdress(staging, entry)
    for path in holdings.files():
        if holdings.stack_of(path) in names:
            (home / path).unlink()
    for path in sorted(PurePosixPath(file.relative_to(staging)) for file in staging.rglob("*") if file.is_file()):
        _folder(home, path)
        (staging / path).replace(home / path)
    for entry in kept:
        if paths.folder(entry.stack).is_dir():
            paths.prepare(entry.stack)


def _readdress(staging: Path, entry: Kept) -> None:
    """ssh's files name folders of the home the backup was made in; here they lie elsewhere."""
    here = (str(paths.folder(entry.stack)), str(paths.socket_folder(entry.stack)))
    for name in (paths.ssh_config(entry.stack).name, paths.inventory(entry.stack).name):
        file = staging / entry.stack / name
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            for old, new in zip(entry.places, here, strict=True):
                text = text.replace(f"{old}/", f"{new}/")
            file.write_text(text, encoding="utf-8")


def _folder(root: Path, path: PurePosixPath) -> None:
    """The folders above a file, for its owner alone."""
    for parent in reversed(path.parents):
        (root / parent).mkdir(mode=0o700, exist_ok=True)
