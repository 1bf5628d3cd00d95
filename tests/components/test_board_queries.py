"""The queries of all panels by the tools of Prometheus."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rackwright.catalog.boards import RUNS, boards

PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: package prometheus)")
def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    """As recorded rules, because promtool checks expressions in rules only."""
    queries = [*(panel.query(15) for board in boards() for panel in board.panels), *RUNS.values()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "boards", "rules": rules}]}))
    said = subprocess.run([str(PROMTOOL), "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert said.returncode == 0 and f"{len(rules)} rules found" in said.stdout, said.stdout + said.stderr
