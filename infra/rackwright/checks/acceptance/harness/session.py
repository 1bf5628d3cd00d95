"""One acceptance run: its arguments, its phases in order, and the report, written at its start, after each phase and at its end."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final

from rackwright.catalog.checks import Level, acceptance
from rackwright.checks.acceptance.bisection.verdict import PHASE
from rackwright.checks.acceptance.harness import baseline, launchers
from rackwright.checks.acceptance.harness.bisection_run import announce, require_slurm
from rackwright.checks.acceptance.harness.node_scope import find_submit_host
from rackwright.checks.acceptance.harness.phase_run import SETTLE, open_context
from rackwright.checks.acceptance.harness.phase_sequence import PhaseSequence
from rackwright.checks.acceptance.harness.submitter import SendRequest, Submitter, split_by_role
from rackwright.checks.acceptance.phase import Phase, runs_pods
from rackwright.checks.acceptance.phases import phases
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory.reader import Inventory, load
from rackwright.model.finding import did_you_mean
from rackwright.report.check_plan import CheckPlan, NotRun, plan_checks
from rackwright.report.redact import redactor
from rackwright.report.verdict import NotRunReason

_PR_SET_PDEATHSIG: Final = 1
"""Operation of prctl(2): the signal that the kernel sends when the parent process ends (linux/prctl.h)."""


def main(argv: Sequence[str]) -> int:
    """Run the acceptance; the exit code is 0 as declared, 1 not as declared, 2 bad input, 3 undetermined."""
    chosen = _arguments(argv)
    try:
        declared = load(chosen.inventory)
        wanted = _wanted(chosen.phase, in_pods=runs_pods(declared))
        sender = find_submit_host(declared, chosen.user)
        if chosen.bisect:
            require_slurm(declared)
            wanted = [*(wanted if chosen.phase else ()), PHASE]
        check_plan = _plan_checks(declared, wanted, Level(chosen.level))
        home = chosen.inventory.parent
        redact = redactor(home / "secrets.yml", home / "id_ed25519")
        sequence = PhaseSequence(declared, check_plan, sender, run_name(), home, redact, keep_going=chosen.keep_going)
        return _run(sequence, _submitters(sequence, chosen.ssh_config), chosen.settle, bisect=chosen.bisect)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def run_name(now: datetime | None = None) -> str:
    """Return a name for a run: its start time, and four letters that distinguish runs of the same second."""
    return f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.urandom(2).hex()}"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m rackwright.checks.acceptance", description="Run the acceptance test: jobs of an unprivileged user, phase by phase."
    )
    parser.add_argument("--inventory", type=Path, required=True, help="Ansible inventory of the stack; the report goes into its folder")
    parser.add_argument("--ssh-config", type=Path, required=True, help="ssh_config(5) file of the stack's nodes")
    parser.add_argument("--phase", action="append", default=[], help="run only this phase (repeatable); keep the cluster verdict")
    parser.add_argument("--level", choices=[Level.SMOKE, Level.FULL], default=Level.FULL, help="acceptance level (default: all phases)")
    parser.add_argument("--bisect", action="store_true", help="search the node, pair, leaf or rail that makes a collective slow")
    parser.add_argument("--keep-going", action="store_true", help="continue after a phase that did not pass")
    parser.add_argument("--user", default=None, help="user who submits the jobs (default: first user in the plan)")
    parser.add_argument(
        "--settle", type=float, default=SETTLE, metavar="SECONDS", help=f"time for busy nodes to become idle (default: {SETTLE})"
    )
    return parser.parse_args(argv)


def _wanted(requested: Sequence[str], *, in_pods: bool) -> list[str]:
    """Return the names of the requested phases; of all if none was requested."""
    names = [phase.name for phase in phases(in_pods=in_pods)]
    for name in requested:
        if _plain(name) not in names:
            raise InputError("is not a phase of the acceptance test", path=name, hint=did_you_mean(_plain(name), names))
    return [_plain(name) for name in requested] or names


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _plan_checks(declared: Inventory, wanted: Sequence[str], level: Level) -> CheckPlan:
    """Return the results that the requested phases owe; the manifest lists the others as left out."""
    in_pods = runs_pods(declared)
    known = {*(phase.name for phase in phases(in_pods=in_pods)), *({PHASE} & set(wanted))}
    rows = {key: spec.in_pods() if in_pods else spec for key, spec in acceptance().items() if spec.subject in known}
    check_plan = plan_checks(declared, {key: spec for key, spec in rows.items() if spec.subject in wanted}, level)
    others = [
        NotRun(key, NotRunReason.PHASE, "only other phases were requested") for key, spec in rows.items() if spec.subject not in wanted
    ]
    return CheckPlan(check_plan.level, check_plan.expected, (*check_plan.not_run, *others), check_plan.empty_groups)


def _submitters(sequence: PhaseSequence, ssh_config: Path) -> list[Submitter]:
    """Return the submitter of the node from which jobs are submitted; for Kubernetes also of a controller: users cannot list nodes."""
    declared, sender = sequence.declared, sequence.sender
    found = [Submitter(declared, ssh_config, sender.name, sender.user, launchers.job_program(declared))]
    if runs_pods(declared):
        found.append(Submitter(declared, ssh_config, declared.members("@control")[0], "root", launchers.node_query_program()))
    return found


@contextlib.contextmanager
def _conversation(declared: Inventory, submitters: Sequence[Submitter]) -> Iterator[SendRequest]:
    """Connect to all submitters; yield one function that reaches them all."""
    with contextlib.ExitStack() as stack:
        first, *others = [stack.enter_context(one).ask for one in submitters]
        if not others:
            yield first
            return
        yield split_by_role(first, others[0], {one["name"]: one["taints"] for one in declared.cluster["scheduler"]["nodes"]})


def _run(sequence: PhaseSequence, submitters: Sequence[Submitter], settle: float, *, bisect: bool = False) -> int:
    """Run all phases and record the report in every case."""
    signal.signal(signal.SIGTERM, _interrupt)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    sequence.record(ended=False)
    ending = ""
    try:
        with _conversation(sequence.declared, submitters) as ask:
            context = open_context(ask, sequence.sender, sequence.run, baseline.load(sequence.home), settle)
            sequence.where = context.folder or ""
            for number, phase in enumerate(phases(in_pods=runs_pods(sequence.declared)), start=1):
                if bisect and not _is_requested(sequence, phase):
                    continue
                _announce(number, phase)
                sequence.run_phase(context, number, phase)
            if bisect:
                sequence.run_bisection(context, number + 1, announce)
    except KeyboardInterrupt:
        ending = "the run was interrupted; its jobs were cancelled"
    except UndeterminedError as error:
        ending = str(error)
    except Exception as error:  # Findings until then must be recorded.
        ending = f"the run failed with an internal error: {error!r}"
    return sequence.finish(ending).report.verdict.exit_code


def _is_requested(sequence: PhaseSequence, phase: Phase) -> bool:
    """Return whether a phase has checks in this run, or would have if the plan had its subject."""
    others = {item.id for item in sequence.check_plan.not_run if item.reason is NotRunReason.PHASE}
    return not any(key.startswith(f"{phase.name}.") for key in others)


def _announce(number: int, phase: Phase) -> None:
    print(json.dumps({"number": number, "phase": phase.name, "title": phase.title}), flush=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Handle a signal like Ctrl-C, so that jobs are cancelled and findings are recorded."""
    raise KeyboardInterrupt
