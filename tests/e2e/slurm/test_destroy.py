"""The end of the session: `pulumi destroy` leaves nothing, and a second one reports that there is nothing to delete."""

from __future__ import annotations

import subprocess

import pytest
from support.project import Project


@pytest.mark.essential
def test_destroy_with_unreachable_node_leaves_nothing(lab: Project) -> None:
    subprocess.run(["podman", "pause", f"{lab.stack}-worker0"], check=True, capture_output=True)
    lab.run_checked("destroy")
    assert lab.leftovers() == []
    secrets = subprocess.run(["podman", "secret", "ls", "--format", "{{.Name}}"], capture_output=True, text=True, check=True).stdout
    assert f"rackwright.{lab.stack}." not in secrets
    assert not (lab.home / lab.stack / "id_ed25519").exists()


@pytest.mark.essential
def test_second_destroy_removes_nothing(lab: Project) -> None:
    said = lab.rackwright("down", lab.stack, "--by-label")
    assert said.ok and "no container, volume, network or secret with the label of stack" in said.output, said.output


def test_up_recreates_destroyed_stack(lab: Project) -> None:
    lab.run_checked("up")
    assert lab.report()["verdict"] == "passed"


def test_down_by_label_works_without_state(lab: Project) -> None:
    said = lab.rackwright("down", lab.stack, "--by-label")
    assert said.ok and "removed container" in said.output, said.output
    assert lab.leftovers() == []
    lab.run_checked("refresh")
    lab.run_checked("destroy")
