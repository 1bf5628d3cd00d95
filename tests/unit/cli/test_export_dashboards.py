"""`rackwright export dashboards`: one file for each board of a stack file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def once(*arguments: str | Path) -> CliResult:
        return run_cli(monkeypatch, capsys, "export", "dashboards", *map(str, arguments))

    return once


def test_dashboards_are_written_without_a_running_stack(export: Run, tmp_path: Path) -> None:
    found = export("lab-monitoring", "--to", tmp_path / "boards", "--json")
    names = [f"lab-monitoring-{name}.json" for name in ("fleet", "node", "gpu", "fabric", "slurm", "storage", "rackwright")]
    files = [str(tmp_path / "boards" / name) for name in names]
    assert found.code == 0 and json.loads(found.out) == {"schema": "rackwright.export/1", "stack": "lab-monitoring", "files": files}
    assert sorted(path.name for path in (tmp_path / "boards").iterdir()) == sorted(names)
    gpu = json.loads((tmp_path / "boards" / names[2]).read_text())
    assert gpu["title"] == "lab-monitoring: GPUs" and "stack=" not in json.dumps(gpu["panels"])
    assert export("lab-monitoring", "--to", tmp_path / "boards").out.split() == files


def test_prometheus_of_the_site_is_queried_for_one_stack(export: Run, tmp_path: Path) -> None:
    assert export("lab-monitoring-external", "--to", tmp_path).code == 0
    board = json.loads((tmp_path / "lab-monitoring-external-rackwright.json").read_text())
    queries = [panel["targets"][0]["expr"] for panel in board["panels"]]
    assert queries and all('stack="lab-monitoring-external"' in query for query in queries)
    assert not [query for query in queries if "prometheus_" in query or "alertmanager_" in query]


def test_stack_without_monitoring_is_refused(export: Run, tmp_path: Path) -> None:
    found = export("lab", "--to", tmp_path)
    assert found.code == 2 and "stack lab: has no monitoring" in found.err and not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_refused(export: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = export("lab-monitoring", "--to", tmp_path / "file")
    assert found.code == 2 and f"{tmp_path / 'file'}: cannot be written: File exists" in found.err
