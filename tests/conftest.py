"""Golden files for every tier that has some."""

from __future__ import annotations

import pytest
from goldens import Goldens


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option for all golden files."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden, and pages that a test compares, anew")


@pytest.fixture
def goldens(request: pytest.FixtureRequest) -> Goldens:
    """The golden files, to be compared with or written anew."""
    return Goldens(request.config.getoption("update_golden"))
