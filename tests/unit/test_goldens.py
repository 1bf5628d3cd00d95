"""Golden files are compared, written and removed on request, and every folder of them has its test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from goldens import FOLDER, Goldens, compact

OWNERS = {
    "gpu-software": "roles/test_gpu_software.py",
    "inventory": "unit/inventory/test_contract.py",
    "hardware": "unit/hardware/test_document.py",
    "plan": "unit/plan/test_golden.py",
    "roles": "roles/test_golden.py",
    "slurm": "roles/test_slurm_templates.py",
}
"""Folder -> the test that compares each of its files and refuses others."""


def test_every_folder_has_a_test_that_refuses_files_it_does_not_use() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(OWNERS)
    for folder, test in OWNERS.items():
        text = (FOLDER.parent / test).read_text(encoding="utf-8")
        assert f'goldens.check_names("{folder}"' in text or f'goldens.check_folder("{folder}"' in text, test


def test_a_difference_is_shown_and_nothing_is_written_unasked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    with pytest.raises(AssertionError, match=r"-two\n\+three"):
        Goldens(update=False, folder=tmp_path).check("a", "one\nthree\n")
    with pytest.raises(AssertionError, match="b is missing"):
        Goldens(update=False, folder=tmp_path).check("b", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "one\ntwo\n"}


def test_a_file_that_no_test_uses_is_refused_and_removed_on_request(tmp_path: Path) -> None:
    for name in ("kept/a", "kept/old/b"):
        Goldens(update=True, folder=tmp_path).check(name, "text")
    with pytest.raises(AssertionError, match="used by no test: \\['old/b'\\]"):
        Goldens(update=False, folder=tmp_path).check_names("kept", ["a"])
    Goldens(update=True, folder=tmp_path).check_folder("kept", {"a": "other"})
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["kept", "kept/a"]
    assert (tmp_path / "kept/a").read_text() == "other"


def test_compact_json_says_the_same_in_lines_of_bounded_length() -> None:
    data = {"nodes": [{"name": f"worker{index}", "rails": list(range(8)), "none": None} for index in range(9)], "empty": {}, "ü": "x"}
    text = compact(data)
    assert json.loads(text) == data
    assert 1 < len(text.splitlines()) < 20
    assert max(map(len, text.splitlines())) <= 140
