"""When a failure to create a pod counts as permanent, and how long a run waits for pods otherwise. The API is played."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rackwright.remote.programs import pod_owners


def event(seconds=25, count=13, **changes):
    """Return a warning of the StatefulSet controller, that was repeated for some seconds."""
    given = {
        "involvedObject": {"kind": "StatefulSet", "name": "group"},
        "reason": "FailedCreate",
        "message": "create Pod group-0 in StatefulSet group failed error: Internal error occurred: failed calling webhook",
        "count": count,
        "firstTimestamp": "2026-11-29T10:00:00Z",
        "lastTimestamp": f"2026-11-29T10:00:{seconds:02}Z",
    }
    return {**given, **changes}


SAID = "FailedCreate on StatefulSet group, 13 times in 25 s: create Pod group-0 in StatefulSet group failed error: Internal error"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([event()], SAID),
        ([event(seconds=5, count=12), event(count=1, firstTimestamp="2026-11-29T10:00:25Z")], SAID),
        ([event(count=1)], ""),
        ([event(seconds=5)], ""),
        ([event(reason="FailedUpdate")], ""),
        ([event(seconds=0, count=None, firstTimestamp=None, lastTimestamp=None)] * 5, ""),
        ([], ""),
    ],
    ids=["repeats", "two-messages", "once", "for-a-moment", "another-reason", "without-times", "none"],
)
def test_only_a_failure_that_repeats_and_persists_is_permanent(events, said):
    found = pod_owners.persistent_failure(events)
    assert found.startswith(said) and bool(found) is bool(said)


def played(events, answers):
    """Return a run whose pods pass the test as these answers say; afterwards, they do not."""
    remaining = list(answers)
    api = SimpleNamespace(get=lambda path: {"items": events})
    return SimpleNamespace(
        api=api, path="/api/v1/namespaces/smoke", left=lambda _: 60, until=lambda test, _: bool(remaining) and remaining.pop(0)
    )


def test_wait_ends_at_the_failure_of_an_owner_and_at_no_other_warning():
    other = event(involvedObject={"kind": "Pod", "name": "group-0"})
    assert pod_owners.await_pods(played([other, event()], []), dict, ["StatefulSet"], 45).startswith("FailedCreate on StatefulSet")
    assert pod_owners.await_pods(played([other, event(count=1)], [False, False, True]), dict, ["StatefulSet"], 45) == ""


def test_pods_that_run_are_not_held_up_by_an_earlier_failure():
    assert pod_owners.await_pods(played([event()], [True]), dict, ["StatefulSet"], 45) == ""


def test_wait_ends_after_its_time(monkeypatch):
    times = iter([0, 30, 61])
    monkeypatch.setattr(pod_owners.time, "monotonic", lambda: next(times))
    assert pod_owners.await_pods(played([], []), dict, ["StatefulSet"], 45) == "" and next(times, None) is None
