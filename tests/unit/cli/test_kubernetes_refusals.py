"""What needs Slurm says so on a stack that runs Kubernetes, before it looks for a node."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from rackwright.cli import main
from rackwright.inventory import paths


@pytest.mark.parametrize(("words", "what"), [(["hardware", "lab", "--in-job"], "--in-job")])
def test_jobs_of_slurm_are_refused(
    words: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    paths.inventory("lab").parent.mkdir(parents=True)
    variables = {"handover": {}, "cluster": {"scheduler": {"kind": "kubernetes"}}}
    paths.inventory("lab").write_text(yaml.safe_dump({"all": {"vars": variables, "children": {}, "hosts": {}}}))
    monkeypatch.setattr(sys, "argv", ["rackwright", *words])
    with pytest.raises(SystemExit) as ended:
        main.app()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"{what} submits its jobs to Slurm (found scheduler Kubernetes)" in said and "--level smoke" in said
