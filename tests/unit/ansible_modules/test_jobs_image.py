"""rackwright.cluster.jobs_image: what goes into the image, when it is made, and that its tag is the digest of what makes it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import jobs_image as image
from rackwright import layout
from rackwright.catalog.kubernetes import own_image
from rackwright.yaml_loader import load_yaml

NAME = "rackwright.local/jobs:1"


@pytest.fixture
def ctr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A containerd that has the images in `there` and keeps what is imported as `image.tar`."""
    (tmp_path / "there").write_text("r/pause:3\n")
    last = 'for last; do :; done; cp "$last"'
    (tmp_path / "ctr").write_text(f'#!/bin/sh\ncase "$*" in *list*) cat {tmp_path}/there ;; *) {last} {tmp_path}/image.tar ;; esac\n')
    (tmp_path / "ctr").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_the_tag_is_the_digest_of_the_module_that_makes_it() -> None:
    digest = hashlib.sha256(Path(image.__file__).read_bytes()).hexdigest()[:12]
    assert own_image("jobs") == f"rackwright.local/jobs:{digest}", f"write {digest} into catalog/kubernetes.yml"


def test_the_image_has_python_its_library_the_tools_and_the_loader(run: Any, ctr: Path, tmp_path: Path) -> None:
    told = run(image, {"name": NAME})
    assert (told["changed"], told["made"]) == (True, True)
    with tarfile.open(ctr / "image.tar") as outer:
        manifest = json.load(outer.extractfile("manifest.json"))[0]
        config = json.load(outer.extractfile(manifest["Config"]))
        layer = outer.extractfile(manifest["Layers"][0]).read()
    assert manifest["RepoTags"] == [NAME]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    (tmp_path / "layer.tar").write_bytes(layer)
    with tarfile.open(tmp_path / "layer.tar") as tar:
        names = set(tar.getnames())
        assert all(member.uid == 0 and member.mtime == 0 for member in tar)
    assert {"usr/bin/python3", "usr/bin/sh", "usr/bin/stat", "usr/bin/cat", "bin", "lib", "lib64", "etc/passwd"} <= names
    assert any(name.endswith("/json/__init__.py") for name in names) and any("/ld-" in name for name in names)
    assert not any("/test/" in name or "site-packages" in name for name in names)


@pytest.mark.parametrize(("there", "check", "changed"), [(NAME, False, False), ("", True, True)])
def test_nothing_is_made_where_it_is_there_or_where_somebody_only_looks(
    run: Any, ctr: Path, there: str, check: bool, changed: bool
) -> None:
    (ctr / "there").write_text(f"{there}\n")
    assert run(image, {"name": NAME}, check=check)["changed"] is changed


def test_check_mode_does_not_wait_for_a_suspended_containerd(run: Any, ctr: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "suspended_units", lambda name: [f"{name} is suspended by a signal"])
    told = run(image, {"name": NAME}, check=True)
    assert not told["changed"] and told["msg"] == "not queried in check mode, because containerd.service is suspended by a signal"
    assert not (ctr / "image.tar").exists()


def test_a_containerd_that_refuses_is_heard(run: Any, ctr: Path) -> None:
    (ctr / "ctr").write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    told = run(image, {"name": NAME})
    assert told["failed"] and "no space left" in told["msg"] and "journalctl -u containerd" in told["msg"]


def test_only_workers_make_it_and_only_where_nobody_names_another() -> None:
    tasks = load_yaml((layout.product_root() / layout.ROLES / "kubernetes/tasks/images.yml").read_text())
    task = next(one for one in tasks if "rackwright.cluster.jobs_image" in one)
    assert task["when"] == ["kubernetes_cluster.builds_acceptance_image", "'worker' in kubernetes_node.roles"]
