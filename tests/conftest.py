"""Options of all tests: the tier, and whether golden files are written. Which tests share a worker."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Final

import pytest
from areas.table import read_areas, worker_of
from goldens import Goldens
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_END_TO_END: Final = ("e2e", "faults")
_LAST_LINES: Final = 24
"""Lines of an error that are written at once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    parser.addoption("--update-golden", action="store_true", help="write tests/golden, and pages that a test compares, again")
    parser.addoption(
        "--tier",
        choices=("test", "full"),
        default="full",
        help="test: of the end-to-end tests, those marked `essential` only (`make test`); full: all that are named (default)",
    )


@pytest.fixture
def goldens(request: pytest.FixtureRequest) -> Goldens:
    """The golden files, to be compared with or written again."""
    return Goldens(request.config.getoption("update_golden"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, which would walk the modules and tests over and over: they live to the end of the run.

    2,884 tests were collected in 7.2 s of CPU instead of 10.0 (2026-11-28, Python 3.11).
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier does not run; destroy the shared lab last."""
    if config.getoption("--tier") == "test":
        dropped = {item for item in items if item.nodeid.split("/")[1] in _END_TO_END and not item.get_closest_marker("essential")}
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
    items.sort(key=lambda item: item.path.name == "test_destroy.py")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run one test more than there are processors where tests wait for nodes (docs/performance.md has the time of both)."""
    waits = config.getoption("--tier") == "test" and "PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ
    return len(os.sched_getaffinity(0)) + 1 if waits else None


class _AreaScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Tests of one file, and those of areas that name one worker, run in one worker.

    xdist_group has no effect with pytest-xdist 3.8 and pytest 9.2.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._areas = tuple(read_areas().values())

    def _split_scope(self, nodeid: str) -> str:
        return worker_of(nodeid.split("::")[0], self._areas)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Choose the scheduler of `-n`."""
    return _AreaScheduling(config, log)


class _Failures:
    """Each failed test is named at once, for the details come after the last test, an hour later in the longest runs."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._written: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the test and the first line of its error; and once for each error its last lines, where a command's reasons are."""
        if report.failed:
            message = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr)).strip() or "no message"
            first, *others = message.splitlines()
            self._terminal.write_line(f"\nFAILED {report.nodeid} ({report.when}): {first[:200]}")
            if message not in self._written:
                self._written.add(message)
                for line in [line for line in others if line.strip()][-_LAST_LINES:]:
                    self._terminal.write_line("    " + line[:300])


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Name failures as they come, where there is a terminal; workers of `-n` have none.

    Programs of nodes run as root, whose PATH has the folders of mkfs and wipefs. An ordinary user of Debian lacks them.
    """
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(terminal))


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
