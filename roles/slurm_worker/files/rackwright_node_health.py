#!/usr/bin/python3
"""Node health check: run the cluster's passive checks that need no other node, and drain or resume the node in Slurm.

usage: rackwright-node-health            check; drain the node if a check fails, with the check's id as the reason; lift that drain, and
                                         no other, when all checks pass. Slurm runs it every few minutes (HealthCheckProgram). On a slow
                                         node it pauses after a check for nine times the check's duration
       rackwright-node-health --now      the same, without a pause
       rackwright-node-health-prolog     the same before a job: a node that is not as declared does not start the job (Prolog)
       rackwright-node-health --rolled   check a node of a rolling update before it is resumed: the id of a failed check replaces
                                         rackwright's own drain reason; nothing is lifted
       rackwright-node-health --report   check and report each result; change nothing
       rackwright-node-health --check    report what a health check would do to the node, `drained` or `back in service`; change nothing

Exit codes: 0 as declared, 1 not as declared, 2 usage or configuration error, 3 unknown; of --check 0 or 2.
A tool or a file system that gives no answer in three of Slurm's checks in a row drains the node: a tool that fails or hangs on a node that
is otherwise quick indicates a broken GPU. Checks on an overloaded node, of less than 30 s, and before a job do not count.
An output that cannot be parsed and a value that was not read make the check unknown and drain nothing; they do not lift the drain for a
fault of the same check.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

LIBRARY = "/usr/local/lib/rackwright/health"
EXPECTED = "/etc/rackwright/health.json"
RECORD = "/var/lib/rackwright/health.json"
LOCK = "/run/rackwright-node-health.lock"
BEGAN = "/run/rackwright-node-health.prolog"  # its mtime is the time of the last check before a job
ECHO = 300.0  # seconds after that during which each check queries slurmctld for such a drain: slurmd repeats a failed prolog every 15 s
# Seconds that each tool has, and all of them together. Without persistence mode nvidia-smi initializes eight GPUs, with 1 to 3 s for each
# (NVIDIA, Driver Persistence, Overview).
TOOL = 30.0
BUDGET = 30.0
BUDGET_BEFORE_JOB = 1.8  # the same before a job, which waits for it; with the start of Python, it waits for 2 s
# Seconds that the tools of a slow node have before a job, at most: slurmd reports "Prolog hung" after 8 s, MessageTimeout less 2.
LONGEST_BEFORE_JOB = 5.0
TIMEOUT = 60.0  # seconds after which slurmd ends HealthCheckProgram, at the latest (slurm.conf(5))
SHARE = 0.75  # share of Slurm's time limit for the program that its tools may use
ROUNDS = 3  # Slurm's checks in a row without an answer of its tool until a check counts as failed
CROWD = 5.0  # ratio of waiting for a processor to running on one: up to 3 on an idle node, answers are missing from 28 on (2 cores)
TURNS = "/proc/thread-self/schedstat"  # nanoseconds running, nanoseconds waiting, timeslices (Documentation/scheduler/sched-stats.rst)
STALLED = 50.0  # percentage of the last minute in which a process waited for memory or a disk. Chosen: half of the time
PRESSURE = "/proc/pressure"  # "some avg10=0.00 avg60=0.00 …" (Documentation/accounting/psi.rst); RHEL has it after a boot with psi=1
BURDEN = 3.0  # seconds from which a health check burdens its node
RESTS = 9.0  # ratio of the pause to the duration of a check on a slow node: checks take at most a tenth of its time
LONGEST_REST = 180.0  # seconds
FRESH = 2.0  # seconds: jobs that start together share one health check
ASKED_EVERY = 300.0  # seconds between queries of slurmctld for a drain of a healthy node

sys.path.insert(0, LIBRARY)

if TYPE_CHECKING:
    from rackwright.remote.programs.slurm_node import SlurmNode


class Finding(NamedTuple):
    """Result of one check."""

    check: str
    verdict: str
    """`passed`, `failed`, `silent` if a tool or a file system gave no answer, or `unknown` if it did and it was not read."""
    why: str


class NoAnswer(Exception):
    """A tool gave no answer: it failed, is missing, or exceeded its time limit."""


class Turns:
    """Time that this program's threads ran on a processor and waited for one, in nanoseconds."""

    def __init__(self) -> None:
        self.ran = self.waited = 0

    def add(self) -> None:
        """Add the times of the calling thread at its end. Without kernel statistics, add nothing."""
        try:
            with open(TURNS, encoding="ascii") as stream:
                ran, waited = map(int, stream.read().split()[:2])
        except (OSError, ValueError):
            return
        self.ran, self.waited = self.ran + ran, self.waited + waited

    @property
    def starved(self) -> bool:
        """Return whether this program waited for a processor rather than ran on one."""
        return self.waited > CROWD * self.ran


