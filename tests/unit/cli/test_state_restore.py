"""`rackwright state restore`: a backup comes back whole or not at all, and nothing is lost or written elsewhere by the way."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli import Run

from rackwright.inventory import paths

from .homes import STATE, contents, go_to, write


def test_there_and_back(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another home: the same files, for their owner alone, and ssh's files lead there."""
    before = contents(home)
    state("backup", tmp_path / "b")
    there = go_to(tmp_path / "there", monkeypatch)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    ended = state("restore", tmp_path / "b")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"{tmp_path}/b: restored to {there}\nstack lab: state, keys and reports\n"
        "  run `pulumi refresh -s lab` to compare the state with the real resources\n"
    )
    after = contents(there)
    config = after.pop("lab/ssh_config")
    assert after == {name: text for name, text in before.items() if name not in ("lab/ssh_config", "lab/.lock")}
    assert config == f"IdentityFile {there}/lab/id_ed25519\nControlPath {paths.socket_folder('lab')}/%n\n"
    assert paths.socket_folder("lab").is_dir() and (there / "lab" / "sockets").readlink() == paths.socket_folder("lab")
    modes = {file.stat().st_mode & 0o777 for file in there.rglob("*") if not file.is_symlink()}
    assert modes == {0o600, 0o700} and there.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in there.rglob("*") if file.is_file()} == {0o600}


