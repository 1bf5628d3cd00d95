"""The salted copy of a stack file, and the way home."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.stack_file import StackFile

SALT = "v1:c2FsdA==:v1:bm9uY2U=:Y2lwaGVy"
TEXT = "# What it is for.\nconfig:\n  rackwright:cluster:\n    groups: {}\n"


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """A committed stack file."""
    path = tmp_path / "stacks" / "Pulumi.lab.yaml"
    path.parent.mkdir()
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def opened(committed: Path) -> StackFile:
    """The file with its copy beside the stacks folder."""
    return StackFile(str(committed), str(committed.parent.parent / "copy.yaml"))


@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip("\n"), ""])
def test_the_copy_is_the_file_with_the_salt(committed: Path, text: str) -> None:
    committed.write_text(text)
    file = opened(committed)
    file.write_copy(SALT)
    copied = Path(file.copy).read_text()
    assert copied.startswith(text)
    assert copied.splitlines()[-1] == f"encryptionsalt: {SALT}"
    assert Path(file.copy).stat().st_mode & 0o777 == 0o600


def test_a_missing_file_has_a_copy_with_nothing_but_salt(tmp_path: Path) -> None:
    file = opened(tmp_path / "stacks" / "Pulumi.lab.yaml")
    file.write_copy(SALT)
    assert Path(file.copy).read_text() == f"encryptionsalt: {SALT}\n"
    assert file.bring_home() is None
    assert not (tmp_path / "stacks").exists()


def test_an_unchanged_copy_changes_nothing(committed: Path) -> None:
    file = opened(committed)
    file.write_copy(SALT)
    committed.chmod(0o400)
    before = committed.stat().st_mtime_ns
    assert file.bring_home() is None
    assert committed.stat().st_mtime_ns == before


def test_a_change_comes_home_without_the_salt(committed: Path) -> None:
    file = opened(committed)
    file.write_copy(SALT)
    Path(file.copy).write_text(TEXT + f"  rackwright:size: 3\nencryptionsalt: {SALT}\n")
    assert file.bring_home() is None
    assert committed.read_text() == TEXT + "  rackwright:size: 3\n"
    assert committed.stat().st_mode & 0o777 == 0o640


def test_an_edit_made_meanwhile_is_never_overwritten(committed: Path) -> None:
    file = opened(committed)
    file.write_copy(SALT)
    Path(file.copy).write_text(TEXT + f"  rackwright:size: 3\nencryptionsalt: {SALT}\n")
    committed.write_text(TEXT + "  rackwright:size: 4\n")
    complaint = file.bring_home()
    assert complaint is not None
    assert file.copy in complaint
    assert committed.read_text() == TEXT + "  rackwright:size: 4\n"


def test_only_the_states_own_salt_is_dropped(committed: Path) -> None:
    committed.write_text(TEXT + f"encryptionsalt: {SALT}\n")
    opened(committed).drop_salt("v1:another")
    assert "encryptionsalt" in committed.read_text()
    file = opened(committed)
    file.drop_salt(SALT)
    assert committed.read_text() == TEXT
    assert not file.keeps_its_own_secrets


def test_a_file_of_nothing_but_salt_is_removed(committed: Path) -> None:
    committed.write_text(f"encryptionsalt: {SALT}\n")
    opened(committed).drop_salt(SALT)
    assert not committed.exists()


@pytest.mark.parametrize("line", ["encryptionsalt: v1:x", "secretsprovider: awskms://k", "encryptedkey: abc"])
def test_a_users_own_choice_is_seen(committed: Path, line: str) -> None:
    committed.write_text(TEXT + line + "\n")
    assert opened(committed).keeps_its_own_secrets


def test_a_file_rewritten_for_nothing_but_the_salt_is_put_back(committed: Path) -> None:
    file = opened(committed)
    committed.write_text(TEXT.replace("{}", "{ }") + f"encryptionsalt: {SALT}\n")
    file.undo_salting(SALT)
    assert committed.read_text() == TEXT
    committed.write_text(TEXT + "  rackwright:size: 4\n")
    file.undo_salting(SALT)
    assert committed.read_text() == TEXT + "  rackwright:size: 4\n"
