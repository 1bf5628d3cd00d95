"""Files of results on a node: replaced at once, readable by the group of the folder, and no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.remote.programs import result_metrics


def test_files_are_replaced_and_readable_by_group(tmp_path: Path) -> None:
    (tmp_path / "results-verify.prom").write_text("old")
    assert result_metrics.main({"files": {"verify": "up 1\n", "drift": ""}}, str(tmp_path)) == ["results-verify.prom", "results-drift.prom"]
    assert (tmp_path / "results-verify.prom").read_text() == "up 1\n"
    assert {path.name for path in tmp_path.iterdir()} == {"results-verify.prom", "results-drift.prom"}, "nothing is left beside them"
    assert (tmp_path / "results-verify.prom").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "results-verify.prom").stat().st_gid == tmp_path.stat().st_gid


@pytest.mark.parametrize("name", ["../units", "units.prom", "", "Verify"])
def test_name_that_is_no_result_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a results file"):
        result_metrics.main({"files": {name: "up 1\n"}}, str(tmp_path))
    assert not any(tmp_path.iterdir())


def test_node_without_exporter_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="does not exist: node_exporter is not configured on this node"):
        result_metrics.main({"files": {"verify": ""}}, str(tmp_path / "absent"))
