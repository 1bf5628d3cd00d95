"""rackwright.cluster.containerd_images: what it imports, against a ctr that records its arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import containerd_images as images

LISTED = {
    "control-plane": {"file": "control-plane.tar", "images": [{"name": "r/etcd:3.6"}, {"name": "r/kube-apiserver:v1"}]},
    "node": {"file": "node.tar", "images": [{"name": "r/pause:3"}]},
    "gpu": {"file": "gpu.tar", "images": [{"name": "r/gpu-plugin:1"}]},
}


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle, and a containerd that has the images in `there` and notes imports in `said`."""
    (tmp_path / "bundle.json").write_text(json.dumps({"archives": LISTED}))
    (tmp_path / "there").write_text("")
    (tmp_path / "ctr").write_text(f'#!/bin/sh\ncase "$*" in *list*) cat {tmp_path}/there ;; *) echo "$@" >> {tmp_path}/said ;; esac\n')
    (tmp_path / "ctr").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def asked(folder: Path, *archives: str) -> dict[str, Any]:
    return {"folder": str(folder), "archives": list(archives)}


def said(folder: Path) -> list[str]:
    return (folder / "said").read_text().splitlines() if (folder / "said").exists() else []


def test_imports_the_archives_of_which_an_image_is_missing_and_no_other(run: Any, bundle: Path) -> None:
    (bundle / "there").write_text("r/etcd:3.6\nr/pause:3\nsha256:12\n")
    told = run(images, asked(bundle, "control-plane", "node"))
    assert told["changed"] and told["missing"] == ["r/kube-apiserver:v1"]
    assert said(bundle) == [f"--namespace k8s.io images import {bundle}/control-plane.tar"]


def test_nothing_is_missing(run: Any, bundle: Path) -> None:
    (bundle / "there").write_text("r/pause:3\n")
    told = run(images, asked(bundle, "node"))
    assert not told["changed"] and not told["failed"] and said(bundle) == []


def test_check_mode_only_tells(run: Any, bundle: Path) -> None:
    told = run(images, asked(bundle, "node", "gpu"), check=True)
    assert told["changed"] and told["missing"] == ["r/pause:3", "r/gpu-plugin:1"] and said(bundle) == []


def test_check_mode_does_not_wait_for_a_suspended_containerd(run: Any, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "suspended_units", lambda name: [f"{name} is suspended by a signal"])
    told = run(images, asked(bundle, "node"), check=True)
    assert not told["changed"] and told["msg"] == "not queried in check mode, because containerd.service is suspended by a signal"
    assert run(images, asked(bundle, "node"))["missing"] == ["r/pause:3"], "a run has restarted it"


@pytest.mark.parametrize("text", [None, "{", '{"archive": {}}'], ids=["missing", "cut off", "another format"])
def test_a_list_that_cannot_be_read_is_an_error(run: Any, bundle: Path, text: str | None) -> None:
    (bundle / "bundle.json").unlink()
    if text is not None:
        (bundle / "bundle.json").write_text(text)
    told = run(images, asked(bundle, "node"))
    assert told["failed"] and "bundle.json: not a valid bundle list" in told["msg"]


def test_an_archive_that_is_not_listed_is_an_error(run: Any, bundle: Path) -> None:
    told = run(images, asked(bundle, "node", "other"))
    assert told["failed"] and "no archive other in the bundle list - run the install step again" in told["msg"] and said(bundle) == []


def test_a_containerd_that_is_away_is_an_error(run: Any, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bundle / "ctr").write_text("#!/bin/sh\necho 'ctr: failed to dial: connection refused' >&2; exit 1\n")
    told = run(images, asked(bundle, "node"))
    assert told["failed"] and "connection refused - see `journalctl -u containerd`" in told["msg"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert "command not found - install containerd" in run(images, asked(bundle, "node"))["msg"]
