"""The token of `rackwright runner`: from where it comes, what is refused, and that no message quotes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.drivers import ansible, ssh_connections
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import Host, inventory, paths
from rackwright.operations import runner as operations
from rackwright.operations.runner import TOKEN_ENV, read_token
from rackwright.plan import expand
from rackwright.stackfile.load import load_stack

from .conftest import ignore_progress

TOKEN = "AAEXAMPLETOKEN"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a private file with a token."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    return tmp_path / "token"


def test_file_takes_precedence(file: Path) -> None:
    assert read_token(file, {TOKEN_ENV: "other"}, "register") == TOKEN
    assert read_token(None, {TOKEN_ENV: f" {TOKEN}\n"}, "register") == TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_file_of_others_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(InputError, match=f"expected mode 0600, found {mode:04o}") as refused:
        read_token(file, {}, "register")
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("text", ["two words", f"{TOKEN}\n{TOKEN}", "x" * 2000, "tök"])
def test_what_is_no_token_is_not_quoted(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match="is not a token") as refused:
        read_token(file, {}, "register")
    assert text not in str(refused.value)


@pytest.mark.parametrize(("action", "words"), [("register", "New self-hosted runner"), ("remove", "the runner's menu, Remove")])
def test_missing_token_says_where_to_create_it(action: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_token(None, {}, action)


def test_missing_file_and_empty_file_are_named(file: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_token(file.with_name("other"), {}, "register")
    file.write_text("\n")
    with pytest.raises(InputError, match="holds no token"):
        read_token(file, {}, "register")


def test_memory_file_is_private_and_ends() -> None:
    with operations._in_memory(TOKEN) as path:
        assert Path(path).read_text() == TOKEN
        assert os.stat(path).st_mode & 0o777 == 0o600
    assert not Path(path).exists()


class Playbook:
    """In place of Ansible: records what a playbook is called with."""

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}
        self.result = ansible.PlaybookResult()
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    async def connect(self, *_: object, **__: object) -> dict[str, str]:
        return self.lost

    async def play(self, root: Path, playbook: str, **words: Any) -> ansible.PlaybookResult:
        self.calls.append((playbook, Path(words["values"]["actions_runner_token_file"]).read_text(), words))
        return self.result


@pytest.fixture
def playbook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Playbook:
    """Return the stand-in of Ansible for stack runner-gpu, which is up."""
    cluster = load_stack(paths.stack_file("runner-gpu")).cluster
    assert cluster is not None
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    written = paths.inventory("runner-gpu")
    written.parent.mkdir(parents=True)
    host = Host("runner0", "192.168.30.10", "ssh-ed25519 AAAA", "id")
    written.write_text(yaml.safe_dump(inventory(expand(cluster, "runner-gpu"), {"runner0": host})))
    stand_in = Playbook()
    monkeypatch.setattr(ssh_connections, "connect_all", stand_in.connect)
    monkeypatch.setattr(ansible, "play", stand_in.play)
    return stand_in


def test_playbook_gets_path_and_not_token(playbook: Playbook, monkeypatch: pytest.MonkeyPatch) -> None:
    assert operations.register("runner-gpu", None, ignore_progress) == ("runner0",)
    assert TOKEN_ENV not in os.environ, "the programs that are started inherit it"
    monkeypatch.setenv(TOKEN_ENV, TOKEN)
    assert operations.remove("runner-gpu", None, ignore_progress) == ("runner0",)
    assert [(name, token) for name, token, _ in playbook.calls] == [("register-runner.yml", TOKEN), ("remove-runner.yml", TOKEN)]
    assert all(TOKEN not in repr(words) for _, _, words in playbook.calls)


def test_unreachable_node_stops_before_playbook(playbook: Playbook) -> None:
    playbook.lost = {"runner0": "Connection timed out"}
    with pytest.raises(UndeterminedError, match="runner0: Connection timed out"):
        operations.register("runner-gpu", None, ignore_progress)
    assert playbook.calls == []


def test_failed_playbook_is_reported(playbook: Playbook) -> None:
    playbook.result = ansible.PlaybookResult(status=2, message="config.sh ended with status 1")
    with pytest.raises(RackwrightError, match=r"config\.sh ended with status 1"):
        operations.register("runner-gpu", None, ignore_progress)


def test_stack_without_runner_is_refused(lab: str) -> None:
    with pytest.raises(InputError, match="has no runner"):
        operations.register(lab, None, ignore_progress)