def test_a_state_alone_brings_no_folder(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rackwright status` takes a folder for a stack that is up."""
    shutil.rmtree(home / "lab")
    state("backup", tmp_path / "b")
    there = go_to(tmp_path / "there", monkeypatch)
    assert state("restore", tmp_path / "b").code == 0
    assert sorted(file.name for file in there.iterdir()) == [".engine"]


def test_a_stack_that_is_there_is_not_replaced(state: Run, home: Path, tmp_path: Path) -> None:
    """Be it the state or only the folder that is left of it."""
    state("backup", tmp_path / "b")
    for name in (f"{STATE}/stacks/rackwright/lab.json", "lab/id_ed25519", "lab/ssh_config"):
        write(home, "lab/id_ed25519", "a newer key")
        before = contents(home)
        ended = state("restore", tmp_path / "b")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"{home}: state directory already contains lab\n  pass `--force` to replace")
        assert contents(home) == before
        (home / name).unlink()


def test_forced_it_is_replaced_and_others_stay(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing newer of the stack survives beside it; results do, and so does the lock that others may wait at."""
    state("backup", tmp_path / "b")
    lock = paths.lock_file("lab").stat().st_ino
    go_to(home, monkeypatch, "other")
    write(home, "lab/results/1.json", "raw")
    before = contents(home)
    for name in ("lab/id_ed25519", "lab/newer", f"{STATE}/stacks/rackwright/lab.json.gz", f"{STATE}/history/rackwright/lab/2.json"):
        write(home, name, "newer")
    assert state("restore", tmp_path / "b", "--force").code == 0
    assert {**contents(home), "lab/.lock": ""} == {**before, "lab/.lock": ""}
    assert paths.lock_file("lab").stat().st_ino == lock


@pytest.mark.parametrize("more", [[], ["--force"]])
def test_another_passphrase_never_locks_out_a_stack(
    state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """A home has one; where nothing hangs on it, it is replaced."""
    state("backup", tmp_path / "b")
    there = go_to(tmp_path / "there", monkeypatch, "other", passphrase="another")
    before = contents(there)
    ended = state("restore", tmp_path / "b", *more)
    assert ended.code == 2
    assert ended.err.startswith(
        f"{there}/.engine/passphrase: the backup has a different passphrase; restoring it would make the secrets of other unreadable\n"
    )
    assert contents(there) == before
    (there / f"{STATE}/stacks/rackwright/other.json").unlink()
    assert state("restore", tmp_path / "b", *more).code == 0
    assert (there / ".engine/passphrase").read_text() == "hush"


def plain(name: str) -> tarfile.TarInfo:
    """A file with nothing in it."""
    return tarfile.TarInfo(name)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A link, device or folder."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


EVIL = [
    plain("/etc/evil"),
    plain("../evil"),
    plain("lab/../../evil"),
    plain(f"{STATE}/stacks/rackwright/../../../../../evil"),
    plain("./lab/evil"),
    plain(".engine/evil"),
    plain(".bashrc"),
    plain("lab"),
    plain("lab/.lock"),
    plain("lab/sockets/evil"),
    plain(f"{STATE}/stacks/other/evil.json"),
    special("lab/evil", tarfile.SYMTYPE, "/etc/passwd"),
    special("lab/evil", tarfile.LNKTYPE, "lab/id_ed25519"),
    special("lab/evil", tarfile.CHRTYPE),
    special("lab/evil", tarfile.FIFOTYPE),
    special("lab/evil", tarfile.DIRTYPE),
]


def rebuilt(source: Path, target: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], object]) -> Path:
    """A copy of a backup with other members."""
    with tarfile.open(source) as archive:
        found = [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    change(found)
    with tarfile.open(target, "w:gz") as archive:
        for member, content in found:
            archive.addfile(member, io.BytesIO(content))
    return target


@pytest.mark.parametrize("member", EVIL, ids=lambda member: f"{member.name}-{member.type.decode()}")
def test_only_the_home_s_own_files_are_unpacked(
    state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: tarfile.TarInfo
) -> None:
    """No path out, no link, no device: the whole archive is refused and nothing is written."""
    state("backup", tmp_path / "b")
    evil = rebuilt(tmp_path / "b", tmp_path / "evil.tar.gz", lambda found: found.append((member, b"")))
    there = go_to(tmp_path / "there", monkeypatch)
    before = sorted(tmp_path.iterdir())
    ended = state("restore", evil, "--force")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"{evil}: contains `{member.name}`, which is not part of a rackwright backup\n"
        "  use a file that `rackwright state backup` wrote; nothing was restored\n"
    )
    assert contents(there) == {}
    assert sorted(tmp_path.iterdir()) == sorted([*before, there])


def edited(text: str) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], object]:
    """Other words in the archive's contents."""

    def change(found: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        member = found[0][0]
        member.size = len(text)
        found[0] = (member, text.encode())

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.pop(0),
        lambda found: found.pop(),
        lambda found: found.append((plain("other/id_ed25519"), b"")),
        edited("{"),
        edited("[]"),
        edited('{"schema": "rackwright.backup/1", "stacks": [{"stack": "lab", "state": true, "files": 4, "places": []}]}'),
    ],
)
def test_a_backup_is_whole_or_refused(
    state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], object]
) -> None:
    """The archive says what is in it."""
    state("backup", tmp_path / "b")
    rebuilt(tmp_path / "b", tmp_path / "bad", change)
    there = go_to(tmp_path / "there", monkeypatch)
    ended = state("restore", tmp_path / "bad")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"{tmp_path}/bad: ") and "nothing was restored" in ended.err
    assert contents(there) == {}


def test_a_later_format_is_named(state: Run, home: Path, tmp_path: Path) -> None:
    """Rather than half understood."""
    state("backup", tmp_path / "b")
    later = rebuilt(tmp_path / "b", tmp_path / "later", edited('{"schema": "rackwright.backup/2", "stacks": []}'))
    assert "unsupported format: expected rackwright.backup/1, found rackwright.backup/2" in state("restore", later, "--force").err


def test_a_file_that_broke_off_is_refused(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it did; nothing is restored of it."""
    state("backup", tmp_path / "b")
    whole = (tmp_path / "b").read_bytes()
    there = go_to(tmp_path / "there", monkeypatch)
    for length in (0, 5, 40, len(whole) // 2, len(whole) - 60, len(whole) - 9):
        (tmp_path / "bad").write_bytes(whole[:length])
        ended = state("restore", tmp_path / "bad")
        assert (ended.code, ended.out) == (2, ""), length
        assert contents(there) == {}, length
    (tmp_path / "bad").write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])
    assert state("restore", tmp_path / "bad").code == 2
    (tmp_path / "bad").write_text("no archive at all")
    assert state("restore", tmp_path / "bad").code == 2
