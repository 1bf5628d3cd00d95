"""rackwright.cluster.etcd: snapshots made, refused and put back, against stand-ins for etcd's commands and kubectl."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import kubeadm_commands as commands
from ansible_collections.rackwright.cluster.plugins.module_utils import static_pods
from ansible_collections.rackwright.cluster.plugins.modules import etcd

AUTHORITY = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n"
ETCDUTL = """#!/bin/sh
echo "etcdutl $*" >> {folder}/said
case "$2" in
  status) grep -q snapshot "$3" || { echo 'Error: invalid database' >&2; exit 1; }; echo '{"hash": 1, "totalKey": 7}' ;;
  restore) ls {folder}/k/manifests > {folder}/during; mkdir -p {folder}/data/restored/member; cp "$3" {folder}/data/restored/member/db ;;
esac
"""
ETCDCTL = """#!/bin/sh
echo "etcdctl $*" >> {folder}/said
case "$2" in
  save) echo snapshot > "$3" ;;
  list) echo '{"members": []}' ;;
esac
"""
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
        (tmp_path / "k" / "manifests" / f"{part}.yaml").touch()
    for module in (etcd, commands):
        monkeypatch.setattr(module, "FOLDER", str(tmp_path / "k"))
    monkeypatch.setattr(etcd, "is_well", lambda part: "")
    monkeypatch.setattr(etcd, "DATA", str(tmp_path / "data"))
    (tmp_path / "k" / "rackwright").mkdir()
    monkeypatch.setattr(static_pods, "is_open", lambda port: port == 2379 and (tmp_path / "stuck").exists())
    monkeypatch.setattr(static_pods, "PATIENCE", 0)
    monkeypatch.setattr(static_pods, "PODS", str(tmp_path / "pods"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


MEMBERS = {"login0": "10.1.0.16", "login1": "10.1.0.17"}


def step(run: Any, state: str, **more: Any) -> dict[str, Any]:
    """One step of a restore."""
    told: dict[str, Any] = run(etcd, {"state": state, "name": "login0", "timeout": 0, **more})
    return told


def prepared(run: Any, node: Path, content: str = f"snapshot of {AUTHORITY} and more", **more: Any) -> dict[str, Any]:
    """The step that unpacks a file of this content."""
    (node / "file").write_text(content)
    given = {"state": "staged", "path": str(node / "file"), "name": "login0", "members": MEMBERS, "token": "t1"}
    told: dict[str, Any] = run(etcd, given, **more)
    return told


def up_to(run: Any, node: Path, *states: str) -> None:
    """A restore that is cut off after these steps."""
    assert not prepared(run, node)["failed"]
    for state in states:
        assert not step(run, state)["failed"], state


def is_as_before(node: Path) -> bool:
    """Whether etcd holds what it held, and all static pods are the kubelet's."""
    manifests = sorted(path.stem for path in (node / "k" / "manifests").iterdir())
    return (node / "data" / "member" / "db").read_text() == "old" and manifests == sorted(static_pods.PORTS)


def has_nothing_but_data(node: Path) -> bool:
    """Whether no trace of a restore is left."""
    return [path.name for path in (node / "data").iterdir()] == ["member"]


class TestSaved:
    def test_is_read_back_and_for_its_owner_alone(self, run: Any, node: Path) -> None:
        told = run(etcd, {"state": "snapshot", "path": str(node / "new")})
        assert told["snapshot"] == {"hash": 1, "totalKey": 7} and not told["changed"]
        assert (node / "new").stat().st_mode & 0o777 == 0o600
        save, status = (node / "said").read_text().splitlines()
        assert save.startswith(f"etcdctl snapshot save {node}/new --endpoints=https://127.0.0.1:2379 --cacert={node}/k/pki/etcd/ca.crt")
        assert status.startswith(f"etcdutl snapshot status {node}/new")

    def test_half_a_snapshot_is_an_error(self, run: Any, node: Path) -> None:
        (node / "etcdctl").write_text('#!/bin/sh\necho half > "$3"\n')
        told = run(etcd, {"state": "snapshot", "path": str(node / "new")})
        assert told["failed"] and "not a complete etcd snapshot" in told["msg"]

    def test_check_mode_makes_none(self, run: Any, node: Path) -> None:
        assert not run(etcd, {"state": "snapshot", "path": str(node / "new")}, check=True)["failed"] and not (node / "new").exists()


