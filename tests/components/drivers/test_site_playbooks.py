"""A user's playbooks run after their phase, in Ansible itself, with the roles beside them; a failure names the file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright import layout
from rackwright.drivers import ansible
from rackwright.inventory import paths
from rackwright.operations import stack_files

OURS = Path(__file__).parents[3]


async def said(_: str) -> None:
    """Discard a progress message."""


def play(name: str, *tasks: dict[str, Any], roles: list[str] | None = None) -> list[dict[str, Any]]:
    """Return a playbook of one play on this machine."""
    return [{"name": name, "hosts": "all", "gather_facts": False, "tasks": list(tasks), "roles": roles or []}]


def note(word: str, file: Path) -> dict[str, Any]:
    """Return a task that writes a line."""
    return {"name": f"Note {word}", "ansible.builtin.lineinfile": {"path": str(file), "line": word, "create": True, "mode": "0644"}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with two phases, a user's playbook with a role beside it, and this machine as its node."""
    root, notes = tmp_path / "project", tmp_path / "notes"
    role = root / "site" / "roles" / "archive" / "tasks"
    for folder in (root / "playbooks", role):
        folder.mkdir(parents=True)
    (root / "ansible.cfg").write_text((OURS / "ansible.cfg").read_text())
    contents = [{"name": phase, "ansible.builtin.import_playbook": f"{phase}.yml"} for phase in ("storage", "gpu")]
    (root / "playbooks" / "site.yml").write_text(yaml.safe_dump(contents))
    for phase in ("storage", "gpu"):
        (root / "playbooks" / f"{phase}.yml").write_text(yaml.safe_dump(play(f"The {phase}", note(phase, notes))))
    (role / "main.yml").write_text(yaml.safe_dump([note("archive", notes)]))
    (root / "site" / "archive.yml").write_text(yaml.safe_dump(play("The archive", roles=["archive"])))
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node0": {"ansible_connection": "local"}}}}))
    monkeypatch.setattr(paths, "project_root", lambda: root)
    monkeypatch.setattr(layout, "product_root", lambda: root)
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    paths.prepare("lab")
    return root


def applied(project: Path, own: dict[str, list[str]], *, check: bool = False) -> ansible.PlaybookResult:
    """Run the phases with the user's playbooks among them."""
    contents = stack_files.site("lab", own)
    return asyncio.run(ansible.play(project, contents, inventory=project.parent / "inventory.yml", check=check, on_progress=said))


def test_site_playbooks_run_after_their_phase(project: Path) -> None:
    found = applied(project, {"storage": ["site/archive.yml"]})
    assert found.reasons == []
    assert (project.parent / "notes").read_text().split() == ["storage", "archive", "gpu"]
    assert [result.phase for result in found.changed] == ["storage", "archive", "gpu"]
    assert applied(project, {"storage": ["site/archive.yml"]}, check=True).changed == []


def test_site_playbook_finds_its_own_role_before_the_collection(project: Path) -> None:
    """Ansible prefers the collection of an imported playbook for short names: the phases must not lie in it."""
    (project / layout.COLLECTIONS).symlink_to(OURS / layout.COLLECTIONS)
    (project / "site" / "roles" / "archive").rename(project / "site" / "roles" / "base")
    (project / "site" / "archive.yml").write_text(yaml.safe_dump(play("The archive", roles=["base"])))
    found = applied(project, {"storage": ["site/archive.yml"]})
    assert found.reasons == []
    assert (project.parent / "notes").read_text().split() == ["storage", "archive", "gpu"]


def test_failed_site_playbook_ends_run_and_is_named(project: Path) -> None:
    broken = play("The licences", {"name": "Ask the licence server", "ansible.builtin.fail": {"msg": "it does not answer"}})
    (project / "site" / "licences.yml").write_text(yaml.safe_dump(broken))
    found = applied(project, {"storage": ["site/licences.yml"]})
    assert found.reasons == ["node0: licences: Ask the licence server: it does not answer"]
    assert "gpu" not in (project.parent / "notes").read_text()


def test_default_site_is_used_without_site_playbooks(project: Path) -> None:
    stack_files.site("lab", {"storage": ["site/archive.yml"]})
    assert stack_files.site("lab", {}) == "site.yml"
    assert not paths.site("lab").exists()  # an earlier declaration has no effect any more
    assert not json.dumps(applied(project, {}).reasons).count("rror")
    assert (project.parent / "notes").read_text().split() == ["storage", "gpu"]
