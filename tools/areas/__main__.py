"""`python -m areas list|run|ci`: end-to-end tests by area."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from areas.running import Outcome, run, tested_commit
from areas.selection import Selection, seconds_needed, select
from areas.table import LOCAL_RECORD, RECORD, Pass, changed_files, git, read_areas, read_passes, write_passes

SIDE_BY_SIDE = ("-n", "auto", "--no-loadscope-reorder")


def main(arguments: Sequence[str]) -> int:
    """Run a command. Exit code: 0 passed or listed, 1 a test failed, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m areas", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="show the areas and when each last passed")
    listing.add_argument("--json", action="store_true", help="print the names of the areas of `make test-full`, as a JSON list")
    listing.add_argument("--changed", action="store_true", help="leave out areas without a change since their last pass")
    running = commands.add_parser("run", help="run areas (default: all that no other target runs) and record those that pass")
    running.add_argument("areas", nargs="*", metavar="AREA")
    running.add_argument("--pytest", default="", help="more options for pytest")
    ci = commands.add_parser("ci", help="run the areas whose files changed since they last passed, within a budget")
    ci.add_argument("--started", type=float, default=time.time(), help="when the budget began, in seconds since 1970 (default: now)")
    ci.add_argument("--budget", type=float, required=True, help="seconds")
    ci.add_argument("--dry-run", action="store_true", help="print the selection and run nothing")
    options = parser.parse_args(arguments)
    if options.command == "list":
        return list_areas(as_json=options.json, changed=options.changed)
    if options.command == "run":
        return run_areas(options.areas, options.pytest.split())
    return run_selection(options.budget - (time.time() - options.started), dry_run=options.dry_run)


def list_areas(*, as_json: bool, changed: bool) -> int:
    """Print the table with the record."""
    areas, passes = list(read_areas().values()), read_passes()
    if changed:
        unchanged = select(areas, passes, changed_files, budget=0, workers=1, turn=0).unchanged
        areas = [area for area in areas if area not in unchanged]
    if as_json:
        print(json.dumps([area.name for area in areas if area.only in ("", "test-full")]))
        return 0
    for area in areas:
        print(f"{area.name:24} {age(passes.get(area.name)):40} {area.command}")
    return 0


def run_areas(names: Sequence[str], options: Sequence[str]) -> int:
    """Run areas and record the passes if no tracked file differs from its commit."""
    areas = read_areas()
    if unknown := [name for name in names if name not in areas]:
        print(f"there is no area {', '.join(unknown)}; the areas are {', '.join(areas)}", file=sys.stderr)
        return 2
    chosen = [areas[name] for name in names] or [area for area in areas.values() if area.only in ("", "test-full")]
    commit = tested_commit()
    status, outcomes = run(chosen, options or SIDE_BY_SIDE)
    print_outcomes(outcomes)
    if commit is None or commit != tested_commit():
        print("not recorded: tracked files differ from the commit, or changed during the run", file=sys.stderr)
    else:
        record(RECORD, commit, outcomes)
    return 0 if status == 0 else 1


def run_selection(budget: float, *, dry_run: bool) -> int:
    """Select by change, print the selection, and run it."""
    areas, passes, workers = read_areas(), read_passes(), os.cpu_count() or 1
    turn = int(git("rev-list", "--count", "HEAD") or 0)
    selection = select(list(areas.values()), passes, changed_files, budget, workers, turn)
    print_selection(selection, passes, budget, workers)
    if dry_run or not selection.run:
        return 0
    status, outcomes = run(selection.run, SIDE_BY_SIDE)
    print_outcomes(outcomes)
    if commit := tested_commit():
        record(LOCAL_RECORD, commit, outcomes)
    return 0 if status == 0 else 1


def record(file: Path, commit: str, outcomes: Mapping[str, Outcome]) -> None:
    """Add the passes of a run to a record."""
    new = {name: outcome.as_pass(commit) for name, outcome in outcomes.items() if outcome.is_pass}
    write_passes({**read_passes(file), **new}, read_areas(), file)


def print_selection(selection: Selection, passes: Mapping[str, Pass], budget: float, workers: int) -> None:
    """Print each area once, with the reason why it runs or does not."""
    needed = seconds_needed(selection.run, passes, workers)
    print(f"areas: {len(selection.run)} run, about {needed / 60:.0f} of the {max(0.0, budget) / 60:.0f} min that are left")
    for verb, chosen in (
        ("run", selection.run),
        ("did not fit this time", selection.postponed),
        ("changed, longer than the time that is left: {}", selection.too_long),
        ("changed, not for CI: {}", selection.elsewhere),
        ("no change", selection.unchanged),
    ):
        for area in chosen:
            print(f"  {area.name:24} {verb.format(area.command)}; {age(passes.get(area.name))}")


def print_outcomes(outcomes: Mapping[str, Outcome]) -> None:
    """Print one line for each area that ran."""
    for name, outcome in outcomes.items():
        verdict = "passed" if outcome.is_pass else "FAILED" if outcome.failed else "NOT TESTED"
        counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped, {outcome.missing} not run"
        print(f"area {name:24} {verdict}: {counts}, {outcome.seconds:.0f} s of tests")


def age(last: Pass | None) -> str:
    """Return the time since an area's last pass as text."""
    if last is None:
        return "never passed"
    days = (datetime.now(UTC) - datetime.fromisoformat(last.time)).days
    when = "today" if days <= 0 else f"{days} day{'' if days == 1 else 's'} ago"
    return f"passed {when} at {last.commit} ({last.seconds} s)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