def stalled() -> bool:
    """Return whether processes of this node wait for memory or a disk. Without kernel statistics, they do not."""
    for name in ("memory", "io"):
        try:
            with open(f"{PRESSURE}/{name}", encoding="ascii") as stream:
                found = re.search(r"^some .*\bavg60=([0-9.]+)", stream.read(), re.MULTILINE)
        except (OSError, ValueError):
            continue
        if found and float(found.group(1)) >= STALLED:
            return True
    return False


class Answers:
    """Output of the node's tools; each tool runs once, when the first check needs it."""

    def __init__(self, place: SimpleNamespace, slowness: int, until: float) -> None:
        from rackwright.checks.cluster.harness import probe
        from rackwright.remote.programs import commands

        self._place, self._slowness, self._until = place, slowness, until
        self._ask, self._raw = commands.ask, probe.CommandOutput
        self.turns = Turns()
        self._given: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, question: Any) -> Any:
        """Return the parsed output. Raise NoAnswer if there is none, and the parser's error if it cannot be parsed."""
        with self._lock:
            lock = self._locks.setdefault(question.name, threading.Lock())
        with lock:
            if question.name not in self._given:
                timeout = max(question.timeout, TOOL) * self._slowness
                told = self._ask(question.name, question.command_at(self._place), timeout, self._until)
                self._given[question.name] = self._raw(**{key: value for key, value in told.items() if key != "name"})
        given = self._given[question.name]
        try:
            return question.read(given)
        except Exception as error:
            if given.error or given.rc:
                raise NoAnswer(str(error) or repr(error)) from error
            raise


class Round(NamedTuple):
    """Results of one health check."""

    findings: tuple[Finding, ...]
    """In the declared order."""
    slow: bool = False
    """Python starts slowly here, and all limits were longer."""
    excuses_silence: bool = False
    """A missing answer proves nothing: its time was short, or the node is slower than the limits grow or has no time for it."""


def look(expected: dict[str, Any], before_a_job: bool = False) -> Round:
    """Run all checks concurrently. On a slow node, limits are multiplied by the factor by which starting Python is slower there."""
    from rackwright.remote.programs import commands

    slowness = commands.slowness()
    os.environ[commands.SLOWNESS] = str(slowness)
    budget = (
        min(BUDGET_BEFORE_JOB * slowness, LONGEST_BEFORE_JOB)
        if before_a_job
        else min(BUDGET * slowness, SHARE * expected.get("seconds", TIMEOUT))
    )
    until = time.monotonic() + budget
    place = SimpleNamespace(node=expected["node"], declared=SimpleNamespace(cluster=expected["cluster"]))
    answers, found, lock = Answers(place, slowness, until), {}, threading.Lock()

    def work(row: dict[str, Any]) -> None:
        found[row["check"]] = judged(row, expected, answers)
        with lock:
            answers.turns.add()

    hands = [threading.Thread(target=work, args=(row,)) for row in expected["checks"]]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    answers.turns.add()
    excused = budget < TOOL or slowness >= commands.MAX_SLOWNESS or answers.turns.starved or stalled()
    return Round(tuple(found[row["check"]] for row in expected["checks"]), slowness > 1, excused)


