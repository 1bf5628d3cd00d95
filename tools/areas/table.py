"""The table of areas (tests/areas.yml) and the record of their last passes (tests/areas_passed.yml)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
TABLE: Final = ROOT / "tests/areas.yml"
RECORD: Final = ROOT / "tests/areas_passed.yml"
LOCAL_RECORD: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rackwright/areas_passed.yml"
"""Passes of CI runs on this machine. CI commits nothing; if the cache is kept, the next run starts with the areas that did not fit."""
_HEADER: Final = "# The last pass of each area of tests/areas.yml. `make test-full`, `make soak` and `make newcomer` write this file.\n"


@dataclass(frozen=True)
class Area:
    """A row of the table."""

    name: str
    tests: Sequence[str]
    paths: Sequence[str]
    worker: str = ""
    only: str = ""

    @property
    def command(self) -> str:
        """Return the command that runs the area."""
        return f"make test-full AREAS={self.name}" if self.only in ("", "test-full") else f"make {self.only}"

    def covers(self, file: str) -> bool:
        """Return whether a change of the file affects this area."""
        within = any(file == test or file.startswith(f"{test}/") for test in self.tests)
        return within or any(fnmatchcase(file, pattern) for pattern in self.paths)

    def holds(self, test_file: str) -> bool:
        """Return whether the test file belongs to this area."""
        return any(test_file == test or test_file.startswith(f"{test}/") for test in self.tests)


@dataclass(frozen=True)
class Pass:
    """The last run of an area in which every test passed or was skipped. `time` is UTC, `seconds` the sum of its tests' durations."""

    commit: str
    time: str
    seconds: int
    passed: int
    skipped: int


def worker_of(test_file: str, areas: Iterable[Area]) -> str:
    """Return the name of the worker that runs a test file: that of its area, or else the file itself."""
    return next((area.worker for area in areas if area.worker and area.holds(test_file)), test_file)


def read_areas(file: Path = TABLE) -> dict[str, Area]:
    """Read the table in its order."""
    rows: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {name: Area(name, **row) for name, row in rows.items()}


def read_passes(*files: Path) -> dict[str, Pass]:
    """Read records (default: the tracked one and this machine's); of two passes the later counts.

    Areas that never passed are absent. Raises SystemExit where a record cannot be read.
    """
    passes: dict[str, Pass] = {}
    for file in files or (RECORD, LOCAL_RECORD):
        try:
            rows: dict[str, Any] = (yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else None) or {}
            read = {name: Pass(**row) for name, row in rows.items()}
        except (yaml.YAMLError, AttributeError, TypeError) as error:
            raise SystemExit(
                f"{file}: {error}\nRestore the record of the areas' passes from git, or remove the file and run the areas again."
            ) from None
        for name, one in read.items():
            if name not in passes or passes[name].time < one.time:
                passes[name] = one
    return passes


def write_passes(passes: Mapping[str, Pass], areas: Iterable[str], file: Path = RECORD) -> None:
    """Write the record, one line for each area, in the order of the table."""
    rows = {name: yaml.safe_dump(asdict(passes[name]), default_flow_style=True, width=200) for name in areas if name in passes}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_HEADER + "".join(f"{name}: {row}" for name, row in rows.items()), encoding="utf-8")


def git(*arguments: str) -> str | None:
    """Return the output of git in the checkout; None if git fails."""
    ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout if ended.returncode == 0 else None


def changed_files(commit: str) -> list[str] | None:
    """Return the files that differ from a commit, including uncommitted ones; None if this clone does not have the commit."""
    differing = git("diff", "--name-only", "--no-renames", commit)
    untracked = git("ls-files", "--others", "--exclude-standard")
    return None if differing is None or untracked is None else [*differing.splitlines(), *untracked.splitlines()]
