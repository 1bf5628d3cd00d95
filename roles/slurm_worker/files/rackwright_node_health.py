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
A tool or a file system that gives no answer for 30 s drains the node, because a hanging tool indicates a broken GPU. If this program itself
waits for a processor, the missing answer does not indicate a broken GPU, and the limit is 10 min. On a slow node all limits are longer.
A single value that was not read makes its check unknown and drains nothing; it does not lift the drain for a fault of the same check.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple

LIBRARY = "/usr/local/lib/rackwright/health"
EXPECTED = "/etc/rackwright/health.json"
RECORD = "/var/lib/rackwright/health.json"
LOCK = "/run/rackwright-node-health.lock"
BEGAN = "/run/rackwright-node-health.prolog"  # its mtime is the time of the last check before a job
ECHO = 300.0  # seconds after that during which each check queries slurmctld for such a drain: slurmd repeats a failed prolog every 15 s
BUDGET = 1.8  # seconds for all tools together: with the start of Python, a health check ends within 2
PATIENCE = 30.0  # seconds without an answer of its tool until a check counts as failed
PATIENCE_IN_A_CROWD = 600.0  # the same on an overloaded node
CROWD = 5.0  # ratio of waiting for a processor to running on one: up to 3 on an idle node, answers are missing from 28 on (2 cores)
TURNS = "/proc/thread-self/schedstat"  # nanoseconds running, nanoseconds waiting, timeslices (Documentation/scheduler/sched-stats.rst)
BURDEN = 3.0  # seconds from which a health check burdens its node
RESTS = 9.0  # ratio of the pause to the duration of such a check: checks take at most a tenth of a slow node's time
LONGEST_REST = 180.0  # seconds
FRESH = 2.0  # seconds: jobs that start together share one health check
LONGEST_REASON = 160  # characters
OURS = re.compile(r"rackwright: ([a-z_]+\.[a-z_]+)(:|$)")  # rackwright's other drains contain no check id
ROLLING = "rackwright: rolling"
BY_PROLOG = "Prolog error"  # Slurm's drain reason after a failed prolog, which is this program
ASKED_EVERY = 300.0  # seconds between queries of slurmctld for a drain of a healthy node
HELD = {"DRAIN", "DOWN", "FAIL"}
MUNGE = "munge.service"
GOES_ON = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}

sys.path.insert(0, LIBRARY)


class Finding(NamedTuple):
    """Result of one check."""

    check: str
    verdict: str
    """`passed`, `failed`, `silent` if a tool or a file system gave no answer, or `unknown` if it did and a value was not read."""
    why: str


class NoAnswer(Exception):
    """A tool gave no answer, or none that could be parsed."""


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
    def patience(self) -> float:
        """Return the seconds for which a check may be without an answer."""
        return PATIENCE_IN_A_CROWD if self.waited > CROWD * self.ran else PATIENCE


class Answers:
    """Output of the node's tools; each tool runs once, when the first check needs it."""

    def __init__(self, place: SimpleNamespace, until: float) -> None:
        from rackwright.checks.cluster.harness import probe
        from rackwright.remote.programs import commands

        self._place, self._until = place, until
        self._ask, self._raw = commands.ask, probe.CommandOutput
        self.turns = Turns()
        self._given: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, question: Any) -> Any:
        """Return the parsed output. Raise NoAnswer if there is none."""
        with self._lock:
            lock = self._locks.setdefault(question.name, threading.Lock())
        with lock:
            if question.name not in self._given:
                told = self._ask(question.name, question.command_at(self._place), question.timeout, self._until)
                self._given[question.name] = self._raw(**{key: value for key, value in told.items() if key != "name"})
        try:
            return question.read(self._given[question.name])
        except Exception as error:
            raise NoAnswer(str(error) or repr(error)) from error


