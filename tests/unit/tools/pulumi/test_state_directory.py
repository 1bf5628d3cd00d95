"""The home: where it is, and what its first use makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rackwright.inventory import paths
from rackwright.operations.state import directory
from rackwright.operations.state.directory import StateDirectory


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"RACKWRIGHT_HOME": "/srv/rw"}, "/srv/rw"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/home/a"}, "/x/rackwright"),
        ({"HOME": "/home/a"}, "/home/a/.local/state/rackwright"),
        ({"RACKWRIGHT_HOME": "", "HOME": "/home/a"}, "/home/a/.local/state/rackwright"),
    ],
)
def test_root(environ: dict[str, str], root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert StateDirectory.of(environ).root == root
    for name in ("RACKWRIGHT_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert str(paths.home()) == root, "the shim and the package look for the home in different places"


def test_first_use_makes_private_folders_and_one_passphrase(tmp_path: Path) -> None:
    made = StateDirectory(str(tmp_path / "a" / "rackwright"))
    made.create()
    first = Path(made.passphrase).read_text()
    made.create()
    assert Path(made.passphrase).read_text() == first
    assert len(first.strip()) == 64
    assert os.stat(made.passphrase).st_mode & 0o777 == 0o600
    for folder in (made.root, made.engine, made.state):
        assert os.stat(folder).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(made.engine)) == ["config", "passphrase", "state"]


def test_the_checkouts_link_follows_the_home_but_replaces_nothing_of_the_users(tmp_path: Path) -> None:
    link = tmp_path / directory.LINK
    directory.link(str(tmp_path), StateDirectory("/one"))
    directory.link(str(tmp_path), StateDirectory("/two"))
    assert link.readlink() == Path("/two")
    link.unlink()
    link.mkdir()
    directory.link(str(tmp_path), StateDirectory("/three"))
    assert os.listdir(tmp_path) == [directory.LINK]
    assert link.is_dir()
