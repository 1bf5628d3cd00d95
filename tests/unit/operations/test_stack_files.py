"""What lies in a stack's folder after its inputs were written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rackwright.inventory import paths
from rackwright.operations import stack_files
from rackwright.plan import expand
from rackwright.plan.fabric.svg import picture
from rackwright.stackfile.load import load_stack
from rackwright.targets import program


def inputs(stack: str) -> dict[str, Any]:
    """Converge's inputs for a committed stack whose nodes all exist."""
    cluster = load_stack(paths.stack_file(stack)).cluster
    assert cluster is not None
    plan = expand(cluster, "mine")
    hosts = {node.name: {"address": node.address, "public_key": "ssh-ed25519 AAAA", "instance_uid": node.name} for node in plan.nodes}
    return {"plan": program.serialize_plan(plan), "hosts": hosts, "secrets": {"access_key": "none", "munge_key": "none"}}


def test_a_plan_of_another_version_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    recorded = inputs("lab")
    plan = json.loads(recorded["plan"])
    del plan["rolling"]
    plan["scheduler"]["haste"] = 3
    with pytest.raises(stack_files.PlanVersionError, match=r"was written by another version of rackwright \(2 of its fields differ\)"):
        stack_files.write("mine", {**recorded, "plan": json.dumps(plan)})
    assert not paths.inventory("mine").exists()


def test_the_fabric_s_picture_lies_beside_the_report_as_long_as_there_is_a_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    stack_files.write("mine", inputs("lab"))
    cluster = load_stack(paths.stack_file("lab")).cluster
    assert cluster is not None
    assert paths.fabric_picture("mine").read_text() == picture(expand(cluster, "mine"))
    stack_files.write("mine", inputs("lab-small"))
    assert not paths.fabric_picture("mine").exists()


def test_damaged_file_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    stack_files.write("mine", inputs("lab-small"))
    whole = paths.inventory("mine").read_bytes()
    paths.inventory("mine").write_bytes(b"\xff\xfe\x80\x81")
    stack_files.write("mine", inputs("lab-small"))
    assert paths.inventory("mine").read_bytes() == whole
