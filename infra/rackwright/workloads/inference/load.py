"""Closed-loop clients of a model server: each sends its next request when the last one has ended. Standard library only.

RUN/load.json, which may be replaced at any time, sets the load: {"stage": name, "clients": number, "ends": whether this is the end}.
RUN/events-load.jsonl receives a line for each change and for each request:
{"event": "stage", "stage", "clients", "time"}, {"event": "request", "stage", "time", "seconds", "first", "tokens", "refused",
"fingerprint", "lost"}, and at last {"event": "end"}. `lost` is why a request got no complete answer, or empty.

Retry policy: a client repeats a request that was refused with 429 or 503, after the time that the server asks for, until `--patience` has
passed. It repeats no request that a server accepted, and none whose connection failed: such a request is lost.
"""

from __future__ import annotations

import argparse
import http.client
import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.workloads.training import corpus

PATIENCE: Final = 60.0
"""Seconds after which a refused request is given up, and a silent connection lost."""
_POLL: Final = 0.5
"""Seconds between two reads of the load, and between two writes of events."""
_PROMPT: Final = 32
"""Bytes of a prompt. Chosen: a quarter of the context of the demo's model."""
_REFUSED: Final = (429, 503)


class LostError(Exception):
    """A request without a complete answer."""


@dataclass
class Outcome:
    """What became of a request."""

    stage: str
    time: float
    """When it was sent first."""
    seconds: float = 0.0
    """To its complete answer, with the waits after refusals."""
    first: float | None = None
    """To the first token, with the waits after refusals."""
    tokens: int = 0
    refused: int = 0
    fingerprint: str = ""
    lost: str = ""


@dataclass(frozen=True)
class Target:
    """The server, by an address that is resolved once: a Service keeps its own, and a fault of DNS is none of the server."""

    address: str
    port: int
    model_name: str
    max_tokens: int
    patience: float = PATIENCE

    def body(self, prompt: str) -> str:
        """Return a request."""
        options = {"max_tokens": self.max_tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
        return json.dumps({"model": self.model_name, "prompt": prompt, **options})


def send(target: Target, prompt: str, stage: str) -> Outcome:
    """Send a request until it is accepted; return what became of it."""
    outcome, begun = Outcome(stage, round(time.time(), 3)), time.monotonic()
    try:
        while (wait := _attempt(target, prompt, outcome, begun)) is not None:
            outcome.refused += 1
            if time.monotonic() + wait - begun > target.patience:
                raise LostError(f"refused {outcome.refused} times in {target.patience:.0f} s")
            time.sleep(wait)
    except (OSError, http.client.HTTPException, LostError, ValueError, KeyError) as error:
        outcome.lost = f"{type(error).__name__}: {error}"[:200] if not isinstance(error, LostError) else str(error)[:200]
    outcome.seconds = round(time.monotonic() - begun, 4)
    return outcome


def _attempt(target: Target, prompt: str, outcome: Outcome, begun: float) -> float | None:
    """Send a request once; return the seconds to wait if it was refused, None when it is complete. Raises LostError, OSError."""
    connection = http.client.HTTPConnection(target.address, target.port, timeout=target.patience)
    try:
        connection.request("POST", "/v1/completions", target.body(prompt), {"Content-Type": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        if answer.status in _REFUSED:
            return float(answer.getheader("Retry-After") or 1)
        if answer.status != 200:
            raise LostError(f"status {answer.status}: {answer.read(200).decode(errors='replace')}")
        _read(answer, outcome, begun)
        return None
    finally:
        connection.close()


def _read(answer: http.client.HTTPResponse, outcome: Outcome, begun: float) -> None:
    """Read a stream to its end. Raises LostError if it has none."""
    reason = ""
    for part in _parts(answer):
        if "error" in part:
            raise LostError(f"error in the stream: {part['error']}")
        for choice in part["choices"]:
            if outcome.first is None:
                outcome.first = round(time.monotonic() - begun, 4)
            reason = choice.get("finish_reason") or reason
        outcome.fingerprint = part.get("system_fingerprint") or outcome.fingerprint
        outcome.tokens = int((part.get("usage") or {}).get("completion_tokens", outcome.tokens))
    if not reason:
        raise LostError("the stream ended without a finish_reason")


def _parts(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """Yield the parts of a stream. Raises LostError if it is cut."""
    for line in answer:
        text = line.decode().strip()
        if text == "data: [DONE]":
            return
        if text.startswith("data: "):
            yield json.loads(text.removeprefix("data: "))
    raise LostError("the stream was cut")


class Load:
    """The clients, whose number follows a file."""

    def __init__(self, target: Target, run: Path) -> None:
        self._target, self._run = target, run
        self._stage, self._clients = "", 0
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        text = corpus.make_text(0, 64 * _PROMPT).decode()
        self._prompts = [text[start : start + _PROMPT] for start in range(0, 64 * _PROMPT, _PROMPT)]

    def drive(self, limit: float) -> None:
        """Send requests until the file says that this is the end, or the time limit has passed."""
        deadline, ends = time.monotonic() + limit, False
        while not ends:
            ends = self._follow() or time.monotonic() > deadline
            if ends:
                self._clients = 0
            self._threads = [one for one in self._threads if one.is_alive()]
            for number in range(len(self._threads), self._clients):
                self._threads.append(threading.Thread(target=self._send, args=(number,), daemon=True))
                self._threads[-1].start()
            time.sleep(_POLL)
            self._write()
        for one in self._threads:
            one.join()
        self._lines.put({"event": "end", "time": round(time.time(), 3)})
        self._write()

    def _follow(self) -> bool:
        """Take the load from the file; return whether this is the end."""
        try:
            found = json.loads((self._run / "load.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # It is replaced while it is read on another node.
            return False
        if (found["stage"], found["clients"]) != (self._stage, self._clients):
            self._stage, self._clients = found["stage"], found["clients"]
            self._lines.put({"event": "stage", "stage": self._stage, "clients": self._clients, "time": round(time.time(), 3)})
        return bool(found.get("ends"))

    def _send(self, number: int) -> None:
        """Send one request after the other, until the load has fewer clients than this one's number."""
        sent = number
        while threading.current_thread() in self._threads[: self._clients]:
            prompt = self._prompts[sent % len(self._prompts)]
            self._lines.put({"event": "request", **asdict(send(self._target, prompt, self._stage))})
            sent += 7

    def _write(self) -> None:
        lines = [self._lines.get() for _ in range(self._lines.qsize())]
        with (self._run / "events-load.jsonl").open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(one) + "\n" for one in lines))


def resolve(host: str, patience: float) -> str:
    """Return the address of a name; try again while DNS does not know it yet."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return str(socket.getaddrinfo(host, None, socket.AF_INET)[0][4][0])
        except socket.gaierror:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Drive the load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder with load.json, which receives the events")
    parser.add_argument("--host", required=True, help="name or address of the server")
    parser.add_argument("--port", type=int, default=80)
    parser.add_argument("--model-name", required=True)
    parser.add_argument("--max-tokens", type=int, default=24, help="tokens of each answer")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds to repeat a refused request")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which the load ends in any case")
    options = parser.parse_args(arguments)
    address = resolve(options.host, options.patience)
    target = Target(address, options.port, options.model_name, options.max_tokens, options.patience)
    Load(target, options.run).drive(options.limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
