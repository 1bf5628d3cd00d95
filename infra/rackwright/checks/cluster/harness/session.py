"""One run of the checks: invalidate the old report, run the probes, run the checks, write the new report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rackwright.catalog.checks import Kind, Level, checks
from rackwright.checks.cluster import probes
from rackwright.checks.cluster.harness import transport
from rackwright.checks.cluster.harness.daemon_dependencies import SuspendedUnits
from rackwright.checks.cluster.harness.external_probes import EXTERNAL_PROBES, ExternalProbe
from rackwright.checks.cluster.harness.probe import PROBES, Probe, ProbeStage
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.cluster.probes.identity import CLOCK
from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory, load
from rackwright.report.check_plan import CheckPlan, Kinds, plan_checks
from rackwright.report.document import Report, build_report, invalidate
from rackwright.report.redact import redactor
from rackwright.report.result import Result
from rackwright.report.store import write, write_json

HERE: Final = Path(__file__).resolve().parents[1]
_UNUSED: Final = (
    *("cacheprovider", "doctest", "junitxml", "pastebin", "terminal", "unittest", "faulthandler"),
    *("stepwise", "logging", "legacypath"),
)
"""Plugins of pytest that a run does not use and that slow down its start."""


def main(argv: Sequence[str]) -> int:
    """Run the checks. Return 0 if the cluster is as declared, 1 if it differs, 2 for bad input, 3 if a result is unknown."""
    chosen = _arguments(argv)
    try:
        declared = load(chosen.inventory)
        check_plan = _plan_checks(declared, chosen)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return run(declared, check_plan, chosen).verdict.exit_code


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rackwright.checks.cluster", description="Check a live cluster against its plan.")
    parser.add_argument("--inventory", type=Path, required=True, help="Ansible inventory of the stack")
    parser.add_argument("--ssh-config", type=Path, required=True, help="ssh_config(5) file of the stack's nodes")
    parser.add_argument("--results", type=Path, required=True, help="folder for raw results; the report goes into the folder above it")
    parser.add_argument("--level", choices=list(Level), default=None, help="verification level (default: as declared)")
    parser.add_argument("--kinds", choices=list(Kinds), default=Kinds.ALL)
    parser.add_argument("--nodes", default=None, help="check only these nodes, separated by commas; the cluster verdict is left unchanged")
    parser.add_argument("pytest", nargs="*", help="further arguments for pytest, after --")
    return parser.parse_args(argv)


def _plan_checks(declared: Inventory, chosen: argparse.Namespace) -> CheckPlan:
    nodes = chosen.nodes.split(",") if chosen.nodes else None
    for name in nodes or ():
        if name not in declared.nodes:
            out = " (it is out)" if name in declared.out else ""
            raise InputError(f"is not a node of {declared.stack}{out}", path=name, hint=f"its nodes are {', '.join(declared.nodes)}")
    return plan_checks(declared, checks(), Level(chosen.level or declared.level), Kinds(chosen.kinds), nodes)


def run(declared: Inventory, check_plan: CheckPlan, chosen: argparse.Namespace) -> Report:
    """Run the owed checks. Write the report at the start, with all results unknown, and at the end."""
    started, clock = datetime.now(UTC), time.monotonic()
    folder = chosen.results.parent
    write_json(invalidate(declared, check_plan, started), folder)
    signal.signal(signal.SIGTERM, _interrupt)
    runner = ProbeRunner(declared, chosen.ssh_config, *_probes(check_plan), suspensions=SuspendedUnits(declared))
    runner.start()
    judged = _Results()
    try:
        _run_pytest(declared, check_plan, runner, chosen, judged)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        judged.ending = repr(error)
    finally:
        transport.stop()
    report = build_report(
        declared, check_plan, judged.results, started=started, seconds=time.monotonic() - clock, missing=judged.why_missing
    )
    write(report, folder)
    return report


@dataclass
class _Results:
    """Results of the checks, also where their run was interrupted."""

    results: Mapping[str, Result] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    """Reason why a file of checks, by subject, or a check, by key, could not be collected."""
    ending: str = "before it began"

    def why_missing(self, key: str) -> str:
        """Return why a check that was owed has no result."""
        return (
            self.broken.get(key) or self.broken.get(key.partition(".")[0]) or f"did not run: the run of the checks ended with {self.ending}"
        )


def _run_pytest(declared: Inventory, check_plan: CheckPlan, runner: ProbeRunner, chosen: argparse.Namespace, judged: _Results) -> None:
    """Collect and run the checks. Importing pytest takes a third of a second, during which the probes already run on the nodes."""
    import pytest

    from rackwright.checks.cluster.harness.cleanup import clean_up
    from rackwright.checks.cluster.harness.pytest_plugin import PLUGIN, CheckPlugin

    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]  # PYTEST_ADDOPTS of the user's shell must not select the checks
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    home = chosen.inventory.parent
    redact = redactor(home / "secrets.yml", home / "id_ed25519")
    chosen.results.mkdir(parents=True, exist_ok=True)
    with (chosen.results / "checks.jsonl").open("w", encoding="utf-8") as lines:
        plugin = CheckPlugin(declared, check_plan, runner, lines, redact, chosen.ssh_config)
        judged.results, judged.broken = plugin.results, plugin.broken
        ended = pytest.main(_pytest_arguments(chosen.pytest), plugins=[_Registration(PLUGIN, plugin)])
    judged.ending = ended.name if isinstance(ended, pytest.ExitCode) else str(ended)
    clean_up(declared, check_plan, runner)


class _Registration:
    """Plugin that registers the check plugin under the name that the fixtures use."""

    def __init__(self, name: str, plugin: object) -> None:
        self._name, self._plugin = name, plugin

    def pytest_configure(self, config: Any) -> None:
        """Register the check plugin as soon as pytest has a configuration."""
        config.pluginmanager.register(self._plugin, self._name)


def _pytest_arguments(more: Sequence[str]) -> list[str]:
    without = [word for plugin in _UNUSED for word in ("-p", f"no:{plugin}")]
    where = ["-c", str(HERE / "pytest.ini"), "--rootdir", str(HERE)]
    return [*where, "--continue-on-collection-errors", "--assert=plain", *without, *more, str(HERE)]


def _probes(check_plan: CheckPlan) -> tuple[list[Probe[Any]], list[ExternalProbe]]:
    """Return the probes and external probes that the checks of a run need."""
    probes.load()
    keys = {item.spec.key for item in check_plan.expected.values()}
    kinds = {item.spec.kind for item in check_plan.expected.values()}
    stages = {Kind.PASSIVE: {ProbeStage.FIRST, ProbeStage.SECOND}, Kind.JOB: {ProbeStage.JOBS, ProbeStage.AFTER_JOBS}}
    wanted = {stage for kind in kinds for stage in stages[kind]}
    # The probe of the clock shows which nodes respond. Jobs are sent only to these.
    needed = [probe for probe in PROBES.values() if probe.stage in wanted or probe is CLOCK]
    return needed, [one for one in EXTERNAL_PROBES.values() if keys.intersection(one.needed_by)]


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Exit on SIGTERM in the same way as on Ctrl-C, so that the results so far are written."""
    raise KeyboardInterrupt