def judged(row: dict[str, Any], expected: dict[str, Any], answers: Callable[[Any], Any]) -> Finding:
    """Call one check function with the arguments that it declares; return its finding."""
    from rackwright.checks.cluster.harness.compare import Expect, Mismatch
    from rackwright.checks.cluster.harness.tool_output import MissingAnswer, unread_values

    class Comparison(Expect):
        """The comparison, and whether a value is missing because a peer or a file system did not respond."""

        silent = False

        def __call__(self, found: Any, planned: Any, **options: Any) -> None:
            self.silent |= any(isinstance(value, MissingAnswer) for value in unread_values(found))
            super().__call__(found, planned, **options)

    subject, _, name = row["check"].partition(".")
    expect = Comparison()
    given = {"node": record(expected["node"]), "cluster": record(expected["cluster"]), "limit": row["limit"]}
    offered = {**given, "ask": answers, "expect": expect}
    try:
        check = getattr(import_module(f"rackwright.checks.cluster.test_{subject}"), f"test_{name}")
        check(**{wanted: offered[wanted] for wanted in check.__code__.co_varnames[: check.__code__.co_argcount]})
    except Mismatch as mismatch:
        return Finding(row["check"], "failed", str(mismatch))
    except NoAnswer as error:
        return Finding(row["check"], "silent", str(error))
    except Exception as error:  # an exception in a check is an unknown result
        return Finding(row["check"], "silent" if expect.silent else "unknown", str(error) or repr(error))
    return Finding(row["check"], "passed", "") if expect.compared else Finding(row["check"], "unknown", "the check compared nothing")


def record(data: Any) -> Any:
    """Return plain data with its keys as attributes."""
    return json.loads(json.dumps(data), object_hook=lambda values: SimpleNamespace(**values))


def remembered() -> dict[str, Any]:
    """Return the last health check.

    `took` is the duration of a check on a slow node, `wrong` has the failures, `silent` how many of Slurm's checks in a row had no answer,
    `unread` the checks with values that were not read, `faulty` the checks that failed and have not passed since, `held` whether Slurm may
    hold the node, `asked` the time of the last query.
    """
    nothing: dict[str, Any] = {"at": 0.0, "took": 0.0, "wrong": [], "silent": {}, "unread": [], "faulty": [], "held": True, "asked": 0.0}
    try:
        with open(RECORD, encoding="utf-8") as stream:
            return nothing | dict(json.load(stream))
    except (FileNotFoundError, ValueError):
        return nothing


def remember(told: dict[str, Any]) -> None:
    """Record a health check."""
    with open(f"{RECORD}.new", "w", encoding="utf-8") as stream:
        json.dump(told, stream)
    os.replace(f"{RECORD}.new", RECORD)


class Judgement(NamedTuple):
    """What the findings mean for the node."""

    wrong: list[list[str]]
    """Failures as [check, reason]: faults, then tools without an answer for too long."""
    silent: dict[str, int]
    """Checks whose tool gave no answer, and in how many of Slurm's checks in a row."""
    unread: list[str]
    """Checks with values that were not read."""
    faulty: list[str]
    """Checks that failed and have not passed since."""

    @property
    def lifts(self) -> bool:
        """Return whether a drain may be lifted: no check failed, and each that had failed has passed since."""
        return not self.wrong and not self.faulty


def weighed(found: Round, last: dict[str, Any], counts: bool = False) -> Judgement:
    """Return what the findings mean for the node, after the last health check. `counts`: this is one of Slurm's checks."""
    findings, more = found.findings, counts and not found.excuses_silence
    rounds = {one.check: last["silent"].get(one.check, 0) + more for one in findings if one.verdict == "silent"}
    silent = [[one.check, one.why] for one in findings if rounds.get(one.check, 0) >= ROUNDS]
    failed = [[one.check, one.why] for one in findings if one.verdict == "failed"]
    unread = [one.check for one in findings if one.verdict == "unknown"]
    faulty = [one.check for one in findings if one.verdict == "failed" or (one.verdict != "passed" and one.check in last["faulty"])]
    return Judgement(failed + silent, rounds, unread, faulty)


def locked(lock: Any, seconds: float) -> bool:
    """Wait for the lock, at most so long; return whether this process has it."""
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        else:
            return True


def may_be_held(last: dict[str, Any], now: float) -> bool:
    """Return whether slurmctld may hold the node drained: for a check, for a prolog, or because the last query is too old."""
    try:
        began = os.stat(BEGAN).st_mtime
    except FileNotFoundError:
        began = 0.0
    return bool(last["held"]) or now - began < ECHO or not 0 <= now - last["asked"] < ASKED_EVERY


