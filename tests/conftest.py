"""Which tests a tier runs, and which of them share a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_TESTS: Final = Path(__file__).parent
_END_TO_END: Final = ("e2e", "faults")
_SHARED_LAB: Final = ("slurm", "acceptance", "drift", "interruptions", "rolling", "hosts")
"""Folders of e2e/ whose tests use one lab, which the last test destroys."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses a tier."""
    parser.addoption(
        "--tier",
        choices=("test", "full"),
        default="full",
        help="test: of the end-to-end tests, those marked `essential` only (`make test`); full: all that are named (default)",
    )


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier does not run; give each test its worker; destroy the shared lab last."""
    if config.getoption("--tier") == "test":
        dropped = [item for item in items if _folder(item) in _END_TO_END and not item.get_closest_marker("essential")]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]
    items.sort(key=lambda item: item.path.name == "test_destroy.py")
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(_TESTS).parts[0]


def _group(item: pytest.Item) -> str:
    """Return the name that the tests of one worker share: the lab's, or the file's, whose fixtures are created once."""
    parts = item.path.relative_to(_TESTS).parts
    return "lab" if parts[0] == "e2e" and parts[1] in _SHARED_LAB else "/".join(parts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many seconds of tests each tier took; side by side, they take less on the clock."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                tier = report.nodeid.split("/")[1]
                seconds[tier] = seconds.get(tier, 0.0) + report.duration
    if seconds:
        terminalreporter.section("seconds of tests")
        for tier, total in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{total:7.0f}  {tier}")
