"""The child process of an acceptance run: progress, errors, and an interruption that leaves it time for its report."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rackwright import layout
from rackwright.drivers.acceptance_runner import run_acceptance

PROGRAM = """\
import json, os, pathlib, signal, sys, time

inventory, options = pathlib.Path(sys.argv[2]), sys.argv[5:]

def report(*_):
    inventory.with_name("report").write_text("jobs cancelled")
    sys.exit(3)

signal.signal(signal.SIGTERM, report)
print("a line of another program", flush=True)
print(json.dumps({"number": 1, "title": "GPU burn"}), flush=True)
if "--bisect" in options:
    print(json.dumps({"text": "bisection round 1: a, b"}), flush=True)
print("complaint", options, os.environ.get("PYTEST_ADDOPTS"), file=sys.stderr, flush=True)
while "--wait" in options:
    time.sleep(0.01)
sys.exit(1)
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A product whose acceptance test is the program above."""
    folder = tmp_path / "rackwright" / "checks" / "acceptance"
    folder.mkdir(parents=True)
    for package in (folder, *folder.parents[:2]):
        (package / "__init__.py").touch()
    (folder / "__main__.py").write_text(PROGRAM)
    monkeypatch.setattr(layout, "IMPORT_ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    return tmp_path / "inventory.yml"


def test_run_reports_phases_status_and_complaints(inventory: Path) -> None:
    shown: list[str] = []

    async def show(text: str) -> None:
        shown.append(text)

    status, said = asyncio.run(run_acceptance(inventory, inventory, ["--level=full"], show))
    assert (status, said, shown) == (1, "complaint ['--level=full'] None", ["phase 1: GPU burn"])


def test_run_reports_rounds_of_search(inventory: Path) -> None:
    shown: list[str] = []

    async def show(text: str) -> None:
        shown.append(text)

    asyncio.run(run_acceptance(inventory, inventory, ["--bisect"], show))
    assert shown == ["phase 1: GPU burn", "bisection round 1: a, b"]


def test_cancelled_run_writes_its_report(inventory: Path) -> None:
    async def interrupt() -> tuple[int, str]:
        begun = asyncio.Event()

        async def show(_: str) -> None:
            begun.set()

        run = asyncio.create_task(run_acceptance(inventory, inventory, ["--wait"], show))
        await begun.wait()
        run.cancel()
        return await run

    assert asyncio.run(interrupt())[0] == 3
    assert inventory.with_name("report").read_text() == "jobs cancelled"
