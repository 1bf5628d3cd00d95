"""`rackwright export monitoring`: what it writes, with which modes, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.monitored import inventory_of

from rackwright.cli import main
from rackwright.inventory import paths

EXTERNAL: dict[str, Any] = {"kind": "external", "sources": ["192.0.2.10/32"]}
CLIENT = {"authority": "PEM", "names": ["prom"], "certificate_file": "/etc/p/client.crt", "key_file": "/etc/p/client.key"}
SECRETS = {"authority": "authority\n", "client": {"certificate": "certificate\n", "private_key": "the key\n"}, "servers": {}}


class Stack:
    """A stack that is up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        paths.inventory("small").parent.mkdir(parents=True)
        paths.secrets("small").write_text(yaml.safe_dump({"secrets": {"monitoring": SECRETS}}))

    def export(self, declared: dict[str, Any] | None, *words: str) -> tuple[object, str, str]:
        paths.inventory("small").write_text(json.dumps(inventory_of(monitoring=declared)))
        self.monkeypatch.setattr(sys, "argv", ["rackwright", "export", "monitoring", "small", *words])
        with pytest.raises(SystemExit) as ended:
            main.app()
        return (ended.value.code, *self.capsys.readouterr())


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stack:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    return Stack(monkeypatch, capsys)


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


PUBLIC = {"targets.json", "prometheus-scrape.yml", "prometheus-rules.yml", "alertmanager-snippet.yml", "authority.crt"}


def test_files_without_a_secret_are_written(stack: Stack, tmp_path: Path) -> None:
    code, out, _ = stack.export(EXTERNAL, "--to", str(tmp_path / "new" / "folder"))
    folder = tmp_path / "new" / "folder"
    assert code == 0 and contents(folder) == PUBLIC and str(folder / "targets.json") in out
    assert not [path for path in folder.iterdir() if "the key" in path.read_text()]


def test_client_key_is_written_on_request_and_private(stack: Stack, tmp_path: Path) -> None:
    code, out, _ = stack.export(EXTERNAL, "--to", str(tmp_path / "f"), "--with-client-key")
    assert code == 0 and contents(tmp_path / "f") == PUBLIC | {"client.crt", "client.key"}
    assert (tmp_path / "f" / "client.key").stat().st_mode & 0o777 == 0o600
    assert "is a secret" in out and "the key\n" not in out.splitlines()


def test_http_discovery_and_json(stack: Stack, tmp_path: Path) -> None:
    code, out, _ = stack.export(EXTERNAL, "--to", str(tmp_path / "f"), "--http-sd-url", "https://s.example.org/targets.json", "--json")
    found = json.loads(out)
    assert code == 0 and found["schema"] == "rackwright.export/1" and found["stack"] == "small"
    assert {Path(path).name for path in found["files"]} == PUBLIC | {"prometheus-scrape-http.yml"}


@pytest.mark.parametrize(
    ("declared", "words", "said"),
    [
        pytest.param({"kind": "builtin"}, [], "no Prometheus of the site reads it", id="builtin"),
        pytest.param(None, [], "no Prometheus of the site reads it", id="no-monitoring"),
        pytest.param({**EXTERNAL, "client": CLIENT}, ["--with-client-key"], "client certificate of the site", id="key-of-the-site"),
        pytest.param(EXTERNAL, ["--http-sd-url", "targets.json"], "is no URL", id="no-url"),
    ],
)
def test_refused_export_writes_nothing(stack: Stack, tmp_path: Path, declared: Any, words: list[str], said: str) -> None:
    code, _, error = stack.export(declared, "--to", str(tmp_path / "f"), *words)
    assert code == 2 and said in error
    assert not (tmp_path / "f").exists()


def test_stack_without_certificates_is_refused(stack: Stack, tmp_path: Path) -> None:
    paths.secrets("small").write_text(yaml.safe_dump({"secrets": {}}))
    code, _, error = stack.export(EXTERNAL, "--to", str(tmp_path / "f"))
    assert code == 2 and "run `rackwright up small`" in error


def test_folder_that_is_a_file_is_refused(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    code, _, error = stack.export(EXTERNAL, "--to", str(tmp_path / "f"))
    assert code == 2 and "cannot be written" in error
