"""What all collectors share: the file, its rights, and what remains of a failed reading."""

from __future__ import annotations

import importlib
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .conftest import FILES, series

SHARED = ("rank_series", "rackwright")
"""Modules beside the programs; test_jobs.py imports them as a node does, without the package of this project."""


@pytest.fixture
def library() -> ModuleType:
    return importlib.import_module("rackwright_metrics")


def run(library: ModuleType, folder: Path, collect: Any, configuration: str = "{}") -> int:
    (folder / "metrics.json").write_text(configuration)
    return int(library.run("slurm", collect, str(folder), str(folder / "metrics.json")))


@pytest.mark.parametrize("text", ["plain", 'quote " and \\ backslash', "line\nbreak", "\udcff no UTF-8", "{braces},=", "ünïcode"])
def test_label_values_are_read_back(library: ModuleType, text: str) -> None:
    samples = library.Samples()
    samples.set("a", 1, label=text)
    from prometheus_client.parser import text_string_to_metric_families

    (family,) = text_string_to_metric_families(samples.text())
    assert family.samples[0].labels["label"] == text.encode("utf-8", "replace").decode()


def test_equal_series_is_written_once(library: ModuleType) -> None:
    samples = library.Samples()
    samples.set("a", 1, x="1", y="2")
    samples.set("a", 2, y="2", x="1")
    assert series(samples.text()) == {'a{x="1",y="2"}': 2}


def test_metric_has_one_help_and_its_series_together(library: ModuleType) -> None:
    """node_exporter refuses a file in which the series of a metric are apart."""
    samples = library.Samples()
    samples.describe("a", "what a is")
    samples.set("a", 1, x="1")
    samples.set("b", 0.5)
    samples.set("a", True, x="2")
    lines = samples.text().splitlines()
    assert lines == ["# HELP a what a is", "# TYPE a gauge", 'a{x="1"} 1', 'a{x="2"} 1', "# HELP b b", "# TYPE b gauge", "b 0.5"]


@pytest.mark.parametrize(
    ("error", "status"), [pytest.param("CollectError", 0, id="tool-is-down"), pytest.param("KeyError", 1, id="defect-of-program")]
)
def test_failed_reading_replaces_last_good_file(library: ModuleType, tmp_path: Path, error: str, status: int) -> None:
    def good(_: Any, samples: Any) -> None:
        samples.set("slurm_nodes", 4)

    def bad(_: Any, samples: Any) -> None:
        samples.set("slurm_nodes", 4)
        raise getattr(library, error, KeyError)("gone")

    assert run(library, tmp_path, good) == 0
    assert series((tmp_path / "slurm.prom").read_text())["slurm_nodes"] == 4
    assert run(library, tmp_path, bad) == status
    left = series((tmp_path / "slurm.prom").read_text())
    assert left['rackwright_collector_success{collector="slurm"}'] == 0
    assert "slurm_nodes" not in left


def test_missing_configuration_is_reported(library: ModuleType, tmp_path: Path) -> None:
    assert library.run("slurm", lambda *_: None, str(tmp_path), str(tmp_path / "none.json")) == 1
    assert series((tmp_path / "slurm.prom").read_text())['rackwright_collector_success{collector="slurm"}'] == 0


def test_file_is_not_readable_by_users(library: ModuleType, tmp_path: Path) -> None:
    run(library, tmp_path, lambda *_: None)
    assert stat.S_IMODE((tmp_path / "slurm.prom").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.glob("slurm*")] == ["slurm.prom"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        pytest.param(["sh", "-c", "echo broken >&2; exit 3"], "sh ended with status 3: broken", id="status"),
        pytest.param(["sh", "-c", "exit 3"], "sh ended with status 3: no message", id="status-without-message"),
        pytest.param(["no-such-program"], "no-such-program: No such file or directory", id="missing"),
        pytest.param(["sleep", "5"], "sleep did not answer within 0.2 s", id="hanging"),
    ],
)
def test_command_without_answer(library: ModuleType, monkeypatch: pytest.MonkeyPatch, command: list[str], reason: str) -> None:
    monkeypatch.setattr(library, "PATIENCE", 0.2)
    with pytest.raises(library.CollectError, match=reason):
        library.output_of(command)


def test_programs_import_what_nodes_have() -> None:
    import ast

    for file in FILES.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = (
                [node.module]
                if isinstance(node, ast.ImportFrom)
                else [one.name for one in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                assert str(name).split(".")[0] in {*sys.stdlib_module_names, "rackwright_metrics", *SHARED}, (file.name, name)
