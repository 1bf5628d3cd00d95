"""The lab in which the workloads run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.project import Project, clone


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a running stack like lab-train."""
    project = clone(tmp_path_factory.mktemp("workloads") / "checkout", like="lab-train")
    try:
        project.run_checked("up", timeout=2400)
        yield project
    finally:
        project.pulumi("destroy")
        project.remove()
