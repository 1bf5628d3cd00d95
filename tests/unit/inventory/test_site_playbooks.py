"""The user's own playbooks: found, digested, and put among the phases where they belong."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

from rackwright import layout
from rackwright.inventory import paths, site_playbooks
from rackwright.model import Cluster, phases
from rackwright.model.phases import AfterPhase
from rackwright.stackfile.load import load_cluster
from rackwright.targets import digests
from rackwright.yaml_loader import load_yaml

ROOT = paths.project_root()
SITE: list[dict[str, Any]] = load_yaml((ROOT / "playbooks" / "site.yml").read_text())


def lab(**after: list[str]) -> Cluster:
    """A small lab with playbooks of its own."""
    described = {
        "target": {"kind": "lab"},
        "network": {"cidr": "10.77.0.0/24"},
        "groups": {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 2}},
        "hooks": after,
    }
    loaded = load_cluster(described)
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one playbook of the user's."""
    root = tmp_path / "project"
    (root / "site").mkdir(parents=True)
    (root / "site" / "archive.yml").write_text("[]\n")
    monkeypatch.setattr(paths, "project_root", lambda: root)
    return root


def test_every_phase_can_be_followed_and_nothing_else() -> None:
    """The inventory's own check is no phase: nothing is there yet that could be followed."""
    ours = [Path(entry["ansible.builtin.import_playbook"]).stem for entry in SITE]
    assert [after.phase for after in AfterPhase] == ours[1:]
    assert ours[0] == "validate"
    assert doctest.testmod(phases).failed == 0


def test_they_come_after_their_phase_and_before_the_next() -> None:
    own = site_playbooks.listed(lab(after_scheduler=["site/b.yml"], after_storage=["site/z.yml", "site/a.yml"]))
    table = [entry["ansible.builtin.import_playbook"] for entry in site_playbooks.table_of_contents(SITE, own, Path("/p"), Path("/u"))]
    storage = table.index("/p/playbooks/storage.yml")
    assert table[storage : storage + 4] == ["/p/playbooks/storage.yml", "/u/site/z.yml", "/u/site/a.yml", "/p/playbooks/gpu.yml"]
    assert table[-4:-1] == ["/u/site/b.yml", "/p/playbooks/kubernetes.yml", "/p/playbooks/software.yml"]
    assert len(table) == len(SITE) + 3


@pytest.mark.parametrize("file", ["site/archive.yml", "site/none.yml", "site/folder.yml", "site/outside.yml"])
def test_only_a_file_inside_the_project_is_there(project: Path, file: str) -> None:
    (project / "site" / "folder.yml").mkdir()
    (project.parent / "elsewhere.yml").write_text("[]\n")
    (project / "site" / "outside.yml").symlink_to(project.parent / "elsewhere.yml")
    assert bool(site_playbooks.missing_site_files(lab(after_storage=[file]))) == (file != "site/archive.yml")


@pytest.mark.parametrize("file", ["/etc/site.yml", "../site.yml", "site/../../x.yml", "x.yml", "site/x.sh", "site/.x.yml", ""])
def test_a_path_that_cannot_be_inside_is_refused_at_once(file: str) -> None:
    loaded = load_cluster({**lab().model_dump(mode="json", exclude_defaults=True), "hooks": {"after_storage": [file]}})
    assert any(finding.path.startswith("hooks.after_storage") for finding in loaded.findings)


def test_a_phase_that_does_not_exist_is_refused() -> None:
    loaded = load_cluster({**lab().model_dump(mode="json", exclude_defaults=True), "hooks": {"after_storag": ["site/x.yml"]}})
    assert "after_storage" in "\n".join(map(str, loaded.findings))


@pytest.fixture
def with_product(project: Path) -> Path:
    """The project with a file of each kind that is converged."""
    collection = (f"{layout.ROLES}/base/tasks/main.yml", f"{layout.MODULES}/files.py", f"{layout.COLLECTION_META}/runtime.yml")
    for name in (layout.SITE_PLAYBOOK, *collection, layout.ANSIBLE_CFG, *digests.NODE_CHECKS):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    return project


def test_their_digest_follows_them_and_what_lies_beside_them(with_product: Path) -> None:
    project = with_product

    def digest() -> str:
        return digests.converge(project, site_playbooks.parts(["site/archive.yml"]))["site"]

    seen = [digest()]
    (project / "site" / "archive.yml").write_text("[]\n# changed\n")
    seen.append(digest())
    (project / "site" / "roles" / "archive" / "tasks").mkdir(parents=True)
    (project / "site" / "roles" / "archive" / "tasks" / "main.yml").write_text("[]\n")
    seen.append(digest())
    (project / "site" / "notes.txt").write_text("nothing Ansible reads\n")
    assert len(set(seen)) == 3
    assert digest() == seen[-1]


def test_without_any_the_digests_are_what_they_were(with_product: Path) -> None:
    assert set(digests.converge(with_product, site_playbooks.parts([]))) == {"playbooks", "roles", "plugins", "ansible_cfg", "node_checks"}
