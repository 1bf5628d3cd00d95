"""A real run of Ansible with Mitogen says what it waits for."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from rackwright import layout
from rackwright.drivers import ansible

CLOUD_INIT = """#!/bin/sh
echo run >> {folder}/runs
if [ "$(wc -l < {folder}/runs)" -lt 2 ]; then echo 'status: running'; else echo 'status: done'; fi
"""


def test_progress_names_the_node_and_cloud_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "cloud-init"
    program.parent.mkdir()
    program.write_text(CLOUD_INIT.format(folder=tmp_path))
    (program.parent / "systemctl").write_text("#!/bin/sh\necho starting\n")
    for file in program.parent.iterdir():
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": {"login0": host}}}))
    task = {"name": "Wait", "rackwright.cluster.wait_until_idle": {"timeout": 60}}
    (tmp_path / "play.yml").write_text(json.dumps([{"name": "Boot", "hosts": "all", "gather_facts": False, "tasks": [task]}]))
    said: list[str] = []

    async def say(text: str) -> None:
        said.append(text)

    played = ansible.play(layout.product_root(), str(tmp_path / "play.yml"), inventory=tmp_path / "inventory.yml", on_progress=say)
    assert asyncio.run(played).reasons == []
    (waits,) = [text for text in said if "waits for" in text]
    assert re.search(r": login0: waits for cloud-init, \d+ s \(running\)$", waits)
