"""rackwright_etcd: snapshots made, refused and put back, against stand-ins for etcd's commands and kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import rackwright_static_pods as static_pods
from ansible.modules import rackwright_etcd as etcd

AUTHORITY = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n"
MANIFEST = """    - --initial-advertise-peer-urls=https://10.1.0.16:2380
    - --initial-cluster=login0=https://10.1.0.16:2380
    - --name=login0
"""
ETCDUTL = """#!/bin/sh
echo "etcdutl $*" >> {folder}/said
case "$2" in
  status) grep -q snapshot "$3" || { echo 'Error: invalid database' >&2; exit 1; }; echo '{"hash": 1, "totalKey": 7}' ;;
  restore) ls {folder}/k/manifests > {folder}/during; mkdir -p {folder}/data/restored/member; cp "$3" {folder}/data/restored/member/db ;;
esac
"""
ETCDCTL = '#!/bin/sh\necho "etcdctl $*" >> {folder}/said\necho snapshot > "$3"\n'
KUBECTL = "#!/bin/sh\n[ ! -e {folder}/silent ] || { echo refused >&2; exit 1; }\n"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A controller in a folder, whose etcd holds `old`."""
    for name, text in (("etcdutl", ETCDUTL), ("etcdctl", ETCDCTL), ("kubectl", KUBECTL)):
        (tmp_path / name).write_text(text.replace("{folder}", str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    for folder in ("k/manifests", "k/pki", "data/member"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data" / "member" / "db").write_text("old")
    (tmp_path / "k" / "pki" / "ca.crt").write_text(AUTHORITY)
    for part in static_pods.PORTS:
        (tmp_path / "k" / "manifests" / f"{part}.yaml").write_text(MANIFEST)
    monkeypatch.setattr(etcd, "FOLDER", str(tmp_path / "k"))
    monkeypatch.setattr(etcd, "DATA", str(tmp_path / "data"))
    (tmp_path / "k" / "rackwright").mkdir()
    monkeypatch.setattr(static_pods, "is_open", lambda port: port == 2379 and (tmp_path / "stuck").exists())
    monkeypatch.setattr(static_pods, "PATIENCE", 0)
    monkeypatch.setattr(static_pods, "PODS", str(tmp_path / "pods"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def restored(run: Any, node: Path, content: str = f"snapshot of {AUTHORITY} and more", **more: Any) -> dict[str, Any]:
    (node / "file").write_text(content)
    told: dict[str, Any] = run(etcd, {"state": "restored", "path": str(node / "file"), "timeout": 0}, **more)
    return told


def is_as_before(node: Path) -> bool:
    """Whether etcd holds what it held, and all static pods are the kubelet's."""
    manifests = sorted(path.stem for path in (node / "k" / "manifests").iterdir())
    return (node / "data" / "member" / "db").read_text() == "old" and manifests == sorted(static_pods.PORTS)


class TestSaved:
    def test_is_read_back_and_for_its_owner_alone(self, run: Any, node: Path) -> None:
        told = run(etcd, {"state": "saved", "path": str(node / "new")})
        assert told["snapshot"] == {"hash": 1, "totalKey": 7} and not told["changed"]
        assert (node / "new").stat().st_mode & 0o777 == 0o600
        save, status = (node / "said").read_text().splitlines()
        assert save.startswith(f"etcdctl snapshot save {node}/new --endpoints=https://127.0.0.1:2379 --cacert={node}/k/pki/etcd/ca.crt")
        assert status.startswith(f"etcdutl snapshot status {node}/new")

    def test_half_a_snapshot_is_an_error(self, run: Any, node: Path) -> None:
        (node / "etcdctl").write_text('#!/bin/sh\necho half > "$3"\n')
        told = run(etcd, {"state": "saved", "path": str(node / "new")})
        assert told["failed"] and "is no snapshot of etcd, or not a whole one" in told["msg"]

    def test_check_mode_makes_none(self, run: Any, node: Path) -> None:
        assert not run(etcd, {"state": "saved", "path": str(node / "new")}, check=True)["failed"] and not (node / "new").exists()


class TestRestored:
    def test_takes_the_place_of_what_is_there(self, run: Any, node: Path) -> None:
        told = restored(run, node)
        assert told["changed"] and not told["failed"]
        assert (node / "data" / "member" / "db").read_text().startswith("snapshot of")
        assert [path.name for path in (node / "data").iterdir()] == ["member"] and len(list((node / "k" / "manifests").iterdir())) == 4
        said = (node / "said").read_text()
        assert "--name=login0 --initial-cluster=login0=https://10.1.0.16:2380 --initial-advertise-peer-urls=https://10.1.0.16:2380" in said
        assert f"--bump-revision={etcd.BUMP} --mark-compacted" in said

    def test_what_is_no_snapshot_is_refused(self, run: Any, node: Path) -> None:
        told = restored(run, node, "text")
        assert told["failed"] and "is no snapshot of etcd" in told["msg"] and "nothing was touched" in told["msg"] and is_as_before(node)

    def test_one_of_another_cluster_is_refused(self, run: Any, node: Path) -> None:
        told = restored(run, node, f"snapshot of {AUTHORITY.replace('ours', 'theirs')}")
        assert told["failed"] and "is of another cluster" in told["msg"] and is_as_before(node)

    def test_of_several_members_none_is_touched(self, run: Any, node: Path) -> None:
        manifest = node / "k" / "manifests" / "etcd.yaml"
        manifest.write_text(MANIFEST.replace("--initial-cluster=", "--initial-cluster=login1=https://10.1.0.17:2380,"))
        assert "etcd has several members" in restored(run, node)["msg"] and is_as_before(node)

    def test_what_was_there_is_back_where_the_api_stays_silent(self, run: Any, node: Path) -> None:
        (node / "silent").touch()
        told = restored(run, node)
        assert told["failed"] and "not restored, what was there is back" in told["msg"] and is_as_before(node)
        assert [path.name for path in (node / "data").iterdir()] == ["member"]

    def test_a_control_plane_that_does_not_stop_goes_on(self, run: Any, node: Path) -> None:
        (node / "stuck").touch()
        told = restored(run, node)
        assert told["failed"] and "still running: etcd - see `journalctl -u kubelet`; nothing was changed" in told["msg"]
        assert is_as_before(node)

    def test_what_one_that_was_cut_off_put_aside_is_not_lost(self, run: Any, node: Path) -> None:
        (node / "data" / "before").mkdir()
        assert "what a restore that was cut off put aside" in restored(run, node)["msg"] and (node / "data" / "before").exists()

    def test_check_mode_only_examines(self, run: Any, node: Path) -> None:
        assert restored(run, node, check=True)["changed"] and is_as_before(node)
        assert restored(run, node, "text", check=True)["failed"]
