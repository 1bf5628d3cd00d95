"""Run on the node, imported by smoke_pods: wait for pods that a controller creates, and no longer than it can create them.

Python 3.9, standard library only.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rackwright.remote.programs import pod_checks as checks

if TYPE_CHECKING:
    from rackwright.remote.programs.smoke_pods import Run

Object = dict[str, Any]

REPEATS = 4
PERSISTS = 15
"""Failed attempts, and seconds between the first and the last of them, from which on a failure to create a pod counts as permanent. Chosen:
one failure may be transient. Controllers retry after 5 ms, and each time after twice as long (client-go, util/workqueue,
DefaultTypedControllerRateLimiter): attempts come 5, 10, 20 and 41 s after the first, so that one is 15 s after it by second 30."""


def await_pods(run: Run, test: Callable[[dict[str, Object]], Any], kinds: Sequence[str], seconds: float) -> str:
    """Wait until the pods pass a test; return why their owners, of these kinds, cannot create them, empty if that is not known."""
    ends = time.monotonic() + run.left(seconds)
    while True:
        if run.until(test, 1):
            return ""
        failure = persistent_failure(warnings(run, kinds))
        if failure or time.monotonic() >= ends:
            return failure


def warnings(run: Run, kinds: Sequence[str]) -> list[Object]:
    """Return the warnings about objects of these kinds in the run's namespace."""
    events = run.api.get(run.path + "/events?fieldSelector=type%3DWarning")["items"]
    return [one for one in events if one["involvedObject"].get("kind") in kinds]


def persistent_failure(events: Sequence[Object]) -> str:
    """Return which failure to create something repeats, how often, for how long, and why; empty if none does."""
    failed = [one for one in events if str(one.get("reason")).startswith("FailedCreate")]
    count = sum(one.get("count") or 1 for one in failed)
    times = [_seconds(one[key]) for one in failed for key in ("firstTimestamp", "lastTimestamp") if one.get(key)]
    lasts = max(times) - min(times) if times else 0
    if count < REPEATS or lasts < PERSISTS:
        return ""
    last = max(failed, key=lambda one: one.get("lastTimestamp") or "")
    owner = last["involvedObject"]
    text = "{} on {} {}, {} times in {} s: {}"
    return text.format(last["reason"], owner["kind"], owner["name"], count, lasts, str(last.get("message"))[:300])


def not_created(run: Run, kinds: Sequence[str], failure: str) -> Object:
    """Return a summary of a pod that does not exist: the failure of its owner, else the last warning about owners of these kinds."""
    events = [] if failure else warnings(run, kinds)
    said = failure or (str(events[-1].get("message"))[:300] if events else "")
    return dict(checks.seen(None), why="it was not created" + (": " + said if said else ""))


def _seconds(stamp: str) -> int:
    return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))
