"""Write the report of a run: differences first, then what ran, what is not selected, and what the run left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from slurm_suite.comparison import Difference, by_number
from slurm_suite.expectations import Table
from slurm_suite.suite_log import Outcome, Result

_WIDTH = 140


@dataclass(frozen=True)
class Run:
    """What a run found."""

    table: Table
    outcomes: Mapping[str, Outcome]
    differences: Sequence[Difference]
    setup_changes: Sequence[str] = ()
    """Slurm settings that differ from those of the recorded run."""
    repeated: Mapping[str, Outcome] = field(default_factory=dict)
    """First outcomes, beside other tests, of the tests that were run again alone."""
    leftovers: Sequence[str] = ()
    """What the tests left and the run removed."""
    damage: Sequence[str] = ()
    """What the run could not restore."""

    @property
    def is_as_expected(self) -> bool:
        """Return whether every chosen test gave its expected result and the cluster is as before."""
        return bool(self.outcomes) and not self.differences and not self.damage


def render(run: Run) -> str:
    """Return the report as text."""
    lines = [f"Slurm's test suite {run.table.slurm}: {_totals(run.outcomes)}", ""]
    lines += _section("differences from the table", _differences(run.differences))
    lines += _section("not restored", run.damage)
    lines += _section("the stack's Slurm differs from the one of the recorded run", run.setup_changes)
    lines += _section("gave another result beside other tests (the result alone counts)", _repeated(run))
    lines += _section("left behind by tests, and removed", run.leftovers)
    for result in Result:
        lines += _section(result.value, _outcomes(run, result))
    lines += _section("not selected", _reasons(run.table.not_selected))
    if run.table.not_run_yet:
        lines += _section("not run yet: no result of these tests was ever recorded", [" ".join(run.table.not_run_yet)])
    return "\n".join(lines).rstrip() + "\n"


def _totals(outcomes: Mapping[str, Outcome]) -> str:
    counts = {result: sum(outcome.result is result for outcome in outcomes.values()) for result in Result}
    return f"{len(outcomes)} tests ran: " + ", ".join(f"{count} {result}" for result, count in counts.items())


def _section(title: str, rows: Iterable[str]) -> list[str]:
    listed = list(rows)
    wrapped = [line for row in listed for line in wrap(row, _WIDTH, initial_indent="  ", subsequent_indent=" " * 11)]
    return [f"{title} ({len(listed)})", *wrapped, ""] if listed else []


def _differences(found: Sequence[Difference]) -> list[str]:
    """Return a row for each difference; equal ones, such as those of a new release of the suite, share a row."""
    tests: dict[tuple[str, str], list[str]] = {}
    for one in found:
        tests.setdefault((one.expected, one.found), []).append(one.test)
    return [f"{' '.join(same):8} expected {expected}; found {seen}" for (expected, seen), same in tests.items()]


def _repeated(run: Run) -> list[str]:
    rows = ((test, first, run.outcomes.get(test)) for test, first in sorted(run.repeated.items(), key=lambda row: by_number(row[0])))
    return [f"{test:8} {first.result}: {first.reason}" for test, first, second in rows if second and second.result is not first.result]


def _outcomes(run: Run, result: Result) -> list[str]:
    found = [outcome for outcome in run.outcomes.values() if outcome.result is result]
    return [f"{one.test:8} {one.seconds:6.1f} s  {one.reason}".rstrip() for one in sorted(found, key=lambda one: by_number(one.test))]


def _reasons(not_selected: Mapping[str, str]) -> list[str]:
    return [
        f"{reason}: {' '.join(test for test, other in not_selected.items() if other == reason)}"
        for reason in dict.fromkeys(not_selected.values())
    ]
