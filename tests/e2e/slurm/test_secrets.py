"""Secrets exist in one place only: not in the state, its backups, reports, logs or process lists."""

from __future__ import annotations

import base64
from pathlib import Path

from support.project import Project

from rackwright.yaml_loader import load_yaml

_ALLOWED = ("secrets.yml", "id_ed25519")


def _secrets(project: Project) -> list[bytes]:
    """Return the stack's secrets from their only place on disk, mode 0600."""
    folder = project.home / project.stack
    for name in _ALLOWED:
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    said = load_yaml((folder / "secrets.yml").read_text())["secrets"]
    assert said.pop("host_keys") == {}, "nodes of the lab have their own keys from the start"
    key = (folder / "id_ed25519").read_text().splitlines()[2]
    return [text.encode() for text in (*said.values(), key)]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name not in _ALLOWED]


def test_secrets_exist_on_disk(lab: Project) -> None:
    munge = base64.b64decode(_secrets(lab)[0]) if len(_secrets(lab)[0]) > 1000 else base64.b64decode(_secrets(lab)[1])
    assert len(munge) == 1024


def test_files_contain_no_secret(lab: Project) -> None:
    lab.run_checked("refresh")
    places = [*_files(lab.home), *(path for path in _files(lab.folder) if "__pycache__" not in path.parts)]
    leaks = [str(path) for secret in _secrets(lab) for path in places if secret in path.read_bytes()]
    assert leaks == []
    assert len(places) > 50


def test_failing_run_prints_no_secret(lab: Project) -> None:
    tasks = lab.folder / "roles/munge/tasks/service.yml"
    written = tasks.read_text()
    tasks.write_text(written + "\n- name: Quote the key\n  ansible.builtin.fail:\n    msg: 'the key is {{ secrets.munge_key }}'\n")
    try:
        said = lab.pulumi("up")
        assert not said.ok and "Quote the key" in said.output, said.output
        printed = said.output.encode()
        parts = [secret[start : start + 24] for secret in _secrets(lab) for start in range(0, len(secret) - 24, 8)]
        assert not [part for part in parts if part in printed]
        assert "[secret]" in said.output
    finally:
        tasks.write_text(written)
        lab.run_checked("up")


def test_process_arguments_contain_no_secret(lab: Project) -> None:
    for node in lab.incarnations():
        listing = lab.ssh(node, "cat /proc/*/cmdline | tr '\\0' '\\n'").output.encode()
        assert b"sshd" in listing
        assert not [secret for secret in _secrets(lab) if secret in listing]
