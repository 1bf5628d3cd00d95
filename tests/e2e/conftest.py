"""One stack like `lab` for the whole session: up before the first test, and proven to be deleted after the last."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator

import pytest
from support.project import Project, clone

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield the session's copy of the project, before its first `up`."""
    if shutil.which("podman") is None:
        pytest.fail("podman is not installed: these tests make real nodes (`make doctor` names the command)")
    project = clone(tmp_path_factory.mktemp("e2e") / "checkout")
    yield project
    project.remove()
    assert project.leftovers() == []


@pytest.fixture(scope="session")
def lab(stack: Project) -> Project:
    """Return the session's stack, up and verified."""
    stack.run_checked("up", timeout=2400)
    return stack


@pytest.fixture
def healthy(lab: Project, request: pytest.FixtureRequest) -> Iterator[Project]:
    """Yield the stack, which each test restores; repair it here only after a test that failed before its own repair."""
    yield lab
    if request.node.stash.get(_FAILED, False):
        lab.pulumi("up", "--refresh")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record a failed test for the fixtures that it used."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report
