"""The home: where everything lies, and who may read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.operations.state.directory import StateDirectory


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RACKWRIGHT_HOME": "/data/rw", "XDG_STATE_HOME": "/x", "HOME": "/home/a"}, "/data/rw"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/home/a"}, "/x/rackwright"),
        ({"XDG_STATE_HOME": "", "HOME": "/home/a"}, "/home/a/.local/state/rackwright"),
        ({"RACKWRIGHT_HOME": "", "HOME": "/home/a"}, "/home/a/.local/state/rackwright"),
        ({"RACKWRIGHT_HOME": "~/rw", "HOME": "/home/a"}, "/home/a/rw"),
    ],
)
def test_the_home_is_where_the_environment_says(environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the shim, which cannot afford this module's imports, looks in the same place."""
    for name in ("RACKWRIGHT_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(paths.home()) == expected
    shim = StateDirectory.of(os.environ)
    assert shim.root == expected
    assert (shim.state, shim.passphrase) == (str(paths.engine_state()), str(paths.engine_passphrase()))
    assert shim.stack("lab") == str(paths.folder("lab"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a runtime folder of this test's own."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path / "home"


def test_prepared_folders_are_their_owners_alone(home: Path) -> None:
    """Keys and secrets lie there; an existing folder that is open to others is closed."""
    (home / "lab").mkdir(parents=True, mode=0o755)
    for _ in range(2):
        assert paths.prepare("lab") == home / "lab"
    for folder in (home, home / "lab", home / "lab" / "results", paths.socket_folder("lab")):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert (home / "lab" / "sockets").resolve() == paths.socket_folder("lab")


def test_a_socket_folder_somebody_else_put_there_is_refused(home: Path, tmp_path: Path) -> None:
    """Every user can create it in /tmp; sockets in it would give access to every node."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "run").mkdir()
    paths.socket_folder("lab").symlink_to(tmp_path / "theirs")
    with pytest.raises(RackwrightError, match="not a folder of this user"):
        paths.prepare("lab")


def test_control_sockets_stay_below_the_path_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However deep the home is, and however long the node's name."""
    monkeypatch.setenv("RACKWRIGHT_HOME", "/very" * 40)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert len(str(paths.socket_folder("lab") / ("n" * 63))) <= paths.SOCKET_PATH_LIMIT


def test_stacks_have_socket_folders_of_their_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also two stacks of one name in two homes."""
    mine = {paths.socket_folder("lab"), paths.socket_folder("lab-small")}
    monkeypatch.setenv("RACKWRIGHT_HOME", str(home.parent / "other"))
    assert paths.socket_folder("lab") not in mine
    assert len(mine) == 2


def test_the_project_is_found_from_the_package() -> None:
    """The provider starts in any working directory."""
    assert (paths.project_root() / "Pulumi.yaml").is_file()
    assert paths.stack_file("lab").is_file()
