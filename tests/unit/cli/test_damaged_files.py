"""Files of the state directory that a full disk, a crash or an editor damaged: a command names the file, and no bug is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import run_cli

from rackwright.inventory import paths

INVENTORY = (Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml").read_text(encoding="utf-8")
DAMAGES = {
    "empty": b"",
    "cut": INVENTORY.encode()[: len(INVENTORY) // 2],
    "list": b"[]\n",
    "text": b'"x"\n',
    "mapping": b"{}\n",
    "binary": b"\xff\xfe\x80\x81",
}
READERS_OF_INVENTORY = [
    "inventory lab",
    "ssh lab worker0 true",
    "jobs lab",
    "logs lab",
    "verify lab",
    "acceptance lab",
    "drift lab",
    "hardware lab",
    "monitor lab",
    "rolling-update lab",
    "demo lab train",
    "etcd backup lab FILE",
    "chaos lab --undo",
    "export monitoring lab --to FOLDER",
]
NO_DEFECT = "this is a bug in rackwright"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a stack that is up, as far as its files go."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RACKWRIGHT_TRACEBACK", raising=False)
    monkeypatch.chdir(tmp_path)
    paths.prepare("lab")
    paths.inventory("lab").write_text(INVENTORY, encoding="utf-8")
    return "lab"


@pytest.mark.parametrize("command", READERS_OF_INVENTORY)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_inventory_is_named(
    command: str, damage: str, lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = paths.inventory(lab)
    file.write_bytes(DAMAGES[damage])
    found = run_cli(monkeypatch, capsys, *command.split())
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"{file}: invalid inventory: ") and "pulumi up --refresh" in found.err
    assert NO_DEFECT not in found.err


@pytest.mark.parametrize("damage", ["cut", "list", "binary"])
def test_damaged_drift_history_is_named(damage: str, lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    paths.drift_history(lab).write_bytes(DAMAGES[damage])
    found = run_cli(monkeypatch, capsys, "drift-history", lab)
    assert (found.code, found.out) == (3, "")
    assert found.err.startswith(f"{paths.drift_history(lab)}: the drift history is damaged: ") and "move the file away" in found.err


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_record_of_chaos_is_named(
    damage: str, lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths.chaos(lab).mkdir()
    file = paths.chaos(lab) / "chaos-1.json"
    file.write_bytes(DAMAGES[damage])
    found = run_cli(monkeypatch, capsys, "chaos", lab, "--score")
    assert (found.code, found.out) == (0, "stack lab: no run is on record\n")
    assert found.err.startswith(f"{file}: left out, no record of rackwright.chaos/1: ") and "\n  move the file away" in found.err


@pytest.mark.parametrize(("command", "file"), [("status", paths.report), ("impact", paths.applied)])
def test_folder_in_place_of_record_is_named(
    command: str, file: object, lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place: Path = file(lab)  # type: ignore[operator]
    place.mkdir()
    found = run_cli(monkeypatch, capsys, command, lab)
    assert (found.code, found.out) == (3, "")
    assert f"{place}: cannot be read: Is a directory\n" in found.err
