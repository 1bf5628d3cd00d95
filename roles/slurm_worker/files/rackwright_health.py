#!/usr/bin/python3
"""A compute node's look at itself: the cluster's passive checks that need no other node, and what follows for Slurm.

usage: rackwright-health            looks; drains the node where a check fails, with the check's id as the reason; lifts that drain,
                                    and no other, once all is good again. Slurm runs it every few minutes (HealthCheckProgram). On a slow
                                    node it rests after a look nine times as long as that took
       rackwright-health --now      the same, without a rest
       rackwright-health-prolog     the same before a job: a node that is not as declared does not start it (Prolog)
       rackwright-health --rolled   looks before a rolled node comes back: where a check fails its id takes the place of rackwright's own
                                    reason; lifts nothing
       rackwright-health --look     looks and tells, check by check; changes nothing
       rackwright-health --foresee  tells what a look would do to the node, `drained` or `back in service`; changes nothing

Exit codes: 0 as declared, 1 not as declared, 2 it was asked or set up wrongly, 3 could not tell; of --foresee 0 or 2.
What a check could not tell drains the node after 30 s without an answer: a tool that hangs is how a broken GPU shows. On a node that has no
time for this program either, silence tells nothing of the GPU: it drains after 10 min. On a slow node all times are longer.
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
LOCK = "/run/rackwright-health.lock"
BEGAN = "/run/rackwright-health.prolog"  # its time is that of the last look before a job
ECHO = 300.0  # seconds after that in which each look asks whether Slurm holds the node for it: slurmd repeats a failed prolog every 15 s
BUDGET = 1.8  # seconds for all questions together: with starting Python, a look ends within 2
PATIENCE = 30.0  # seconds without an answer until that counts as a failure
PATIENCE_IN_A_CROWD = 600.0  # the same on a node that is crowded
CROWD = 5.0  # times as long as it had a processor it waits for one there: alone up to 3, with answers missing from 28 on (2 cores)
TURNS = "/proc/thread-self/schedstat"  # nanoseconds on a processor, waiting for one, turns (Documentation/scheduler/sched-stats.rst)
BURDEN = 3.0  # seconds from which a look burdens its node
RESTS = 9.0  # times as long as such a look took until Slurm's next call looks again: looks take at most a tenth of a slow node
LONGEST_REST = 180.0  # seconds
FRESH = 2.0  # seconds: of jobs that start together, one looks and the others take its word
LONGEST_REASON = 160  # characters
OURS = re.compile(r"rackwright: ([a-z_]+\.[a-z_]+)(:|$)")  # rackwright's other drains name no check
ROLLING = "rackwright: rolling"
BY_PROLOG = "Prolog error"  # the words of Slurm itself against a node whose prolog, this program, failed
ASKED_EVERY = 300.0  # seconds: what slurmctld holds against a node that finds itself well is asked this often
HELD = {"DRAIN", "DOWN", "FAIL"}
GOES_ON = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}

sys.path.insert(0, LIBRARY)


class Finding(NamedTuple):
    """What one check came to."""

    check: str
    verdict: str
    """`passed`, `failed` or `unknown`."""
    why: str


class Turns:
    """How long this program's threads had a processor, and how long they waited for one, in nanoseconds."""

    def __init__(self) -> None:
        self.ran = self.waited = 0

    def add(self) -> None:
        """Those of the thread that calls, at its end. Where the kernel does not count them nobody waited."""
        try:
            with open(TURNS, encoding="ascii") as stream:
                ran, waited = map(int, stream.read().split()[:2])
        except (OSError, ValueError):
            return
        self.ran, self.waited = self.ran + ran, self.waited + waited

    @property
    def patience(self) -> float:
        """Seconds for which a check may be silent."""
        return PATIENCE_IN_A_CROWD if self.waited > CROWD * self.ran else PATIENCE


class Answers:
    """What the node's tools say: each is asked once, when the first check wants to know."""

    def __init__(self, place: SimpleNamespace, until: float) -> None:
        from cluster.harness import node_side, probe

        self._place, self._until = place, until
        self._ask, self._raw = node_side.ask, probe.Raw
        self.turns = Turns()
        self._given: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __call__(self, question: Any) -> Any:
        """The answer as data; raises CouldNotTell where there is none."""
        with self._lock:
            lock = self._locks.setdefault(question.name, threading.Lock())
        with lock:
            if question.name not in self._given:
                told = self._ask(question.name, question.command_at(self._place), question.timeout, self._until)
                self._given[question.name] = self._raw(**{key: value for key, value in told.items() if key != "name"})
        return question.read(self._given[question.name])