class TestRestored:
    def test_takes_the_place_of_what_is_there(self, run: Any, node: Path) -> None:
        up_to(run, node, "stopped", "restored", "started")
        assert step(run, "ready") == {"changed": False, "failed": False, "error": ""}
        assert not step(run, "committed")["failed"] and step(run, "cleaned")["changed"]
        assert (node / "data" / "member" / "db").read_text().startswith("snapshot of") and has_nothing_but_data(node)
        assert len(list((node / "k" / "manifests").iterdir())) == 4

    def test_all_controllers_are_its_members(self, run: Any, node: Path) -> None:
        prepared(run, node)
        said = (node / "said").read_text()
        members = "login0=https://10.1.0.16:2380,login1=https://10.1.0.17:2380"
        assert (
            f"--initial-cluster={members} --initial-cluster-token=t1 --name=login0 --initial-advertise-peer-urls=https://10.1.0.16:2380"
            in said
        )
        assert f"--bump-revision={etcd.BUMP} --mark-compacted" in said and is_as_before(node)

    def test_what_is_no_snapshot_is_refused(self, run: Any, node: Path) -> None:
        told = prepared(run, node, "text")
        assert told["failed"] and "not a complete etcd snapshot" in told["msg"] and "nothing was changed" in told["msg"]
        assert is_as_before(node) and has_nothing_but_data(node)

    def test_one_of_another_cluster_is_refused(self, run: Any, node: Path) -> None:
        told = prepared(run, node, f"snapshot of {AUTHORITY.replace('ours', 'theirs')}")
        assert told["failed"] and "snapshot of another cluster" in told["msg"] and is_as_before(node) and has_nothing_but_data(node)

    def test_a_control_plane_that_does_not_stop_goes_on(self, run: Any, node: Path) -> None:
        (node / "stuck").touch()
        prepared(run, node)
        told = step(run, "stopped")
        assert "still running after 0 s: etcd - run `journalctl -u kubelet`; nothing was changed" in told["error"] and is_as_before(node)

    @pytest.mark.parametrize("part", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
    def test_it_is_not_ready_before_every_part_is(self, run: Any, node: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
        monkeypatch.setattr(etcd, "is_well", lambda one: f"{one} returns status 500" if one == part else "")
        assert step(run, "ready")["error"] == f"{part} returns status 500"

    def test_it_is_not_ready_before_the_api_says_so_of_its_pods(self, run: Any, node: Path) -> None:
        (node / "silent").touch()
        assert "refused" in step(run, "ready")["error"]

    def test_check_mode_touches_nothing(self, run: Any, node: Path) -> None:
        assert not prepared(run, node, check=True)["failed"] and is_as_before(node) and has_nothing_but_data(node)


class TestCutOff:
    @pytest.mark.parametrize(
        ("states", "stage"),
        [((), "staged"), (("stopped",), "staged"), (("stopped", "restored"), "restored"), (("stopped", "restored", "started"), "restored")],
        ids=["unpacked", "stopped", "restored", "started"],
    )
    def test_before_it_is_decided_it_can_be_undone(self, run: Any, node: Path, states: tuple[str, ...], stage: str) -> None:
        up_to(run, node, *states)
        assert step(run, "queried")["stage"] == stage
        assert step(run, "rolled_back")["changed"] and is_as_before(node) and has_nothing_but_data(node)
        assert step(run, "queried")["stage"] == ""

    def test_once_it_is_decided_it_is_ended(self, run: Any, node: Path) -> None:
        up_to(run, node, "stopped", "restored", "started", "committed")
        assert step(run, "queried")["stage"] == "committed"
        step(run, "cleaned")
        assert (node / "data" / "member" / "db").read_text().startswith("snapshot of") and has_nothing_but_data(node)

    def test_in_the_middle_of_the_swap_it_is_undone(self, run: Any, node: Path) -> None:
        up_to(run, node, "stopped", "restored")
        (node / "data" / "member").rename(node / "data" / "lost")
        shutil.rmtree(node / "data" / "lost")
        step(run, "rolled_back")
        assert is_as_before(node)

    def test_in_the_middle_of_undoing_it_is_undone(self, run: Any, node: Path) -> None:
        up_to(run, node, "stopped", "restored")
        shutil.rmtree(node / "data" / "member")
        (node / "data" / "before").rename(node / "data" / "member")
        assert step(run, "queried")["stage"] == "restored"
        step(run, "rolled_back")
        assert is_as_before(node) and has_nothing_but_data(node)

    def test_one_of_an_older_version_is_known_by_what_it_put_aside(self, run: Any, node: Path) -> None:
        (node / "data" / "before").mkdir()
        assert step(run, "queried")["stage"] == "restored"

    def test_where_none_was_there_is_nothing_to_end(self, run: Any, node: Path) -> None:
        assert step(run, "queried")["stage"] == ""

    def test_check_mode_only_tells(self, run: Any, node: Path) -> None:
        up_to(run, node, "stopped", "restored")
        assert run(etcd, {"state": "rolled_back"}, check=True)["changed"] and step(run, "queried")["stage"] == "restored"
