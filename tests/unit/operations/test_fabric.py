"""The comparison of a discovered fabric with the plan, as a function."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from support.fabric_text import adapter, link, switch

from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.model.finding import Finding
from rackwright.operations.fabric import compare_fabric, plan_with_fabric

UNKNOWN = link(adapter(0xFC6A1C0300000001, "HCA-1"), 1, switch(0xFC6A1C0300000002, "MF0;unmanaged"), 1)


def ignore(_: Finding) -> None:
    """Show nothing."""


def test_cables_that_are_not_discovered_differ(tmp_path: Path) -> None:
    file = tmp_path / "fabric.txt"
    file.write_text(UNKNOWN)
    found = compare_fabric("lab", str(file), ignore)
    assert (found.stack, found.cables, found.source) == ("lab", 81, str(file))
    assert {one.kind.value for one in found.differences} >= {"missing"} and len(found.differences) >= found.cables


def test_comparison_with_unidentified_devices_is_incomplete(tmp_path: Path) -> None:
    """The plan of real hardware has no GUIDs."""
    file = tmp_path / "fabric.txt"
    file.write_text(link(adapter(0xFC6A1C0300000001, "worker0 mlx5_3"), 1, switch(0xFC6A1C0300000002, ""), 1))
    found = compare_fabric("rack-h100", str(file), ignore)
    assert not found.is_complete
    with pytest.raises(UndeterminedError, match="neither a name nor a GUID of the plan") as undetermined:
        found.require_complete()
    assert undetermined.value.path == str(file) and "--node-name-map" in undetermined.value.hint


def test_standard_input_is_read_for_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(UNKNOWN))
    assert compare_fabric("lab", "-", ignore).source == "-"


def test_empty_output_is_undetermined(tmp_path: Path) -> None:
    file = tmp_path / "fabric.txt"
    file.write_text("")
    with pytest.raises(UndeterminedError, match="contains no link"):
        compare_fabric("lab", str(file), ignore)


def test_invalid_node_name_map_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fabric.txt"
    file.write_text(UNKNOWN)
    with pytest.raises(InputError, match="is not a line of a node-name map"):
        compare_fabric("lab", str(file), ignore, node_name_map=str(file))


def test_stack_without_fabric_is_refused_before_file_is_read() -> None:
    with pytest.raises(InputError, match="stack lab-small has no fabric"):
        compare_fabric("lab-small", "/no/such/file", ignore)


def test_warnings_of_stack_file_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.lab.yaml"
    file.write_text(paths.stack_file("lab").read_text(encoding="utf-8").replace("127.0.0.1", "0.0.0.0"))
    warnings: list[Finding] = []
    assert plan_with_fabric(str(file), warnings.append).stack == "lab"
    assert [finding.path for finding in warnings] == ["access.bind_address"]