def look(expected: dict[str, Any]) -> tuple[tuple[Finding, ...], float]:
    """All checks at the same time, in the order of the expectations; and for how many seconds one may be silent.

    On a slow node both take as many times longer as starting Python does there.
    """
    from cluster.harness import node_side

    slowness = node_side.slowness()
    os.environ[node_side.SLOWNESS] = str(slowness)
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
    """One function of the cluster's checks, called with what it asks for."""
    from cluster.harness.compare import Expect, Mismatch

    subject, _, name = row["check"].partition(".")
    expect = Expect()
    given = {"node": record(expected["node"]), "cluster": record(expected["cluster"]), "limit": row["limit"]}
    offered = {**given, "ask": answers, "expect": expect}
    try:
        check = getattr(import_module(f"cluster.test_{subject}"), f"test_{name}")
        check(**{wanted: offered[wanted] for wanted in check.__code__.co_varnames[: check.__code__.co_argcount]})
    except Mismatch as mismatch:
        return Finding(row["check"], "failed", str(mismatch))
    except Exception as error:  # a check that breaks has told nothing
        return Finding(row["check"], "unknown", str(error) or repr(error))
    return Finding(row["check"], "passed", "") if expect.compared else Finding(row["check"], "unknown", "it compared nothing")


def record(data: Any) -> Any:
    """Plain data with its keys as attributes."""
    return json.loads(json.dumps(data), object_hook=lambda values: SimpleNamespace(**values))