def look(expected: dict[str, Any]) -> tuple[tuple[Finding, ...], float]:
    """Run all checks concurrently; return the findings in the declared order, and the seconds that a check may be without an answer.

    On a slow node both limits are multiplied by the factor by which starting Python is slower there.
    """
    from rackwright.remote.programs import commands

    slowness = commands.slowness()
    os.environ[commands.SLOWNESS] = str(slowness)
    until = time.monotonic() + BUDGET * slowness
    place = SimpleNamespace(node=expected["node"], declared=SimpleNamespace(cluster=expected["cluster"]))
    answers, found, lock = Answers(place, until), {}, threading.Lock()

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
    return tuple(found[row["check"]] for row in expected["checks"]), answers.turns.patience * slowness


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


class Slurm:
    """Access this node in slurmctld."""

    def __init__(self, node: str, *, only_looks: bool = False) -> None:
        self.node, self.only_looks = node, only_looks

    def update(self, *words: str) -> None:
        """Set the state of the node. Raise OSError if slurmctld rejects it."""
        if not self.only_looks:
            self.call("update", f"NodeName={self.node}", *words)

    def call(self, *words: str) -> str:
        """Return the output of scontrol. Raise OSError if it fails, and at once if munged is suspended: scontrol would wait for it."""
        from rackwright.remote.programs import daemon_states

        if state := daemon_states.suspended([MUNGE]).get(MUNGE):
            raise OSError(f"scontrol: not called, because {MUNGE} is {state}")
        try:
            done = subprocess.run(
                ["scontrol", *words],
                capture_output=True,
                encoding="utf-8",
                errors="replace",  # names and comments of jobs are any bytes
                timeout=10,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OSError("scontrol: no answer in 10 s") from None
        if done.returncode:
            raise OSError(f"scontrol: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def seen(self) -> tuple[frozenset[str], str, bool]:
        """Return the node's states, their reason, and whether the reason is Slurm's own prolog error."""
        line = self.call("--oneliner", "show", "node", self.node)
        state = re.search(r" State=(\S+)", line)
        reason = re.search(r" Reason=(.*?)(?: \[([^@\]]+)@[^\]]*\]|$)", line.strip())
        text, by = reason.groups() if reason else ("", "")
        words = state.group(1).split("+") if state else []
        return frozenset(word.rstrip("*~#!%$@^-") for word in words), text, text == BY_PROLOG and by == "slurm"

    def is_over(self, job: str) -> bool:
        """Return whether a job has ended or was cancelled: it does not start here, whatever the prolog returns."""
        try:
            told = re.findall(r"\bJobState=(\w+)", self.call("--oneliner", "show", "job", job))
        except OSError as error:
            return "Invalid job id" in str(error)
        return bool(told) and not GOES_ON.intersection(told)  # the name of a job may say anything, also a state

    def drain(self, check: str, why: str, rolled: bool) -> bool:
        """Drain the node because of a check; return whether it did. Drains by others keep their reason."""
        states, reason, prolog = self.seen()
        mine = OURS.match(reason)
        yields = prolog or (rolled and reason == ROLLING) or (mine and mine.group(1) != check)
        if states & HELD and not yields:
            return False
        text = f"rackwright: {check}: {why}".translate({91: "(", 93: ")", 34: "'"})
        text = "".join(character if character.isprintable() else " " for character in text)
        self.update("State=DRAIN", f"Reason={text[:LONGEST_REASON]}")
        return True

    def lift(self) -> bool:
        """Resume the node if `drain` or a failed prolog drained it; return whether it did."""
        states, reason, prolog = self.seen()
        if "DRAIN" not in states or not (OURS.match(reason) or prolog):
            return False
        self.update("State=RESUME")
        return True


def remembered() -> dict[str, Any]:
    """Return the last health check.

    `wrong` has the failures, `unsure` since when a check had no answer, `unread` the checks with values that were not read, `faulty` the
    checks that failed and have not passed since, `held` whether Slurm may hold the node, `asked` the time of the last query.
    """
    nothing: dict[str, Any] = {"at": 0.0, "took": 0.0, "wrong": [], "unsure": {}, "unread": [], "faulty": [], "held": True, "asked": 0.0}
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
    unsure: dict[str, float]
    """Checks whose tool gave no answer, and since when."""
    unread: list[str]
    """Checks with values that were not read."""
    faulty: list[str]
    """Checks that failed and have not passed since."""

    @property
    def lifts(self) -> bool:
        """Return whether a drain may be lifted: no check failed, and each that had failed has passed since."""
        return not self.wrong and not self.faulty


def weighed(findings: tuple[Finding, ...], patience: float, last: dict[str, Any], now: float) -> Judgement:
    """Return what the findings mean for the node, after the last health check."""
    since = {one.check: last["unsure"].get(one.check, now) for one in findings if one.verdict == "silent"}
    silent = [[one.check, one.why] for one in findings if one.check in since and now - since[one.check] >= patience]
    failed = [[one.check, one.why] for one in findings if one.verdict == "failed"]
    unread = [one.check for one in findings if one.verdict == "unknown"]
    faulty = [one.check for one in findings if one.verdict == "failed" or (one.verdict != "passed" and one.check in last["faulty"])]
    return Judgement(failed + silent, since, unread, faulty)


def may_be_held(last: dict[str, Any], now: float) -> bool:
    """Return whether slurmctld may hold the node drained: for a check, for a prolog, or because the last query is too old."""
    try:
        began = os.stat(BEGAN).st_mtime
    except FileNotFoundError:
        began = 0.0
    return bool(last["held"]) or now - began < ECHO or not 0 <= now - last["asked"] < ASKED_EVERY


def act(slurm: Slurm, judgement: Judgement, held: bool, rolled: bool) -> bool:
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
    """Return the seconds from the start of a health check of this duration to the next."""
    return min(took + RESTS * took, LONGEST_REST) if took > BURDEN else 0.0


def run(expected: dict[str, Any], before_a_job: bool, rolled: bool, rests: bool) -> int:
    """Run one health check with its consequences, one at a time. `rests`: skip it soon after a slow one. Return the exit code."""
    if before_a_job:
        with open(BEGAN, "w", encoding="utf-8"):
            pass
    with open(LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        last, now = remembered(), time.time()
        if 0 <= now - last["at"] < (FRESH if before_a_job else rest(last["took"]) if rests else 0.0):
            judgement = Judgement(last["wrong"], last["unsure"], last["unread"], last["faulty"])
        else:
            judgement = weighed(*look(expected), last, now)
            asks = not before_a_job and may_be_held(last, now)
            held = act(Slurm(expected["node"]["name"]), judgement, asks, rolled) or (before_a_job and last["held"])
            times = {"at": now, "took": time.time() - now, "asked": now if asks else last["asked"]}
            remember({**judgement._asdict(), **times, "held": held})
    wrong, unknown = judgement.wrong, [*judgement.unsure, *judgement.unread]
    for check, why in wrong or [[check, "unknown"] for check in unknown if rolled]:
        print(f"{check}: {why}", file=sys.stderr)
    # slurmd repeats a prolog's failure, with a drain each time, until slurmctld accepts it, which never happens for a job that has ended.
    job = os.environ.get("SLURM_JOB_ID") if before_a_job and wrong else None
    if job and Slurm(expected["node"]["name"]).is_over(job):
        return 0
    return 1 if wrong else 3 if unknown and not before_a_job else 0


def check_only(expected: dict[str, Any]) -> int:
    """Report what a health check would do now; unknown results do nothing."""
    judgement = weighed(*look(expected), remembered(), time.time())
    act(Slurm(expected["node"]["name"], only_looks=True), judgement, held=True, rolled=False)
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
        return tell(look(expected)[0])
    if words == ["--check"]:
        return check_only(expected)
    before_a_job = name.endswith("prolog")
    return run(expected, before_a_job, words == ["--rolled"], rests=not words and not before_a_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
