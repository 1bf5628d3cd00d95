"""Injected failures as data: the effect on a training run, the verdict of an event, the score of a run. Queries nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from rackwright.report.training import Event, sessions_of
from rackwright.report.verdict import Verdict, worst

SCHEMA: Final = "rackwright.chaos/1"


@dataclass(frozen=True)
class TrainingEffect:
    """What a failure did to a training run."""

    step_before: int | None
    noticed_at: float | None = None
    """Time at which the job itself noticed: its launcher failed, or its ranks started again."""
    noticed_as: str = ""
    resumed_from: int | None = None
    recovered_at: float | None = None
    """End of the first step after the restart; without a restart, of the first one after the failure was undone."""
    steps_lost: int | None = None
    seconds_lost: float | None = None
    gave_up: bool = False


def effect_on_training(lines: Sequence[Event], injected: float, undone: float | None, *, ends_step: bool) -> TrainingEffect:
    """Return what a run's lines say about a failure, as far as they have been written.

    ends_step: the run cannot continue without a restart, so that steps of the old ranks after the failure are no recovery.
    """
    ranks = [line for line in lines if "job" not in line]
    sessions = sessions_of(ranks)
    steps = [line for line in ranks if line["event"] == "step"]
    before = [line for line in steps if float(line["time"]) <= injected]
    base = TrainingEffect(int(before[-1]["step"]) if before else None)
    later = [one for one in sessions if float(one.start["time"]) > injected]
    after_jobs = [line for line in lines if "job" in line and float(line["time"]) > injected]
    gave_up = any(line["event"] == "gave-up" for line in after_jobs)
    noticed = [(float(line["time"]), "its launcher failed") for line in after_jobs if line["event"] == "failed"]
    noticed += [(float(one.start["time"]), "its ranks started again") for one in later]
    at, as_ = min(noticed, default=(None, ""))
    if later:
        return _restarted(base.step_before, at, as_, sessions, later, gave_up)
    ends = [float(line["time"]) for line in after_jobs if line["event"] == "end"]
    if ends_step or undone is None or noticed:
        return TrainingEffect(base.step_before, at, as_, recovered_at=ends[0] if ends else None, gave_up=gave_up)
    first = next((float(line["time"]) for line in steps if float(line["time"]) > undone), ends[0] if ends else None)
    if first is None:
        return TrainingEffect(base.step_before, gave_up=gave_up)
    return TrainingEffect(base.step_before, recovered_at=first, steps_lost=0, seconds_lost=_stall(steps, injected, first))


def _restarted(
    step_before: int | None, at: float | None, as_: str, sessions: Sequence[Any], later: Sequence[Any], gave_up: bool
) -> TrainingEffect:
    """Return the effect on a run whose ranks started again. Its last start counts: an earlier one may have failed, too."""
    last = later[-1]
    old = [one for one in sessions if one not in later and one.steps]
    trained = [line for one in (*old[-1:], *later[:-1]) for line in one.steps]
    if not last.steps:
        return TrainingEffect(step_before, at, as_, gave_up=gave_up)
    first = last.steps[0]
    resumes = float(first["time"]) - float(first["seconds"])
    stopped = max((one.ended_at for one in old[-1:]), default=None)
    return TrainingEffect(
        step_before,
        at,
        as_,
        resumed_from=last.resumed,
        recovered_at=float(first["time"]),
        steps_lost=max((int(line["step"]) for line in trained), default=last.resumed) - last.resumed,
        seconds_lost=round(resumes - stopped, 3) if stopped is not None else None,
        gave_up=gave_up,
    )


def _stall(steps: Sequence[Event], injected: float, until: float) -> float:
    """Return the longest time between two steps around a failure beyond a median step, in seconds."""
    usual = statistics.median(float(line["seconds"]) for line in steps)
    near = [float(line["time"]) for line in steps]
    gaps = [after - before for before, after in pairwise(near) if after >= injected and before <= until]
    return round(max(0.0, max(gaps, default=0.0) - usual), 3)


@dataclass
class EventRecord:
    """One event, from its schedule to its verdict."""

    id: str
    number: int
    seed: int
    mode: str
    node: str
    scheduled_s: float
    params: dict[str, Any] = field(default_factory=dict)
    simulated: str = ""
    received: dict[str, Any] = field(default_factory=dict)
    """Rank, process and job that received the failure."""
    begun: float | None = None
    injected: float | None = None
    undone: float | None = None
    undone_by: str | None = None
    detected_by: list[dict[str, Any]] = field(default_factory=list)
    run: str | None = None
    effect: TrainingEffect = field(default_factory=lambda: TrainingEffect(None))
    clean: bool | None = None
    """Whether Slurm has all nodes in service again, and nothing of the event is left; None if that is not known."""
    verdict: Verdict = Verdict.UNKNOWN
    reason: str = "not finished"

    @property
    def recovered(self) -> bool | None:
        """Return whether the training run went on; None without a run."""
        return None if self.run is None else self.effect.recovered_at is not None and not self.effect.gave_up

    def detect(self, by: str, at: float, detail: str) -> None:
        """Add a source that noticed the failure; later sightings by the same source do not count."""
        if self.injected is not None and all(one["by"] != by for one in self.detected_by):
            self.detected_by.append({"by": by, "seconds": round(max(0.0, at - self.injected), 1), "detail": detail})

    def data(self) -> dict[str, Any]:
        """Return the record as JSON."""
        keys = ("id", "number", "seed", "mode")
        effect = self.effect
        return {
            **{key: getattr(self, key) for key in keys},
            "target": {"node": self.node, "rank": None, "pid": None, "job": None, **self.received},
            "params": self.params,
            "simulated": self.simulated or None,
            "scheduled_s": self.scheduled_s,
            **{key: getattr(self, key) for key in ("begun", "injected", "undone", "undone_by", "detected_by", "run")},
            "recovered": self.recovered,
            **{key: getattr(effect, key) for key in ("recovered_at", "step_before", "resumed_from", "steps_lost", "seconds_lost")},
            "clean": self.clean,
            "verdict": self.verdict.value,
            "reason": self.reason,
        }


def judge(record: EventRecord) -> tuple[Verdict, str]:
    """Return the verdict of an event that was injected: undone, cluster clean, training run recovered."""
    if record.undone is None:
        return Verdict.FAILED, "the failure has not been undone"
    if record.effect.gave_up:
        return Verdict.FAILED, "the training run gave up"
    if record.clean is None:
        return Verdict.UNKNOWN, "whether the cluster is clean is not known"
    if not record.clean:
        return Verdict.FAILED, "nodes are not in service again"
    if record.recovered is False:
        return Verdict.FAILED, "the training run did not continue"
    return Verdict.PASSED, "undone, nodes in service" + (", training run continues" if record.recovered else "; no training run")


def score(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of a run's events. An event counts as injected if the failure took place."""
    done = [one for one in events if one["injected"] is not None]
    first = [min(by["seconds"] for by in one["detected_by"]) for one in done if one["detected_by"]]
    verdicts = Counter(one["verdict"] for one in events)
    return {
        "events": len(events),
        "injected": len(done),
        "undone": sum(one["undone"] is not None for one in done),
        "detected": len(first),
        "median_detection_s": round(statistics.median(first), 1) if first else None,
        "with_training": sum(one["run"] is not None for one in done),
        "recovered": sum(one["recovered"] is True for one in done),
        "steps_lost": sum(one["steps_lost"] or 0 for one in done),
        "seconds_lost": round(sum(one["seconds_lost"] or 0.0 for one in done), 1),
        **{verdict.value: verdicts[verdict.value] for verdict in Verdict},
    }


def verdict_of(events: Sequence[Mapping[str, Any]], problems: Iterable[str]) -> dict[str, str]:
    """Return the verdict of a run. Without an injected failure it is unknown: nothing was tried."""
    wrong = list(problems)
    result = worst(Verdict(one["verdict"]) for one in events)
    if result in (Verdict.SKIPPED, Verdict.UNKNOWN) and all(one["injected"] is None for one in events):
        return {"result": Verdict.UNKNOWN.value, "reason": "no failure was injected"}
    if wrong:
        return {"result": worst([result, Verdict.FAILED]).value, "reason": "; ".join(wrong)}
    bad = [f"{one['id']}: {one['reason']}" for one in events if one["verdict"] == result.value and result is not Verdict.PASSED]
    return {"result": result.value, "reason": "; ".join(bad) or "every failure was undone, and the cluster is in service"}
