"""The program on the node reports arguments, files and texts of the machine that it runs on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cis.items import read_table
from support.hang import wait_until

PROGRAM = Path(__file__).parents[4] / "tools/cis/programs/read_node.py"


def test_program_reports_daemon_files_and_texts(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.key").write_text("secret", encoding="utf-8")
    (tmp_path / "sub/a.key").chmod(0o640)
    (tmp_path / "config.yaml").write_text("port: 0\n", encoding="utf-8")
    keys, none = f"{tmp_path}/**/*.key", f"{tmp_path}/none"
    order = {"daemons": ["cis-daemon", "cis-missing"], "files": [keys, none], "texts": [f"{tmp_path}/*.yaml"]}
    daemon = ["bash", "-c", "exec -a cis-daemon sleep 600"]
    with subprocess.Popen(daemon) as running:
        try:
            wait_until(
                lambda: Path(f"/proc/{running.pid}/cmdline").read_bytes().startswith(b"cis-daemon"), lambda: "the daemon did not start"
            )
            ended = subprocess.run([sys.executable, str(PROGRAM)], input=json.dumps(order), capture_output=True, text=True, check=True)
        finally:
            running.terminate()
    found = json.loads(ended.stdout)
    assert found["arguments"] == {"cis-daemon": ["600"], "cis-missing": None}
    assert [row[0] for row in found["files"][keys]] == [f"{tmp_path}/sub/a.key"]
    assert found["files"][keys][0][3] == "640" and found["files"][none] == []
    assert found["texts"] == {f"{tmp_path}/config.yaml": "port: 0\n"}
    assert "secret" not in ended.stdout


def test_table_reads_no_key() -> None:
    """Patterns of keys are for their modes only."""
    assert any("key" in getattr(item.rule, "pattern", "") for item in read_table().items)
