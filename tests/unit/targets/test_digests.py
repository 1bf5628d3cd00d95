"""An edited file changes the digest by which `up` decides what to do; a path that matches no file raises."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rackwright import layout
from rackwright.inventory.paths import project_root
from rackwright.operations.check_mode import replay
from rackwright.targets import digests

PARTS = (
    layout.PACKAGE,
    layout.ROLES,
    layout.PLAYBOOKS,
    layout.PLUGINS,
    layout.COLLECTION_META,
    layout.ANSIBLE_CFG,
    layout.KUBERNETES_BUNDLE,
)
DIGESTS: dict[str, Callable[[Path], object]] = {
    "converge": digests.converge,
    "verification": digests.verification,
    "bake slurm": lambda root: digests.bake(root, "slurm"),
    "bake kubernetes": lambda root: digests.bake(root, "kubernetes", "1.34.1"),
    "bake kubernetes 1.35": lambda root: digests.bake(root, "kubernetes", "1.35.3"),
    "power agent": digests.power_agent,
    "bundle": lambda root: digests.kubernetes_bundle(root, "1.34.1"),
    "bundle 1.35": lambda root: digests.kubernetes_bundle(root, "1.35.3"),
    "addon": lambda root: digests.kubernetes_addon(root, "kueue"),
    "check mode": lambda root: replay.inputs(root, [], []),
}
BAKED = {"bake slurm", "bake kubernetes", "bake kubernetes 1.35"}
EDITS = {
    f"{layout.ROLES}/base/tasks/main.yml": {"converge", "check mode"},
    f"{layout.ROLES}/base/tasks/install.yml": {"converge", *BAKED, "check mode"},
    f"{layout.ROLES}/sshd/defaults/main.yml": {"converge", "check mode"},
    f"{layout.ROLES}/slurm_worker/files/rackwright_node_health.py": {"converge", "check mode"},
    f"{layout.ROLES}/slurm_worker/vars/main.yml": {"converge", "bake slurm", "check mode"},
    "playbooks/site.yml": {"converge", "check mode"},
    f"{layout.MODULES}/dpkg_facts.py": {"converge", *BAKED, "check mode"},
    f"{layout.MODULES}/files.py": {"converge", "check mode"},
    f"{layout.MODULE_UTILS}/probe.py": {"converge", "check mode"},
    f"{layout.ACTION_PLUGINS}/apt.py": {"converge", *BAKED, "check mode"},
    f"{layout.CALLBACK_PLUGINS}/module_recorder.py": {"converge", "check mode"},
    f"{layout.PLUGINS}/filter/openssh_public_key.py": {"converge", "check mode"},
    f"{layout.COLLECTION_META}/runtime.yml": {"converge", "check mode"},
    "ansible.cfg": {"converge", "check mode"},
    "infra/rackwright/checks/cluster/test_slurm.py": {"verification", "check mode"},
    "infra/rackwright/checks/cluster/test_gpu.py": {"converge", "verification", "check mode"},
    "infra/rackwright/remote/programs/commands.py": {"converge", "verification", "check mode"},
    "infra/rackwright/remote/command.py": {"verification", "check mode"},
    "infra/rackwright/errors.py": {"converge", "check mode"},
    "infra/rackwright/provider/lab/power.py": {"power agent"},
    "infra/rackwright/drivers/base_image.py": {"power agent", *BAKED},
    "infra/rackwright/processes.py": {"power agent"},
    "tools/kubernetes/build": {"bundle", "bundle 1.35", "bake kubernetes", "bake kubernetes 1.35"},
    "tools/kubernetes/releases/1.35/etcd/go.mod": {"bundle 1.35", "bake kubernetes 1.35"},
    "tools/kubernetes/addons/kueue/kustomization.yaml": {"addon"},
}
GONE = {
    layout.ROLES: {"converge", *BAKED, "check mode"},
    layout.PLAYBOOKS: {"converge", *BAKED, "check mode"},
    layout.PLUGINS: {"converge", *BAKED, "check mode"},
    layout.COLLECTION_META: {"converge", "check mode"},
    layout.CLUSTER_CHECKS: {"converge", "verification", "check mode"},
    layout.REMOTE: {"converge", "verification", "check mode"},
    f"{layout.PACKAGE}/provider": {"power agent"},
    f"{layout.PACKAGE}/drivers": {"power agent", *BAKED},
    layout.KUBERNETES_BUNDLE: {"bundle", "bundle 1.35", "addon", "bake kubernetes", "bake kubernetes 1.35"},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that digests are made of."""
    root = tmp_path_factory.mktemp("project")
    for part in PARTS:
        source = project_root() / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, root / part)
    return root


@pytest.fixture(scope="module")
def before(project: Path) -> dict[str, object]:
    """Every digest of the copy as it is."""
    return {name: digest(project) for name, digest in DIGESTS.items()}


@pytest.mark.parametrize("file", EDITS)
def test_edited_file_changes_its_digests_and_no_other(project: Path, before: dict[str, object], file: str) -> None:
    text = (project / file).read_bytes()
    (project / file).write_bytes(text + b"\n# edited\n")
    try:
        changed = {name for name, digest in DIGESTS.items() if digest(project) != before[name]}
    finally:
        (project / file).write_bytes(text)
    assert changed == EDITS[file]


def test_images_of_two_releases_differ(before: dict[str, object]) -> None:
    """The programs of the release are in the image: nodes of another one must not start from it."""
    assert before["bake kubernetes"] != before["bake kubernetes 1.35"]
    assert before["bundle"] != before["bundle 1.35"]


@pytest.mark.parametrize("folder", GONE)
def test_folder_that_moved_away_raises(project: Path, before: dict[str, object], folder: str) -> None:
    (project / folder).rename(project / "moved")
    raised = set()
    try:
        for name, digest in DIGESTS.items():
            try:
                digest(project)
            except FileNotFoundError:
                raised.add(name)
    finally:
        (project / "moved").rename(project / folder)
    assert raised == GONE[folder]


def test_empty_folder_of_the_users_own_playbooks_is_no_error(project: Path) -> None:
    (project / "site" / "files").mkdir(parents=True, exist_ok=True)
    assert "site" in digests.converge(project, ["site"])


def test_paths_of_the_layout_exist() -> None:
    of_users = {layout.SITE_CATALOG}
    names = {layout.PROJECT_ENV, layout.PROJECT_NAME, layout.COLLECTION_NAME, layout._DATA}
    paths = [value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str) and value not in of_users | names]
    assert len(paths) > 10
    assert not [path for path in paths if not (project_root() / path).exists()]
