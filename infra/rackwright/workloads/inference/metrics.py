"""Metrics of the server in Prometheus' text format, with the names, labels and buckets of vLLM (vllm/v1/metrics/loggers.py).

Not all of vLLM's: those of a key-value cache, which this server has not, are left out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

# fmt: off
_FIRST: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
                 2560.0)
_LATENCY: Final = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0,
                   7680.0)
# fmt: on
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Histogram:
    """Counts of values up to each bound, and their sum."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about, self._bounds = name, about, bounds
        self._counts, self._sum = [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        place = next((index for index, bound in enumerate(self._bounds) if value <= bound), len(self._bounds))
        self._counts[place] += 1
        self._sum += value

    def lines(self, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield the cumulative counts."""
        total = 0
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            total += count
            yield sample(f"{self.name}_bucket", {**labels, "le": "+Inf" if bound is None else str(bound)}, total)
        yield sample(f"{self.name}_count", labels, total)
        yield sample(f"{self.name}_sum", labels, self._sum)


class Metrics:
    """What the server counts."""

    def __init__(self, model_name: str, facts: Mapping[str, str]) -> None:
        """Count from zero. `facts`: labels of `rackwright_model_server_info`: device, versions, checkpoint."""
        self._labels = {"model_name": model_name, "engine": "0"}
        self._facts, self._lock = facts, threading.Lock()
        self._running = self._waiting = self._prompt = self._generated = self._refused = 0
        self._finished = {"length": 0, "abort": 0}
        self._first = _Histogram("vllm:time_to_first_token_seconds", "Time to first token.", _FIRST)
        self._queued = _Histogram("vllm:request_queue_time_seconds", "Time in the queue.", _LATENCY)
        self._latency = _Histogram("vllm:e2e_request_latency_seconds", "Time from arrival to last token.", _LATENCY)

    def occupancy(self, running: int, waiting: int) -> None:
        """Set the number of requests in the batch and in the queue."""
        self._running, self._waiting = running, waiting

    def refused(self) -> None:
        """Count a request that found the queue full."""
        with self._lock:
            self._refused += 1

    def waited(self, seconds: float) -> None:
        """Observe how long a request was in the queue."""
        with self._lock:
            self._queued.observe(seconds)

    def first_token(self, seconds: float, prompt_tokens: int) -> None:
        """Observe the time to the first token, and count the prompt."""
        with self._lock:
            self._first.observe(seconds)
            self._prompt += prompt_tokens

    def generated(self) -> None:
        """Count a token."""
        with self._lock:
            self._generated += 1

    def finished(self, seconds: float) -> None:
        """Observe the latency of a complete request."""
        with self._lock:
            self._finished["length"] += 1
            self._latency.observe(seconds)

    def aborted(self, count: int) -> None:
        """Count requests whose clients have gone."""
        with self._lock:
            self._finished["abort"] += count

    def text(self) -> str:
        """Return all metrics."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for name, about, value in (
            ("vllm:num_requests_running", "Requests in the batch.", self._running),
            ("vllm:num_requests_waiting", "Requests in the queue.", self._waiting),
        ):
            yield from _family(name, about, "gauge")
            yield sample(name, self._labels, value)
        for name, about, value in (
            ("vllm:prompt_tokens_total", "Tokens of prompts.", self._prompt),
            ("vllm:generation_tokens_total", "Generated tokens.", self._generated),
            ("rackwright_requests_refused_total", "Requests that were refused because the queue was full.", self._refused),
        ):
            yield from _family(name, about, "counter")
            yield sample(name, self._labels, value)
        yield from _family("vllm:request_success_total", "Ended requests.", "counter")
        for reason, count in self._finished.items():
            yield sample("vllm:request_success_total", {**self._labels, "finished_reason": reason}, count)
        for one in (self._first, self._queued, self._latency):
            yield from _family(one.name, one.about, "histogram")
            yield from one.lines(self._labels)
        yield from _family("rackwright_model_server_info", "What serves; always 1.", "gauge")
        yield sample("rackwright_model_server_info", self._facts, 1)


def _family(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def sample(name: str, labels: Mapping[str, str], value: float) -> str:
    r"""Return a line of the text format.

    >>> sample("up", {"path": 'a"b'}, 1)
    'up{path="a\\"b"} 1'
    """
    escaped = {key: str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, text in labels.items()}
    return name + "{" + ",".join(f'{key}="{text}"' for key, text in escaped.items()) + "} " + str(value)
