"""The sequence of one run: each phase depends on those before it; the record is updated after each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rackwright.checks.acceptance.bisection.verdict import PHASE, TITLE
from rackwright.checks.acceptance.harness import baseline, files
from rackwright.checks.acceptance.harness.bisection_run import Announce, Bisection
from rackwright.checks.acceptance.harness.node_scope import SubmitHost, absent
from rackwright.checks.acceptance.harness.phase_run import PhaseContext, PhaseResult, run_phase
from rackwright.checks.acceptance.phase import Finding, Phase
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.acceptance import Acceptance, PhaseReport, PhaseState
from rackwright.report.check_plan import CheckPlan, Expected, NotRun
from rackwright.report.document import NOT_ENDED, build_report
from rackwright.report.redact import Redactor
from rackwright.report.result import Result, result
from rackwright.report.store import write_acceptance
from rackwright.report.verdict import Evidence, NotRunReason, SkipReason, Verdict, worst


@dataclass
class PhaseSequence:
    """The results that one run owes, and those that it has so far."""

    declared: Inventory
    check_plan: CheckPlan
    sender: SubmitHost
    run: str
    home: Path
    """The stack's folder on this machine."""
    redact: Redactor
    keep_going: bool = False
    results: dict[str, Result] = field(default_factory=dict)
    phases: list[PhaseReport] = field(default_factory=list)
    where: str = ""
    """Folder of the results."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)
    stopped: str = ""
    """Name of the phase that did not pass, so that later phases do not run."""
    bisection: Mapping[str, Any] | None = None
    """Document of the search for a culprit, if the run had one."""

    def run_phase(self, context: PhaseContext, number: int, phase: Phase) -> None:
        """Run one phase, or record why it does not run."""
        expected = {id_: item for id_, item in self.check_plan.expected.items() if item.spec.subject == phase.name}
        if self.stopped and expected:
            self._leave(number, phase)
            return
        measured = {id_: item for id_, item in expected.items() if not self._stands_in(item)}
        if not measured:
            state, reason = self._why_not(phase)
            self.phases.append(PhaseReport(number, phase.name, phase.title, state, _skipped(state), reason, 0.0, ""))
            return
        began, outcome = time.monotonic(), PhaseResult()
        run_phase(context, number, phase, outcome)
        self._finish_phase(context, number, phase, outcome, began)

    def run_bisection(self, context: PhaseContext, number: int, announce: Announce) -> None:
        """Search the part that makes a collective slow, unless all phases of this run passed."""
        phase = Phase(PHASE, TITLE, evaluate=lambda _scope, _outputs: ())
        if self.phases and all(one.verdict is Verdict.PASSED for one in self.phases):
            reason = "the requested phases passed: there is nothing to search"
            self._drop(PHASE, NotRunReason.PHASE, reason)
            self.phases.append(PhaseReport(number, PHASE, TITLE, PhaseState.NOT_RUN, None, reason, 0.0, ""))
            return
        began, searching = time.monotonic(), Bisection(context, number, announce)
        try:
            self.bisection = searching.run()
        except UndeterminedError as error:
            searching.outcome.reason = str(error)
        self._finish_phase(context, number, phase, searching.outcome, began)

    def _finish_phase(self, context: PhaseContext, number: int, phase: Phase, outcome: PhaseResult, began: float) -> None:
        """Record the results of a phase that ran."""
        expected = {id_: item for id_, item in self.check_plan.expected.items() if item.spec.subject == phase.name}
        self._settle({id_: item for id_, item in expected.items() if id_ not in self.results}, outcome)
        verdict = worst(self.results[id_].verdict for id_ in expected)
        report = PhaseReport(number, phase.name, phase.title, PhaseState.RAN, verdict, "", time.monotonic() - began, "")
        report = replace(report, jobs=files.jobs_of(outcome, self.redact), measurements=files.measurements_of(outcome))
        self.phases.append(replace(report, artifacts=self._keep(context, outcome, report, [self.results[id_] for id_ in expected])))
        if verdict in (Verdict.FAILED, Verdict.UNKNOWN) and not self.keep_going:
            self.stopped = f"phase {number} ({phase.title})"
        self.record(ended=False)

    def record(self, *, ended: bool, missing: str = NOT_ENDED) -> Acceptance:
        """Record the results so far; every other result is unknown, for the reason `missing`."""
        seconds = time.monotonic() - self.clock
        report = build_report(self.declared, self.check_plan, self.results, started=self.started, seconds=seconds, missing=missing)
        about = tuple(node for node in report.nodes if node["checks"] or node["state"] == "out")  # Jobs give no results for storage nodes.
        acceptance = Acceptance(replace(report, nodes=about), self.run, self.sender.user, self.where, tuple(self.phases), self.bisection)
        write_acceptance(acceptance, self.home, ended=ended)
        return acceptance

    def finish(self, ending: str) -> Acceptance:
        """Record the final report. The figures of a complete and passed run become the baseline of later runs."""
        acceptance = self.record(ended=True, missing=f"did not run: {ending}" if ending else NOT_ENDED)
        if acceptance.report.verdict is Verdict.PASSED and not acceptance.report.partial:
            baseline.save(self.home, acceptance)
        return acceptance

    def _drop(self, subject: str, reason: NotRunReason, why: str) -> None:
        """Remove the checks of a phase from the run, which the report states."""
        expected = {id_: item for id_, item in self.check_plan.expected.items() if item.spec.subject == subject}
        keys = dict.fromkeys(item.spec.key for item in expected.values())
        kept = {id_: item for id_, item in self.check_plan.expected.items() if id_ not in expected}
        left = tuple(NotRun(key, reason, why) for key in keys)
        self.check_plan = CheckPlan(self.check_plan.level, kept, (*self.check_plan.not_run, *left), self.check_plan.empty_groups)

    def _leave(self, number: int, phase: Phase) -> None:
        """Leave out a phase because an earlier one did not pass: its checks are no longer part of the run, which the report states."""
        why = f"{self.stopped} did not pass"
        self._drop(phase.name, NotRunReason.STOPPED, why)
        self.phases.append(PhaseReport(number, phase.name, phase.title, PhaseState.NOT_RUN, None, why, 0.0, ""))

    def _stands_in(self, item: Expected) -> bool:
        """Return whether a check has nothing to measure here; that is then its result."""
        if item.spec.real_only and item.evidence is Evidence.SIMULATED:
            self.results[item.id] = result(item, Verdict.SKIPPED, reason=SkipReason.SIMULATED_HARDWARE, stack=self.declared.stack)
            return True
        return False

    def _why_not(self, phase: Phase) -> tuple[PhaseState, str]:
        """Return why a phase is not run."""
        if any(item.spec.subject == phase.name for item in self.check_plan.expected.values()):
            return PhaseState.SKIPPED, SkipReason.SIMULATED_HARDWARE
        reasons = [item for item in self.check_plan.not_run if item.id.startswith(f"{phase.name}.")]
        if all(item.reason is NotRunReason.NOT_IN_PLAN for item in reasons):
            return PhaseState.SKIPPED, SkipReason.NOT_IN_PLAN
        return PhaseState.NOT_RUN, next(item.detail for item in reasons if item.reason is not NotRunReason.NOT_IN_PLAN)

    def _settle(self, measured: Mapping[str, Expected], outcome: PhaseResult) -> None:
        """Turn findings into results; a check without a finding is skipped if the node is at work, otherwise unknown."""
        found = {(finding.check, finding.node): finding for finding in outcome.findings}
        for id_, item in measured.items():
            told = found.get((item.spec.name, item.node))
            if told is None:
                verdict, reason = self._missing_verdict(item.node, outcome)
                told = Finding(item.spec.name, item.node, verdict, reason)
            self.results[id_] = result(
                item,
                told.verdict,
                reason=self.redact(told.reason),
                expected=self.redact(told.expected),
                found=self.redact(told.found),
                stack=self.declared.stack,
            )

    def _missing_verdict(self, node: str, outcome: PhaseResult) -> tuple[Verdict, str]:
        scope = outcome.scope
        if scope is not None and node in scope.compute and node not in scope.nodes:
            return absent(scope.states, node, scope.busy)
        return Verdict.UNKNOWN, outcome.reason or "the phase returned no finding"

    def _keep(self, context: PhaseContext, outcome: PhaseResult, report: PhaseReport, results: list[Result]) -> str:
        """Write the phase's files to the shared file system if its jobs could write there, otherwise to this machine; return the folder."""
        name = f"{report.number:02d}-{report.name.replace('_', '-')}"
        texts = files.texts(context, outcome, report, results, self.redact)
        if context.folder is not None:
            folder = f"{context.folder}/{name}"
            if not context.ask({"write": folder, "files": texts})["error"]:
                return folder
        here = self.home / "acceptance" / f"infra-smoke-{self.run}" / name
        here.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (here / file).write_text(text, encoding="utf-8")
        self.where = self.where or str(here.parent)
        return str(here)


def _skipped(state: PhaseState) -> Verdict | None:
    return Verdict.SKIPPED if state is PhaseState.SKIPPED else None
