"""What the roles write on each node of three clusters, against the files kept under tests/golden/roles.

`GOLDEN=write` writes them anew, to be reviewed as a difference.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

from rackwright.provider.key_pair import generate

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
GOLDEN = PROJECT / "tests" / "golden" / "roles"
CLUSTERS = sorted(path.stem for path in (HERE / "inventories").glob("*.yml"))


def recorded(cluster: str, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(host, what a module was asked) of every task, in order."""
    folder.mkdir()
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    # What is done with these is not in the record.
    secrets = {"host_keys": {"login0": generate("login0")[1]} if cluster == "aws" else {}, "kubernetes_encryption_key": "a2V5"}
    done = ansible_runner.run(
        private_data_dir=str(folder),
        playbook=str(HERE / "record.yml"),
        inventory=str(HERE / "inventories" / f"{cluster}.yml"),
        extravars={**local, "secrets": secrets},
        cmdline="--check --skip-tags install",  # --check: should the real modules ever run, they must not touch this machine
        envvars={"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "ANSIBLE_STRATEGY": "linear", "PATH": os.environ["PATH"]},
        quiet=True,
    )
    assert done.rc == 0, done.stdout.read()
    for event in done.events:
        result = event.get("event_data", {}).get("res", {})
        if event["event"] == "runner_on_ok" and "recorded" in result:  # the rest checks arguments against their specs
            yield event["event_data"]["host"], result["recorded"]


def write(root: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Writes the contents below `root`; everything else is what the manifest shows."""
    kept = {key: value for key, value in asked.items() if value and key != "files"}
    for file in asked.get("files", []):
        path = root / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.pop("content"), encoding="utf-8")
        kept.setdefault("files", []).append({key: value for key, value in file.items() if value})
    return kept


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nodes_get_what_they_got(cluster: str, tmp_path: Path) -> None:
    manifests: dict[str, list[dict[str, Any]]] = {}
    for host, asked in recorded(cluster, tmp_path / "runner"):
        manifests.setdefault(host, []).append(write(tmp_path / cluster / host, asked))
    for host, manifest in manifests.items():
        (tmp_path / cluster / host / "manifest.yml").write_text(yaml.safe_dump(manifest, sort_keys=False, width=140), encoding="utf-8")
    if os.environ.get("GOLDEN") == "write":
        shutil.rmtree(GOLDEN / cluster, ignore_errors=True)
        shutil.copytree(tmp_path / cluster, GOLDEN / cluster)
    assert tree(tmp_path / cluster) == tree(GOLDEN / cluster)