def slurm_node(expected: dict[str, Any], *, only_looks: bool = False) -> SlurmNode:
    """Return this node in slurmctld."""
    from rackwright.remote.programs.slurm_node import SlurmNode

    return SlurmNode(expected["node"]["name"], only_looks=only_looks)


def act(slurm: SlurmNode, judgement: Judgement, held: bool, rolled: bool) -> bool:
    """Drain or resume the node as needed; return whether it may be drained for a check afterwards."""
    wrong = judgement.wrong
    try:
        if wrong:
            if slurm.drain(*wrong[0], rolled):
                print(f"drained: {wrong[0][0]}: {wrong[0][1]}")
            return True
        if held and not rolled and judgement.lifts and slurm.lift():
            print("back in service")
        return held and (rolled or not judgement.lifts)
    except OSError as error:
        print(f"rackwright-node-health: {error} - the next health check retries", file=sys.stderr)
        return True


def rest(took: float) -> float:
    """Return the seconds from the start of a health check that took so long on a slow node to the next."""
    return min(took + RESTS * took, LONGEST_REST) if took > BURDEN else 0.0


def run(expected: dict[str, Any], before_a_job: bool, rolled: bool, rests: bool) -> int:
    """Run one health check with its consequences, one at a time. `rests`: skip it soon after a slow one. Return the exit code.

    A job does not wait for a check that waits for a hanging tool: the result of the one before counts.
    """
    if before_a_job:
        with open(BEGAN, "w", encoding="utf-8"):
            pass
    with open(LOCK, "w", encoding="utf-8") as lock:
        mine = locked(lock, BUDGET_BEFORE_JOB if before_a_job else TIMEOUT)
        last, now = remembered(), time.time()
        if not mine or 0 <= now - last["at"] < (FRESH if before_a_job else rest(last["took"]) if rests else 0.0):
            judgement = Judgement(last["wrong"], last["silent"], last["unread"], last["faulty"])
        else:
            found = look(expected, before_a_job)
            judgement = weighed(found, last, counts=not before_a_job and not rolled)
            asks = not before_a_job and may_be_held(last, now)
            held = act(slurm_node(expected), judgement, asks, rolled) or (before_a_job and last["held"])
            times = {"at": now, "took": time.time() - now if found.slow else 0.0, "asked": now if asks else last["asked"]}
            remember({**judgement._asdict(), **times, "held": held})
    wrong, unknown = judgement.wrong, [*judgement.silent, *judgement.unread]
    for check, why in wrong or [[check, "unknown"] for check in unknown if rolled]:
        print(f"{check}: {why}", file=sys.stderr)
    # slurmd repeats a prolog's failure, with a drain each time, until slurmctld accepts it, which never happens for a job that has ended.
    job = os.environ.get("SLURM_JOB_ID") if before_a_job and wrong else None
    if job and slurm_node(expected).is_over(job):
        return 0
    return 1 if wrong else 3 if unknown and not before_a_job else 0


def check_only(expected: dict[str, Any]) -> int:
    """Report what a health check would do now; unknown results do nothing."""
    judgement = weighed(look(expected), remembered())
    act(slurm_node(expected, only_looks=True), judgement, held=True, rolled=False)
    return 0


def tell(findings: tuple[Finding, ...]) -> int:
    """Print all findings, one per line; return the exit code."""
    verdicts = ["unknown" if one.verdict == "silent" else one.verdict for one in findings]
    for verdict, one in zip(verdicts, findings):
        print(f"{verdict:<7} {one.check}" + (f": {one.why}" if one.why else ""))
    return 1 if "failed" in verdicts else 3 if "unknown" in verdicts else 0


def main(name: str, words: list[str]) -> int:
    """Run the program by its name and options; return the exit code."""
    os.environ.update(LC_ALL="C.UTF-8", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if words not in ([], ["--now"], ["--report"], ["--rolled"], ["--check"]):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    try:
        with open(EXPECTED, encoding="utf-8") as stream:
            expected = json.load(stream)
    except (OSError, ValueError) as error:
        print(f"{EXPECTED}: {error} - run `rackwright up` to write the file", file=sys.stderr)
        return 2
    if words == ["--report"]:
        return tell(look(expected).findings)
    if words == ["--check"]:
        return check_only(expected)
    before_a_job = name.endswith("prolog")
    return run(expected, before_a_job, words == ["--rolled"], rests=not words and not before_a_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
