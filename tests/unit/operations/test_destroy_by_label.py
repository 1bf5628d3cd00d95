"""Deletion of a stack by its label."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rackwright.drivers import inotify_limits, podman
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import destroy_by_label


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, lab: str) -> list[str]:
    """Stacks that no longer need a higher inotify limit, on a machine with podman and a container of `lab`."""
    found: list[str] = []

    async def remove(stack: str) -> list[str]:
        return [f"container {stack}-login0"]

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(podman, "sweep", remove)
    monkeypatch.setattr(inotify_limits, "forget", found.append)
    return found


def test_sweep_deletes_containers_limit_and_folder(forgotten: list[str], lab: str) -> None:
    assert destroy_by_label.sweep_lab(lab) == ["container lab-login0", "folder lab of the state directory"]
    assert forgotten == ["lab"] and not paths.folder(lab).exists()
    assert destroy_by_label.sweep_lab(lab) == ["container lab-login0"]


def test_sweep_without_podman_is_undetermined(forgotten: list[str], lab: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UndeterminedError, match="podman is not installed"):
        destroy_by_label.sweep_lab(lab)
    assert forgotten == [] and paths.folder(lab).exists()


def test_region_is_of_stacks_on_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        destroy_by_label.aws_region("aws-budget"),
        destroy_by_label.aws_region("lab"),
        destroy_by_label.aws_region("no-such-stack"),
    ) == ("us-east-1", None, None)
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(paths.stack_file("aws-budget").read_text(encoding="utf-8").replace(" region: us-east-1", " regin: us-east-1"))
    monkeypatch.setattr(paths, "stack_file", lambda stack: file)
    with pytest.raises(InputError, match="target aws has no `region`"):
        destroy_by_label.aws_region("mine")
