"""The result of a training run, computed from the lines that its jobs wrote: loss, speed, time lost, verdict. Queries nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from rackwright.report.verdict import Verdict

SCHEMA: Final = "rackwright.demo/1"
BAND: Final = 0.05
"""Largest relative difference between the mean losses of the last steps, where arithmetic is not repeatable: on GPUs."""
LAST: Final = 10
"""Steps of which the mean loss is compared."""
_OUTCOMES: Final = {"end": "completed", "failed": "failed", "time-limit": "time limit"}
"""Last events of a batch script -> how its attempt ended."""
_WARM: Final = 2
"""Steps after a start that do not count for the speed: memory is allocated and connections are opened."""

Event = Mapping[str, Any]


@dataclass
class _Session:
    """What one process of rank 0 did: from its start, or a restart by torchrun, to its end."""

    start: Event
    resumed: int = 0
    resumed_at: float = 0.0
    steps: list[Event] = field(default_factory=list)
    checkpoints: list[Event] = field(default_factory=list)

    @property
    def ended_at(self) -> float:
        """Return the time of its last line."""
        times = [float(self.start["time"]), self.resumed_at, *(float(one["time"]) for one in (*self.steps, *self.checkpoints))]
        return max(times)


def sessions_of(lines: Iterable[Event]) -> list[_Session]:
    """Return the sessions of rank 0 in the order of their start; lines of a session stay together, because each attempt has its file."""
    current: dict[str, _Session] = {}
    found: list[_Session] = []
    for line in lines:
        attempt, event = str(line["attempt"]), line["event"]
        if event == "start":
            current[attempt] = _Session(line)
            found.append(current[attempt])
        elif attempt in current and event == "resume":
            current[attempt].resumed, current[attempt].resumed_at = int(line["step"]), float(line["time"])
        elif attempt in current and event == "step":
            current[attempt].steps.append(line)
        elif attempt in current and event == "checkpoint":
            current[attempt].checkpoints.append(line)
    return sorted(found, key=lambda one: float(one.start["time"]))


@dataclass(frozen=True)
class Run:
    """A training run that has ended: what was asked for, and the lines of its jobs."""

    settings: Mapping[str, Any]
    lines: Sequence[Event]
    submitted: float
    ended: float

    @property
    def completed(self) -> bool:
        """Return whether the last step was trained and a job ended without an error."""
        return any(line["event"] == "end" and "job" in line for line in self.lines)

    @property
    def sessions(self) -> list[_Session]:
        """Return the sessions of rank 0."""
        return sessions_of(line for line in self.lines if "job" not in line)

    @property
    def jobs(self) -> list[Event]:
        """Return the lines of the batch scripts by time."""
        return sorted((line for line in self.lines if "job" in line), key=lambda line: float(line["time"]))

    @property
    def kept(self) -> list[Event]:
        """Return the steps that the final model consists of: of each step, the last time it was trained."""
        found: dict[int, Event] = {}
        for session in self.sessions:
            found = {step: line for step, line in found.items() if step <= session.resumed}
            found |= {int(line["step"]): line for line in session.steps}
        return [found[step] for step in sorted(found)]


def tokens_per_second(run: Run, tokens: int) -> float | None:
    """Return the speed of the median step; `tokens` of a step, all ranks together."""
    seconds = [float(line["seconds"]) for session in run.sessions for line in session.steps[_WARM:]]
    return tokens / statistics.median(seconds) if seconds and statistics.median(seconds) > 0 else None


def attempts_of(run: Run) -> Iterator[dict[str, Any]]:
    """Yield each attempt of a job, with how it ended and the step from which it resumed."""
    begun = [line for line in run.jobs if line["event"] == "begin"]
    for position, line in enumerate(begun):
        number = str(line["attempt"])
        last = next((one for one in run.jobs if one["event"] in _OUTCOMES and str(one["attempt"]) == number), None)
        sessions = [one for one in run.sessions if str(one.start["attempt"]) == number]
        following = float(begun[position + 1]["time"]) if position + 1 < len(begun) else run.ended
        yield {
            "number": int(number),
            "job": str(line["job"]),
            "nodes": str(line["nodes"]),
            "begun": float(line["time"]),
            "ended": float(last["time"]) if last else min(following, max([float(line["time"]), *(one.ended_at for one in sessions)])),
            # Without a last line of the script, its node was lost.
            "outcome": _OUTCOMES[str(last["event"])] if last else "lost",
            "resumed_from": [one.resumed for one in sessions],
        }


def time_of(run: Run) -> dict[str, float]:
    """Return where the wall time went, in seconds. Goodput is the share of steps that were kept."""
    sessions, attempts = run.sessions, list(attempts_of(run))
    productive = sum(float(line["seconds"]) for line in run.kept)
    every = sum(float(line["seconds"]) for session in sessions for line in session.steps)
    checkpoints = sum(float(line["seconds"]) for session in sessions for line in session.checkpoints)
    waiting, ready = 0.0, run.submitted
    for one in attempts:
        waiting += max(0.0, one["begun"] - ready)
        ready = one["ended"]
    begins = sorted([*(one["begun"] for one in attempts), *(one.ended_at for one in sessions)])
    starting = 0.0
    for session in sessions:
        first = session.resumed_at or float(session.start["time"])
        before = [time for time in begins if time < first]
        starting += first - before[-1] if before else 0.0
    wall = max(run.ended - run.submitted, 0.001)
    known = productive + (every - productive) + checkpoints + waiting + starting
    parts = {"productive": productive, "wasted": every - productive, "checkpoints": checkpoints, "waiting": waiting, "starting": starting}
    return {name: round(value, 3) for name, value in {"wall": wall, **parts, "other": max(0.0, wall - known)}.items()}


def failures_of(run: Run) -> Iterator[dict[str, Any]]:
    """Yield each interruption of training: steps and seconds lost, from the last line before it to the first step after it."""
    sessions = run.sessions
    for before, after in pairwise(sessions):
        done = int(before.steps[-1]["step"]) if before.steps else before.resumed
        first = after.steps[0] if after.steps else None
        again = float(first["time"]) - float(first["seconds"]) if first else None
        yield {
            "at": before.ended_at,
            "step": done,
            "resumed_from": after.resumed,
            "steps_lost": done - after.resumed,
            "seconds": round(again - before.ended_at, 3) if again is not None else None,
            "restarted_by": "torchrun" if before.start["attempt"] == after.start["attempt"] else "job",
        }


def is_undisturbed(document: Mapping[str, Any]) -> bool:
    """Return whether a run completed without an interruption, so that others may be compared with it."""
    return bool(document["completed"]) and not document["failures"] and not document["injected"]


def is_comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two runs must end in the same loss: same settings, device, text and PyTorch."""
    return bool(one["settings"] == other["settings"] and one["environment"] == other["environment"])


