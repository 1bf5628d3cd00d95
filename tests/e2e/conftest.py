"""One stack like `lab` for the whole session, up before the first test and gone, provably, after the last."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from project import Project, clone


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The session's copy of the project; nothing is up yet."""
    if shutil.which("podman") is None:
        pytest.fail("podman is not installed: these tests make real nodes (`make doctor` names the command)")
    project = clone(tmp_path_factory.mktemp("e2e") / "checkout")
    yield project
    project.remove()
    assert project.leftovers() == []


@pytest.fixture(scope="session")
def lab(stack: Project) -> Project:
    """The session's stack, up and verified."""
    stack.must("up", timeout=600)
    return stack


@pytest.fixture
def healthy(lab: Project) -> Iterator[Project]:
    """The stack, healed afterwards if the test left it otherwise."""
    yield lab
    said = lab.pulumi("up", "--refresh", timeout=240)
    assert said.ok, said.output
