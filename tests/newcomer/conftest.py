"""A run of its own for each session; machines and folders of runs that were killed are removed first."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from newcomer.image import require_tools
from newcomer.journey import CASES, Journey
from newcomer.machine import Machine
from newcomer.runs import Run, remove_orphans

CHECKOUT = Path(__file__).resolve().parents[2]
_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def log(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Write a line to the terminal at once: a step takes minutes."""
    plugins = request.config.pluginmanager
    capture, reporter = plugins.getplugin("capturemanager"), plugins.getplugin("terminalreporter")

    def write_line(line: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(line)

    return write_line


@pytest.fixture(scope="session")
def run(log: Callable[[str], None]) -> Iterator[Run]:
    """The session's run; everything that carries its id is gone afterwards."""
    require_tools()
    for orphan in remove_orphans():
        log(f"removed what run {orphan} had left")
    run = Run.begin()
    yield run
    run.remove()
    assert not run.folder.exists()


@pytest.fixture(scope="session")
def boot(run: Run, log: Callable[[str], None]) -> Callable[[str, str], Machine]:
    """Boot a machine of a release under a name."""

    def boot_machine(os_name: str, name: str) -> Machine:
        machine = run.create_machine(os_name, name)
        machine.start()
        seconds = machine.wait_for_ssh()
        log(f"{machine.name}: {os_name}, {machine.accel}, SSH after {seconds:.0f} s")
        return machine

    return boot_machine


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The checkout under test; machines clone what it has committed."""
    return CHECKOUT


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def prepared(
    request: pytest.FixtureRequest, boot: Callable[[str, str], Machine], log: Callable[[str], None], checkout: Path, with_caches: bool
) -> Iterator[Journey]:
    """A machine with a clone, and with what saves time."""
    os_name, mode = request.param
    machine = boot(os_name, f"{os_name}-{mode}")
    try:
        journey = Journey(machine, mode == "rootful", log)
        journey.prepare(checkout, with_caches=with_caches)
        yield journey
    finally:
        machine.destroy()


@pytest.fixture(scope="session")
def with_caches() -> bool:
    """Whether machines are handed the engine and the node image of this machine."""
    return os.environ.get("RACKWRIGHT_NEWCOMER_CACHES", "on") != "off"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, for the fixtures it used."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def failed(request: pytest.FixtureRequest) -> Callable[[], bool]:
    """Tell whether the test that uses the fixture has failed."""
    return lambda: request.node.stash.get(_FAILED, False)