def judge(document: Mapping[str, Any], reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the verdict of a document without one. On CPUs the last loss must have the same bits as that of the undisturbed run."""
    on_cpu = (document["environment"] or {}).get("device") == "CPU"
    rule = "identical" if on_cpu else "band"
    answer = {"rule": rule, "reference": reference["run"] if reference else None, "reference_loss": reference and reference["final_loss"]}
    if not document["completed"]:
        return {**answer, "result": Verdict.FAILED.value, "reason": "the run did not reach its last step"}
    if reference is None:
        if is_undisturbed(document):
            return {
                **answer,
                "rule": "baseline",
                "result": Verdict.PASSED.value,
                "reason": "completed; recorded as the baseline of later runs",
            }
        return {**answer, "result": Verdict.UNKNOWN.value, "reason": "no undisturbed run with these settings is on record"}
    if on_cpu:
        same = document["final_bits"] == reference["final_bits"]
        reason = "the last loss is bit-identical to the undisturbed run's" if same else "the last loss is not the undisturbed run's"
        return {**answer, "result": (Verdict.PASSED if same else Verdict.FAILED).value, "reason": reason}
    own, other = (statistics.fmean(one["loss"] for one in run["loss"][-LAST:]) for run in (document, reference))
    difference = abs(own - other) / other
    reason = f"the mean of the last {LAST} losses differs by {difference:.1%} (at most {BAND:.0%})"
    return {**answer, "result": (Verdict.PASSED if difference <= BAND else Verdict.FAILED).value, "reason": reason}


def efficiency(document: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return speed and scaling efficiency by number of ranks; empty unless one rank and more were run on the same kind of device."""

    def kind(one: Mapping[str, Any]) -> tuple[Any, ...]:
        environment = one["environment"] or {}
        return one["settings"]["mode"], *(environment.get(key) for key in ("device", "torch", "blas"))

    speeds = {one["settings"]["ranks"]: one["tokens_s"] for one in (*others, document) if kind(one) == kind(document) and one["tokens_s"]}
    if 1 not in speeds or len(speeds) < 2:
        return []
    return [{"ranks": ranks, "tokens_s": speed, "value": round(speed / (ranks * speeds[1]), 3)} for ranks, speed in sorted(speeds.items())]


def document_of(run: Run, identity: Mapping[str, Any], injected: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the document without verdict and efficiency, which need other runs. `identity`: stack, run, user, folder, evidence."""
    sessions, kept = run.sessions, run.kept
    first = sessions[0].start if sessions else {}
    tokens = int(run.settings["batch"]) * int(first.get("context", 0))
    speed = tokens_per_second(run, tokens)
    time = time_of(run)
    return {
        "schema": SCHEMA,
        "kind": "train",
        **identity,
        "settings": dict(run.settings),
        "environment": {key: first[key] for key in ("device", "backend", "blas", "torch", "text_sha256")} if first else None,
        "model": {key: first[key] for key in ("parameters", "layers", "width", "context")} if first else None,
        "completed": run.completed,
        "loss": [{"step": int(line["step"]), "loss": float(line["loss"]), "bits": str(line["bits"])} for line in kept],
        "final_loss": float(kept[-1]["loss"]) if kept else None,
        "final_bits": str(kept[-1]["bits"]) if kept else None,
        "tokens_s": round(speed, 1) if speed else None,
        "tokens_s_per_rank": round(speed / int(run.settings["ranks"]), 1) if speed else None,
        "attempts": list(attempts_of(run)),
        "failures": list(failures_of(run)),
        "injected": list(injected),
        "time": time,
        "goodput": round(time["productive"] / time["wall"], 4),
        "checkpoints": [
            {"step": int(line["step"]), "bytes": int(line["bytes"]), "seconds": float(line["seconds"]), "sha256": str(line["sha256"])}
            for session in sessions
            for line in session.checkpoints
        ],
        "damaged": [name for line in run.lines if line["event"] == "resume" for name in line["damaged"]],
    }
