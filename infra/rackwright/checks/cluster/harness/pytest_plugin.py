"""Pytest plugin that selects the checks of each node and records their results. The result of a check without a value is unknown."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any, Final

import pytest

from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.daemon_dependencies import cause_of_failed_request
from rackwright.checks.cluster.harness.node_speed import CHECK
from rackwright.checks.cluster.harness.probe import DaemonDownError, KnownCauseError, NodeBusyError, NodeSlowError, ProbeContext
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.cluster.harness.slow_nodes import SlowNodes
from rackwright.checks.cluster.harness.transport import BoundedSsh
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.check_plan import CheckPlan, Expected
from rackwright.report.redact import Redactor
from rackwright.report.result import Result, result
from rackwright.report.verdict import SkipReason, Verdict

PLUGIN: Final = "rackwright-checks"


class CheckPlugin:
    """The pytest plugin of one run, with all that the run needs."""

    def __init__(
        self, declared: Inventory, check_plan: CheckPlan, runner: ProbeRunner, lines: IO[str], redact: Redactor, ssh_config: Path
    ) -> None:
        self.declared = declared
        self.check_plan = check_plan
        self.runner = runner
        self.ssh_config = ssh_config
        self.results: dict[str, Result] = {}
        self.broken: dict[str, str] = {}
        """Reason why a file of checks, by subject, or a check, by key, could not be collected."""
        self._lines = lines
        self._redact = redact
        self._left_out = {item.id for item in check_plan.not_run}
        limits = [item.spec.limit for item in check_plan.expected.values() if item.spec.key == CHECK]
        self.slow_nodes = SlowNodes(declared, runner, limits[0] if limits else None, self.reports)
        self._keys = {item.spec.key for item in check_plan.expected.values()} | set(check_plan.empty_groups)

    def context(self, node: str) -> ProbeContext:
        """Return the context for the commands of probes on a node."""
        return self.runner.context(node)

    def reports(self, key: str, node: str) -> bool:
        """Return whether this run includes the result of a check on a node."""
        return any(item.spec.key == key and item.node == node for item in self.check_plan.expected.values())

    def backend(self, node: str, limit: float) -> BoundedSsh:
        """Return testinfra's backend for a node, with a time limit in seconds."""
        return BoundedSsh(node, self.ssh_config, become=self.declared.needs_sudo(node), limit=limit)

    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
        """Skip functions that are not part of this run. A function that the catalogue lacks stays, so that its absence is reported."""
        if not name.startswith("test_") or not callable(obj):
            return None
        key = key_of(collector.path, name)
        return [] if key in self._left_out and key not in self._keys else None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Create one result for each node of the check's group. A group without nodes fails to collect (`fail_at_collect`)."""
        key = key_of(Path(metafunc.module.__file__ or ""), metafunc.function.__name__)
        if key not in self._keys:
            self.broken[key] = f"{key} is not a check of the catalogue"
            raise pytest.UsageError(self.broken[key])
        items = [item for item in self.check_plan.expected.values() if item.spec.key == key]
        if key in self.check_plan.empty_groups:
            self.broken[key] = f"group {self.check_plan.empty_groups[key]} has no node"
        metafunc.parametrize("expected_result", items, ids=[item.node for item in items], indirect=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record why a file could not be collected."""
        if report.failed:
            subject = Path(str(report.fspath)).stem.removeprefix("test_")
            lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
            self.broken.setdefault(
                subject, f"test_{subject}.py could not be collected: {lines[-1].strip() if lines else 'no reason given'}"
            )

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Select Python's own traceback format. pytest's format parses each file again, a tenth of a second for each failure."""
        session.config.option.tbstyle = "native"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Turn the outcome of a check into its result and write the result at once."""
        report = yield
        if call.when == "call" or (call.when == "setup" and call.excinfo is not None):
            self._record(item, call)
        return report

    def _record(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        expected_result = item.callspec.params["expected_result"]  # type: ignore[attr-defined]
        expect: Expect = getattr(item, "expect", None) or Expect()
        error = self._explained(expected_result, call.excinfo.value if call.excinfo else None)
        verdict, reason = verdict_of(error, expect)
        outcome = result(
            expected_result,
            verdict,
            reason=self._redact(reason),
            expected=self._redact(expect.planned),
            found=self._redact(str(error) if isinstance(error, KnownCauseError) else expect.found),
            seconds=call.duration,
            stack=self.declared.stack,
        )
        self.results[outcome.id] = outcome
        self._lines.write(json.dumps(outcome.as_dict(), ensure_ascii=False) + "\n")
        self._lines.flush()
        progress = {"done": len(self.results), "of": len(self.check_plan.expected), "id": outcome.id, "verdict": outcome.verdict}
        print(json.dumps(progress), file=sys.stdout)

    def _explained(self, expected_result: Expected, error: BaseException | None) -> BaseException | None:
        """Return the suspended daemon in place of the failed request that it causes; every other outcome unchanged."""
        if not isinstance(error, (UndeterminedError, Mismatch)) or isinstance(error, KnownCauseError):
            return error
        key, node = expected_result.spec.key, expected_result.node
        return cause_of_failed_request(key, node, error, self.runner, self.declared, self.reports) or error


def verdict_of(error: BaseException | None, expect: Expect) -> tuple[Verdict, str]:
    """Return the verdict and the reason of the outcome of a check."""
    if error is None:
        return (Verdict.PASSED, "") if expect.compared else (Verdict.UNKNOWN, "compared nothing with the plan")
    if isinstance(error, Mismatch):
        return Verdict.FAILED, f"expected {expect.planned}, found {expect.found}"
    if isinstance(error, NodeBusyError):
        return Verdict.SKIPPED, SkipReason.NODE_BUSY
    if isinstance(error, DaemonDownError):
        return Verdict.SKIPPED, SkipReason.DAEMON_DOWN
    if isinstance(error, NodeSlowError):
        return Verdict.SKIPPED, SkipReason.NODE_SLOW
    if isinstance(error, UndeterminedError):
        return Verdict.UNKNOWN, str(error)
    if isinstance(error, pytest.skip.Exception):
        return Verdict.SKIPPED, str(error.msg)
    return Verdict.UNKNOWN, f"the check failed with an internal error: {error!r}"


def key_of(file: Path, function: str) -> str:
    """The catalogue's key of a test function.

    >>> key_of(Path("infra/rackwright/checks/cluster/test_gpu.py"), "test_count_matches_plan")
    'gpu.count_matches_plan'
    """
    return f"{file.stem.removeprefix('test_')}.{function.removeprefix('test_')}"
