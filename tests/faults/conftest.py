"""The lab for injected faults: one created for the session, or a stack that is up (`--stack`), which is restored."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from faults.lab import Lab, open_lab
from support.project import clone

from rackwright.inventory import paths

from . import score


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the stack that receives the faults."""
    parser.addoption("--stack", default=None, help="a stack that is up and may be broken for minutes; without it, one is made and removed")


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield the lab of a stack kind, with all checks passed before the first fault; one at a time."""
    scratch = tmp_path_factory.mktemp("faults")
    stack = request.config.getoption("--stack")
    if stack:
        yield open_lab(paths.folder(stack), scratch)
        return
    if shutil.which("podman") is None:
        pytest.fail("podman is not installed: faults are set in real nodes (`make doctor` names the command)")
    if request.param.startswith("lab-k8s") and os.geteuid() != 0:
        pytest.skip("a node of Kubernetes in the lab needs podman as root")
    project = clone(tmp_path_factory.mktemp("faults-lab") / "checkout", like=request.param)
    try:
        project.run_checked("up", timeout=2400)
        yield open_lab(project.home / project.stack, scratch, project)
    finally:
        project.remove()
    assert project.leftovers() == []


@pytest.fixture(scope="session")
def watched(lab: Lab) -> Lab:
    """Return the lab after two drift scans without a difference."""
    if lab.project is None:
        pytest.skip("drift faults need a lab of the tests' own: some of its nodes are deleted")
    for _ in range(2):
        assert drift(lab)["state"] == "clean"
    return lab


def drift(lab: Lab, *options: str) -> dict[str, Any]:
    """Run one drift scan and return its report."""
    assert lab.project
    said = lab.project.rackwright("drift", lab.project.stack, "--json", *options)
    assert said.status in (0, 1, 3) and "{" in said.output, said.end
    found: dict[str, Any] = json.loads(said.output[said.output.index("{\n") :])
    return found


def chosen() -> str:
    """Return `sample` (default) or `all`."""
    return os.environ.get("RACKWRIGHT_FAULTS", "sample")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the score, and each fault's time if all were injected."""
    told = score.lines(terminalreporter.stats)
    if told:
        terminalreporter.section("faults")
        for line in [*(score.slowest_first(terminalreporter.stats) if chosen() == "all" else ()), *told]:
            terminalreporter.write_line(line)
