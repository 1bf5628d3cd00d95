"""Snapshots of etcd at Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rackwright.drivers import ansible, ssh_connections
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.operations.etcd import restore_snapshot, save_snapshot

from .conftest import ignore_progress


@pytest.fixture
def file(lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for a snapshot of a Kubernetes stack whose playbooks are interrupted."""

    async def connect(*_: object, **__: object) -> dict[str, str]:
        return {}

    async def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    scheduler = {"kind": "kubernetes", "controllers": ["login0"]}
    variables = {"handover": {}, "cluster": {"scheduler": scheduler}}
    paths.inventory(lab).write_text(yaml.safe_dump({"all": {"vars": variables, "children": {}, "hosts": {}}}))
    monkeypatch.setattr(ssh_connections, "connect_all", connect)
    monkeypatch.setattr(ansible, "play", interrupt)
    return tmp_path / "snapshot"


def test_interrupted_backup_leaves_no_file(file: Path) -> None:
    before = sorted(file.parent.iterdir())
    with pytest.raises(UndeterminedError, match=r"stack lab: interrupted during etcd-backup\.yml"):
        save_snapshot("lab", file, ignore_progress)
    assert sorted(file.parent.iterdir()) == before


def test_interrupted_restore_is_undetermined(file: Path) -> None:
    file.write_text("snapshot")
    with pytest.raises(UndeterminedError, match=r"stack lab: interrupted during etcd-restore\.yml"):
        restore_snapshot("lab", file, ignore_progress, force=True)
