"""rackwright.cluster.files: what it writes, what it leaves, and that check mode tells the truth."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import file_tree
from ansible_collections.rackwright.cluster.plugins.modules import files


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def everything(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "old").write_text("away")
    return {
        "directories": [{"path": f"{tmp_path}/d", "mode": "0750"}],
        "files": [{"path": f"{tmp_path}/d/a.conf", "content": "one\n", "mode": "0640"}, {"path": f"{tmp_path}/deep/er/b", "content": ""}],
        "links": [{"path": f"{tmp_path}/link", "target": "d/a.conf"}],
        "absent": [f"{tmp_path}/old", f"{tmp_path}/never-was"],
    }


def test_all_kinds_are_brought_about_then_nothing_is_left_to_do(run: Any, tmp_path: Path, everything: dict[str, Any]) -> None:
    first = run(files, everything)
    assert first["changed"]
    assert not first["failed"]
    assert first["changed_paths"] == [f"{tmp_path}/{name}" for name in ("d", "d/a.conf", "deep/er/b", "link", "old")]
    assert listing(tmp_path) == ["d", "d/a.conf", "deep", "deep/er", "deep/er/b", "link"]
    assert (tmp_path / "link").read_text() == "one\n"
    assert (mode_of(tmp_path / "d"), mode_of(tmp_path / "d/a.conf"), mode_of(tmp_path / "deep/er/b")) == (0o750, 0o640, 0o644)
    assert run(files, everything)["changed_paths"] == []


def test_parents_are_readable_under_a_private_umask(run: Any, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        run(files, {"files": [{"path": f"{tmp_path}/deep/er/b", "content": ""}], "directories": [{"path": f"{tmp_path}/a/b/c"}]})
    finally:
        os.umask(before)
    assert [mode_of(tmp_path / name) for name in ("deep", "deep/er", "a", "a/b", "a/b/c")] == [0o755] * 5


def test_check_mode_names_what_a_run_would_alter_and_alters_nothing(run: Any, tmp_path: Path, everything: dict[str, Any]) -> None:
    told = run(files, everything, check=True)
    assert listing(tmp_path) == ["old"]
    assert told["changed_paths"] == run(files, everything)["changed_paths"]
    assert run(files, everything, check=True)["changed"] is False


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("two\n"),
        lambda path: path.chmod(0o600),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
    ],
    ids=["content", "mode", "missing", "a link in its place"],
)
def test_a_spoilt_file_is_seen_in_check_mode_and_mended(run: Any, tmp_path: Path, spoil: Any) -> None:
    wanted = {"files": [{"path": f"{tmp_path}/a", "content": "one\n"}]}
    run(files, wanted)
    spoil(tmp_path / "a")
    assert run(files, wanted, check=True)["changed_paths"] == [f"{tmp_path}/a"]
    assert run(files, wanted)["changed"]
    assert (tmp_path / "a").read_text() == "one\n"
    assert not (tmp_path / "a").is_symlink()
    assert mode_of(tmp_path / "a") == 0o644
    assert run(files, wanted, check=True)["changed"] is False


def test_a_link_with_another_target_is_turned(run: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/nowhere")
    wanted = {"links": [{"path": f"{tmp_path}/link", "target": "/etc/hosts"}]}
    assert run(files, wanted)["changed"]
    assert os.readlink(tmp_path / "link") == "/etc/hosts"
    assert run(files, wanted)["changed"] is False


def test_bytes_travel_as_base64(run: Any, tmp_path: Path) -> None:
    key = bytes(range(256))
    wanted = {"files": [{"path": f"{tmp_path}/key", "content": base64.b64encode(key).decode(), "base64": True, "mode": "0400"}]}
    assert run(files, wanted)["changed"]
    assert (tmp_path / "key").read_bytes() == key
    assert run(files, wanted)["changed"] is False


def test_content_that_its_checker_refuses_leaves_the_old_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("good\n")
    refused = run(files, {"files": [{"path": f"{tmp_path}/a", "content": "bad\n", "validate": "grep -q good %s"}]})
    assert refused["failed"]
    assert "grep -q good" in refused["msg"]
    assert f"{tmp_path}/a" in refused["msg"]
    assert (tmp_path / "a").read_text() == "good\n"
    assert listing(tmp_path) == ["a"]
    assert not run(files, {"files": [{"path": f"{tmp_path}/a", "content": "good too\n", "validate": "grep -q good %s"}]})["failed"]


def test_what_a_killed_run_left_half_written_does_not_disturb_the_next(run: Any, tmp_path: Path) -> None:
    (tmp_path / ".a.rackwright").write_text("half")
    run(files, {"files": [{"path": f"{tmp_path}/a", "content": "whole\n"}]})
    assert listing(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "whole\n"


def test_diff_shows_contents_except_sensitive_ones(run: Any, tmp_path: Path) -> None:
    (tmp_path / "open").write_text("before\n")
    wanted = {
        "files": [
            {"path": f"{tmp_path}/open", "content": "after\n"},
            {"path": f"{tmp_path}/secret", "content": "canary\n", "sensitive": True},
            {"path": f"{tmp_path}/binary", "content": "/w==", "base64": True},
        ]
    }
    told = run(files, wanted, check=True, diff=True)
    shown = {Path(entry["after_header"]).name: (entry["before"], entry["after"]) for entry in told["diff"]}
    assert shown["open"] == ("before\n", "after\n")
    assert shown["binary"] == ("", "(binary, 1 bytes)\n")
    assert "canary" not in repr(told)


def test_a_sensitive_file_that_is_refused_keeps_its_secret(run: Any, tmp_path: Path) -> None:
    wanted = {"path": f"{tmp_path}/s", "content": "canary\n", "sensitive": True, "validate": "sh -c 'cat %s >&2; false'"}
    told = run(files, {"files": [wanted]})
    assert told["failed"]
    assert "canary" not in repr(told)


def test_an_owner_to_come_is_a_change_in_check_mode_and_an_error_in_a_run(run: Any, tmp_path: Path) -> None:
    wanted = {"files": [{"path": f"{tmp_path}/a", "content": "x", "owner": "no-such-user-here"}]}
    assert run(files, wanted, check=True)["changed"]
    refused = run(files, wanted)
    assert refused["failed"]
    assert "no-such-user-here" in refused["msg"]


@pytest.mark.parametrize("mode", ["420", "0999", "u+x"])
def test_a_mode_that_yaml_mangled_is_refused(run: Any, tmp_path: Path, mode: str) -> None:
    refused = run(files, {"files": [{"path": f"{tmp_path}/a", "content": "x", "mode": mode}]})
    assert refused["failed"]
    assert "four octal digits" in refused["msg"]


def test_something_else_in_the_way_is_an_error_not_a_loss(run: Any, tmp_path: Path) -> None:
    (tmp_path / "d" / "kept").mkdir(parents=True)
    (tmp_path / "f").write_text("kept")
    assert run(files, {"files": [{"path": f"{tmp_path}/d", "content": "x"}]})["failed"]
    assert run(files, {"directories": [{"path": f"{tmp_path}/f"}]})["failed"]
    assert run(files, {"absent": [f"{tmp_path}/d"]})["failed"]
    assert listing(tmp_path) == ["d", "d/kept", "f"]


def test_a_mount_point_that_cannot_be_renamed_over_is_rewritten(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "hosts"
    target.write_text("much longer before than after\n")

    def busy(source: str, destination: str) -> None:
        raise OSError(16, "Device or resource busy", destination)

    monkeypatch.setattr("ansible_collections.rackwright.cluster.plugins.module_utils.file_tree.os.replace", busy)
    before = target.stat().st_ino
    assert run(files, {"files": [{"path": str(target), "content": "short\n", "mode": "0600"}]})["changed"]
    assert target.read_text() == "short\n"
    assert target.stat().st_ino == before
    assert mode_of(target) == 0o600
    assert listing(tmp_path) == ["hosts"]


def test_the_result_does_not_echo_contents(run: Any, tmp_path: Path) -> None:
    assert "canary" not in repr(run(files, {"files": [{"path": f"{tmp_path}/a", "content": "canary"}]}))


@pytest.mark.parametrize(
    ("has_file_system", "label", "restored"),
    [
        pytest.param(True, "system_u:system_r:init_t:s0\0", True, id="policy"),
        pytest.param(True, "unconfined_u:unconfined_r:unconfined_t\0", True, id="policy-without-levels"),
        pytest.param(True, "kernel\0", False, id="kernel-without-policy"),
        pytest.param(True, None, False, id="label-unreadable"),
        pytest.param(False, "unconfined\n", False, id="apparmor"),
    ],
)
def test_labels_are_restored_where_a_policy_is_loaded(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_file_system: bool, label: str | None, restored: bool
) -> None:
    """Debian's kernel with apparmor=0 has SELinux' file system, no policy, and no restorecon."""
    for name, content in (("enforce", "0" if has_file_system else None), ("current", label)):
        if content is not None:
            (tmp_path / name).write_text(content)
    monkeypatch.setattr(file_tree, "SELINUX", f"{tmp_path}/enforce")
    monkeypatch.setattr(file_tree, "OWN_LABEL", f"{tmp_path}/current")
    called = []
    monkeypatch.setattr(file_tree.subprocess, "run", lambda command, **_: called.append(command))
    assert not run(files, {"files": [{"path": f"{tmp_path}/new", "content": "x"}]})["failed"]
    assert called == ([("restorecon", f"{tmp_path}/new")] if restored else [])
