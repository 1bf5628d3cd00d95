"""Run chosen tests on a login node: side by side, then those with another result than expected once more, alone."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from rackwright.errors import InputError
from slurm_suite.comparison import by_number, differences
from slurm_suite.expectations import DEFAULT_LIMIT, Table
from slurm_suite.login_node import LoginNode
from slurm_suite.report import Run
from slurm_suite.source import PROGRAMS, Source, cached_source
from slurm_suite.suite_log import Outcome, read_log

JOB_SECONDS: Final = 0.5
"""Median wall time of an empty job in the lab on an unloaded machine of two cores; measured there on 2026-11-27, 0.48 s."""
MAX_JOB_DELAY: Final = 120
"""Seconds that the suite waits for a job to start; the default in `testsuite/expect/globals` of Slurm 24.11."""
_GLOBALS: Final = """\
# Written by tools/slurm_suite for one run.
set testsuite_colorize false
set testsuite_subtest_details fail_skip
set testsuite_testproc_details fail_skip
set max_job_delay {delay}
"""


class Progress(Protocol):
    """Receives one line of progress."""

    def __call__(self, line: str, /) -> None: ...


@dataclass(frozen=True)
class Options:
    """What to run: `tests` are numbers, or none for all selected ones; `shared` is a folder that all nodes mount."""

    shared: str
    workers: int
    tests: Sequence[str] = ()
    logs: Path | None = None


def run_suite(node: LoginNode, table: Table, options: Options, progress: Progress) -> Run:
    """Run the suite and return what it found. Raises RackwrightError if the node, its Slurm or the source does not permit a run."""
    version = node.slurm_version()
    if version != table.slurm:
        hint = "Record the results of that release in a table of its own."
        raise InputError(f"the node runs Slurm {version}, the table is of {table.slurm}", path=node.name, hint=hint)
    if node.jobs():
        raise InputError(f"{node.user} has jobs, which the run would cancel", path=node.name, hint="Pass another user, or wait.")
    source = cached_source(node, version)
    suite = source.tests()
    chosen = sorted(set(options.tests or table.selected), key=by_number)
    before = node.objects()
    slowness = _slowness(node, progress)
    try:
        with _installed(node, source, chosen, options.shared, slowness) as place:
            outcomes = place.run([test for test in chosen if test in suite], table, options.workers, slowness, progress)
            first = {d.test: outcomes[d.test] for d in differences(table, suite, chosen, outcomes) if d.test in outcomes}
            if first and options.workers > 1:
                slowness = _slowness(node, progress)
                outcomes |= place.run(list(first), table, 1, slowness, progress)
            place.save_logs(options.logs)
    finally:
        removed, damage = node.clean(before, 60 * slowness)
    repeated = first if options.workers > 1 else {}
    changed = [f"{key}: {value} (recorded with {table.recorded_with.get(key)})" for key, value in _changed(node, table).items()]
    return Run(table, outcomes, differences(table, suite, chosen, outcomes), changed, repeated, removed, damage)


def _slowness(node: LoginNode, progress: Progress) -> float:
    """Return by which factor this cluster is slower than the one of the limits; at least 1."""
    seconds = node.job_seconds()
    factor = max(1.0, seconds / JOB_SECONDS)
    progress(f"an empty job takes {seconds:.1f} s; limits are multiplied by {factor:.1f}")
    return factor


def _changed(node: LoginNode, table: Table) -> dict[str, str]:
    return {key: value for key, value in node.settings().items() if table.recorded_with.get(key, value) != value}


@dataclass(frozen=True)
class Place:
    """The installed suite: a folder on the shared file system and one of the login node."""

    node: LoginNode
    shared: str
    own: str

    def run(self, tests: Sequence[str], table: Table, workers: int, slowness: float, progress: Progress) -> dict[str, Outcome]:
        """Run tests; return the outcomes of those that ran."""
        order = {
            "folder": f"{self.shared}/expect",
            "logs": f"{self.own}/logs",
            "expect": f"{self.own}/expect.sh",
            "workers": workers,
            "patience": DEFAULT_LIMIT * slowness,
            "tests": {test: table.limit(test) * slowness for test in tests},
        }
        outcomes: dict[str, Outcome] = {}
        with closing(self.node.stream(self.node.as_user(f"python3 {self.own}/run_tests.py"), order)) as lines:
            for line in lines:
                row = json.loads(line)
                outcome = read_log(row["test"], row["status"], row["log"], row["seconds"])
                outcomes[outcome.test] = outcome
                progress(f"{len(outcomes)} of {len(tests)}: {outcome.test} {outcome.result}, {outcome.seconds:.0f} s")
        return outcomes

    def save_logs(self, folder: Path | None) -> None:
        """Save the logs as logs.tar.gz in a folder of this machine."""
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "logs.tar.gz").write_bytes(self.node.run(f"tar -cz -C {self.own} logs"))


@contextmanager
def _installed(node: LoginNode, source: Source, tests: Collection[str], shared: str, slowness: float) -> Iterator[Place]:
    name = f"slurm-suite-{secrets.token_hex(4)}"
    place = Place(node, f"{shared.rstrip('/')}/{name}", f"/var/tmp/{name}")
    archive = source.archive(tests, _GLOBALS.format(delay=round(MAX_JOB_DELAY * slowness)))
    folders = f"{shlex.quote(place.shared)} {place.own}"
    script = shlex.quote((PROGRAMS / "install.sh").read_text(encoding="utf-8"))
    try:
        node.run(node.as_user(f"sh -c {script} sh {folders}"), stdin=archive)
        yield place
    finally:
        node.run(f"rm -rf {folders}")


def patterns(chosen: Sequence[str], table: Mapping[str, object]) -> list[str]:
    """Return the selected tests that match numbers or series such as `17.*`. Raises InputError for one that matches none."""
    found = []
    for one in chosen:
        series = one.removesuffix("*") if one.endswith(".*") else None
        matching = [test for test in table if (test.startswith(series) if series else test == one)]
        if not matching:
            raise InputError(f"{one}: no selected test (expected a number such as 1.10, or a series such as 17.*)", path="--tests")
        found += matching
    return found