class Slurm:
    """This node, as slurmctld has it."""

    def __init__(self, node: str, *, only_looks: bool = False) -> None:
        self.node, self.only_looks = node, only_looks

    def update(self, *words: str) -> None:
        """Another state for the node; raises OSError where slurmctld does not take it."""
        if not self.only_looks:
            self.call("update", f"NodeName={self.node}", *words)

    def call(self, *words: str) -> str:
        """What scontrol prints; raises OSError where it fails."""
        try:
            done = subprocess.run(["scontrol", *words], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=False)
        except subprocess.TimeoutExpired:
            raise OSError("scontrol: no answer in 10 s") from None
        if done.returncode:
            raise OSError(f"scontrol: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def seen(self) -> tuple[frozenset[str], str, bool]:
        """Its states, the reason that is given for them, and whether that is Slurm's own word on this program."""
        line = self.call("--oneliner", "show", "node", self.node)
        state = re.search(r" State=(\S+)", line)
        reason = re.search(r" Reason=(.*?)(?: \[([^@\]]+)@[^\]]*\]|$)", line.strip())
        text, by = reason.groups() if reason else ("", "")
        words = state.group(1).split("+") if state else []
        return frozenset(word.rstrip("*~#!%$@^-") for word in words), text, text == BY_PROLOG and by == "slurm"

    def is_over(self, job: str) -> bool:
        """Whether a job has ended or was cancelled: it will not start here, whatever its prolog says."""
        try:
            told = re.search(r"JobState=(\w+)", self.call("--oneliner", "show", "job", job))
        except OSError as error:
            return "Invalid job id" in str(error)
        return told is not None and told.group(1) not in GOES_ON

    def drain(self, check: str, why: str, rolled: bool) -> bool:
        """No new jobs, for the check's sake. What others hold stays as they said it."""
        states, reason, prolog = self.seen()
        mine = OURS.match(reason)
        yields = prolog or (rolled and reason == ROLLING) or (mine and mine.group(1) != check)
        if states & HELD and not yields:
            return False
        text = f"rackwright: {check}: {why}".translate({91: "(", 93: ")", 10: " ", 34: "'"})
        self.update("State=DRAIN", f"Reason={text[:LONGEST_REASON]}")
        return True

    def lift(self) -> bool:
        """Back into service, where it was taken out by `drain`, or by Slurm because a look before a job failed."""
        states, reason, prolog = self.seen()
        if "DRAIN" not in states or not (OURS.match(reason) or prolog):
            return False
        self.update("State=RESUME")
        return True


def remembered() -> dict[str, Any]:
    """The last look: when, for how long, what was wrong, since when what was not told, may it be held for that, when Slurm was asked."""
    nothing: dict[str, Any] = {"at": 0.0, "took": 0.0, "wrong": [], "unsure": {}, "held": True, "asked": 0.0}
    try:
        with open(RECORD, encoding="utf-8") as stream:
            return nothing | dict(json.load(stream))
    except (FileNotFoundError, ValueError):
        return nothing


def remember(told: dict[str, Any]) -> None:
    """Puts a look on record."""
    with open(f"{RECORD}.new", "w", encoding="utf-8") as stream:
        json.dump(told, stream)
    os.replace(f"{RECORD}.new", RECORD)


def weighed(
    findings: tuple[Finding, ...], patience: float, unsure: dict[str, float], now: float
) -> tuple[list[list[str]], dict[str, float]]:
    """What is wrong, as [check, why], and since when each check that has not told has not."""
    since = {one.check: unsure.get(one.check, now) for one in findings if one.verdict == "unknown"}
    silent = [[one.check, one.why] for one in findings if one.check in since and now - since[one.check] >= patience]
    return [[one.check, one.why] for one in findings if one.verdict == "failed"] + silent, since


def may_be_held(last: dict[str, Any], now: float) -> bool:
    """Whether slurmctld may hold the node out: for a check, for a look before a job, or it was not asked for long."""
    try:
        began = os.stat(BEGAN).st_mtime
    except FileNotFoundError:
        began = 0.0
    return bool(last["held"]) or now - began < ECHO or not 0 <= now - last["asked"] < ASKED_EVERY


def act(slurm: Slurm, wrong: list[list[str]], held: bool, rolled: bool) -> bool:
    """Drains or lifts as needed; whether the node may be held for a check afterwards."""
    try:
        if wrong:
            if slurm.drain(*wrong[0], rolled):
                print(f"drained: {wrong[0][0]}: {wrong[0][1]}")
            return True
        if held and not rolled and slurm.lift():
            print("back in service")
        return held and rolled
    except OSError as error:
        print(f"rackwright-health: {error} - the next look tries again", file=sys.stderr)
        return True


def rest(took: float) -> float:
    """Seconds from the start of a look that took so long until the next."""
    return min(took + RESTS * took, LONGEST_REST) if took > BURDEN else 0.0


def run(expected: dict[str, Any], before_a_job: bool, rolled: bool, rests: bool) -> int:
    """One look with what follows, one at a time. `rests`: none so soon after one that took long."""
    if before_a_job:
        with open(BEGAN, "w", encoding="utf-8"):
            pass
    with open(LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        last, now = remembered(), time.time()
        if 0 <= now - last["at"] < (FRESH if before_a_job else rest(last["took"]) if rests else 0.0):
            wrong, unsure = last["wrong"], last["unsure"]
        else:
            wrong, unsure = weighed(*look(expected), last["unsure"], now)
            asks = not before_a_job and may_be_held(last, now)
            held = act(Slurm(expected["node"]["name"]), wrong, asks, rolled) or (before_a_job and last["held"])
            remember(
                {
                    "at": now,
                    "took": time.time() - now,
                    "wrong": wrong,
                    "unsure": unsure,
                    "held": held,
                    "asked": now if asks else last["asked"],
                }
            )
    for check, why in wrong or [[check, "could not tell"] for check in unsure if rolled]:
        print(f"{check}: {why}", file=sys.stderr)
    # slurmd repeats a prolog's failure, with a drain each time, until slurmctld takes it, and for a job that is over it never does.
    job = os.environ.get("SLURM_JOB_ID") if before_a_job and wrong else None
    if job and Slurm(expected["node"]["name"]).is_over(job):
        return 0
    return 1 if wrong else 3 if unsure and not before_a_job else 0


def foresee(expected: dict[str, Any]) -> int:
    """What a look would do now; that it could not tell does nothing, and is no answer that differs."""
    now = time.time()
    wrong, _ = weighed(*look(expected), remembered()["unsure"], now)
    act(Slurm(expected["node"]["name"], only_looks=True), wrong, held=True, rolled=False)
    return 0


def tell(findings: tuple[Finding, ...]) -> int:
    """All findings, a line each."""
    for one in findings:
        print(f"{one.verdict:<7} {one.check}" + (f": {one.why}" if one.why else ""))
    verdicts = {one.verdict for one in findings}
    return 1 if "failed" in verdicts else 3 if "unknown" in verdicts else 0


def main(name: str, words: list[str]) -> int:
    """One call, by the name it was called with."""
    os.environ.update(LC_ALL="C.UTF-8", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if words not in ([], ["--now"], ["--look"], ["--rolled"], ["--foresee"]):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    try:
        with open(EXPECTED, encoding="utf-8") as stream:
            expected = json.load(stream)
    except (OSError, ValueError) as error:
        print(f"{EXPECTED}: {error} - `rackwright up` writes it", file=sys.stderr)
        return 2
    if words == ["--look"]:
        return tell(look(expected)[0])
    if words == ["--foresee"]:
        return foresee(expected)
    before_a_job = name.endswith("prolog")
    return run(expected, before_a_job, words == ["--rolled"], rests=not words and not before_a_job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
