"""Metrics of one subject as a text file that node_exporter serves (its collector `textfile`). Standard library only.

A collector that cannot read its subject writes `rackwright_collector_success 0` and nothing else: a last good file would hide the failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

CONFIGURATION = "/etc/rackwright/metrics.json"
FOLDER = "/var/lib/rackwright/metrics"
PATIENCE = 5.0
"""Seconds for one command: less than the shortest scrape interval, so that a collector ends before its next start."""


class CollectError(Exception):
    """The subject could not be read; the text is the reason."""


class Samples:
    """Gauges in the order in which they were first named."""

    def __init__(self) -> None:
        self._help: dict[str, str] = {}
        self._lines: dict[str, dict[str, float]] = {}

    def describe(self, name: str, text: str) -> None:
        """Name a metric before its first value, so that its help is written."""
        self._help[name] = text
        self._lines.setdefault(name, {})

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a value; the last one of equal labels counts, because a file with a series twice is refused as a whole."""
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in sorted(labels.items()))
        self._lines.setdefault(name, {})[f"{name}{{{pairs}}}" if pairs else name] = value

    def text(self) -> str:
        """Return the file in the text format of Prometheus, version 0.0.4."""
        lines: list[str] = []
        for name, values in self._lines.items():
            if values:
                lines += [f"# HELP {name} {self._help.get(name, name)}", f"# TYPE {name} gauge"]
                lines += [f"{series} {_number(value)}" for series, value in values.items()]
        return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    """Return a label's value; a byte that is no UTF-8 would make the whole file unreadable."""
    plain = text.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def output_of(command: Sequence[str], statuses: Sequence[int] = (0,)) -> str:
    """Return what a command prints. Raise CollectError if it is missing, ends with another status, or takes longer than PATIENCE."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, env=environment, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        raise CollectError(f"{command[0]} did not answer within {PATIENCE:g} s") from None
    except OSError as error:
        raise CollectError(f"{command[0]}: {error.strerror}") from None
    if done.returncode not in statuses:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise CollectError(f"{command[0]} ended with status {done.returncode}: {said[-1] if said else 'no message'}")
    return done.stdout.decode("utf-8", "replace").replace("\r\n", "\n")


def write(subject: str, samples: Samples, folder: str = FOLDER) -> None:
    """Replace the file of a subject at once, readable by the folder's group."""
    path = os.path.join(folder, f"{subject}.prom")
    beside = f"{path}.{os.getpid()}"  # node_exporter reads files that end in .prom only
    with open(beside, "w", encoding="utf-8") as stream:
        stream.write(samples.text())
    os.chown(beside, -1, os.stat(folder).st_gid)
    os.chmod(beside, 0o640)
    os.replace(beside, path)


def run(
    subject: str, collect: Callable[[Mapping[str, Any], Samples], None], folder: str = FOLDER, configuration: str = CONFIGURATION
) -> int:
    """Collect and write; return the exit status, 1 only for a defect of the program or of its configuration."""
    began, samples, status = time.monotonic(), Samples(), 0
    try:
        with open(configuration, encoding="utf-8") as stream:
            collect(json.load(stream), samples)
    except CollectError as error:
        print(f"{subject}: {error}", file=sys.stderr)
        samples = Samples()
        success = 0
    except Exception as error:
        print(f"{subject}: {type(error).__name__}: {error}", file=sys.stderr)
        samples, success, status = Samples(), 0, 1
    else:
        success = 1
    samples.describe("rackwright_collector_success", "Whether the collector could read its subject")
    samples.set("rackwright_collector_success", success, collector=subject)
    samples.describe("rackwright_collector_seconds", "Seconds that the collector took")
    samples.set("rackwright_collector_seconds", round(time.monotonic() - began, 3), collector=subject)
    write(subject, samples, folder)
    return status
