"""Run on the node: run all commands of a round, a few at a time, each under its own time limit.

The health check of compute nodes imports `ask` and `slowness` (roles/slurm_worker).
Input: {"seconds": total limit, "workers": how many at a time, "questions": [[name, shell command, seconds]]}.
Output: {"begun": true, "slowness": factor, "speed": {…}}, then a line of JSON for each command as it ends, then {"end": true}.
Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

from rackwright.remote.programs.daemon_states import POD, suspended

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing, which each round would repeat on every node.
if TYPE_CHECKING:
    from typing import Any

MAX_OUTPUT = 1000000
"""Characters of output that are kept."""
REFERENCE = 0.03
"""Seconds in which a node for which the time limits were chosen starts Python; a fast node takes 0.009 (benchmarks/slowness.py)."""
MAX_SLOWNESS = 15
"""Factor beyond which limits no longer grow. A slower node is reported as one that does not respond."""
SLOWNESS = "RACKWRIGHT_SLOWNESS"
"""The environment variable that holds the factor, for commands that have time limits of their own. If it is set, nothing is measured."""


def slowness() -> int:
    """Return the integer factor for the time limits of this machine, 1 to MAX_SLOWNESS: the time to start Python under the current load."""
    given = given_slowness()
    return factor(python_start()[0]) if given is None else given


def given_slowness() -> int | None:
    """Return the factor that the environment prescribes; None if it has to be measured."""
    given = os.environ.get(SLOWNESS, "")
    return min(max(int(given), 1), MAX_SLOWNESS) if given.isdigit() else None


def python_start() -> tuple[float, float]:
    """Return the seconds in which Python starts here, and how many of them it ran on a processor."""
    started = time.monotonic()
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "pass"], stdin=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - started, used.ru_utime + used.ru_stime


def factor(seconds: float) -> int:
    """Return the factor for a machine that starts Python in so many seconds."""
    return min(max(math.ceil(seconds / REFERENCE), 1), MAX_SLOWNESS)


def first_line() -> dict[str, Any]:
    """Return the first line of a round: the factor, and the speed that was measured for it.

    speed: `seconds` and `cpu_seconds` in which Python starts, `load` of the last minute (proc_loadavg(5)), number of `processors`,
    `available`: share of the memory that processes can still have, `stalled`: share of the last minute in which a process waited for
    memory; each of the two is null where the kernel does not say. It is missing if the environment prescribes the factor.
    """
    given = given_slowness()
    if given is not None:
        return {"begun": True, "slowness": given}
    seconds, cpu = python_start()
    speed = {"seconds": round(seconds, 4), "cpu_seconds": round(cpu, 4), "load": os.getloadavg()[0], "processors": os.cpu_count() or 1}
    memory = {"available": available_memory(), "stalled": memory_stall()}
    return {"begun": True, "slowness": factor(seconds), "speed": {**speed, **memory}}


def available_memory() -> float | None:
    """Return MemAvailable as a share of MemTotal (proc_meminfo(5)); None if the file has neither."""
    try:
        with open("/proc/meminfo", encoding="ascii", errors="replace") as file:
            found = dict(line.split(":", 1) for line in file if ":" in line)
        return round(int(found["MemAvailable"].split()[0]) / int(found["MemTotal"].split()[0]), 4)
    except (OSError, KeyError, ValueError, IndexError, ZeroDivisionError):
        return None


def memory_stall() -> float | None:
    """Return the share of the last minute in which a process waited for memory: avg60 of the kernel's Documentation/accounting/psi.rst.

    None where the kernel does not measure it: Red Hat Enterprise Linux and its rebuilds without `psi=1`.
    """
    try:
        with open("/proc/pressure/memory", encoding="ascii", errors="replace") as file:
            some = next(line for line in file if line.startswith("some "))
        return round(float(dict(one.split("=", 1) for one in some.split()[1:])["avg60"]) / 100, 4)
    except (OSError, StopIteration, KeyError, ValueError):
        return None


def ask(name: str, command: str, timeout: float, deadline: float) -> dict[str, Any]:
    """Run one command in its own process group and kill the whole group when its time is up."""
    started = time.monotonic()
    patience = min(timeout, deadline - started)
    answer: dict[str, Any] = {"name": name, "rc": 0, "out": "", "err": "", "error": "", "starved_seconds": None}
    if patience <= 0:
        answer["starved_seconds"] = timeout
        answer["error"] = name + ": the node had no time left for it"
    else:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=os.setsid,
        )
        try:
            out, err = child.communicate(timeout=patience)
            answer["rc"] = child.returncode
            answer["out"] = out.decode("utf-8", "replace")[:MAX_OUTPUT]
            if len(out) > MAX_OUTPUT and len(out.decode("utf-8", "replace")) > MAX_OUTPUT:
                answer["error"] = name + ": it printed more than " + str(MAX_OUTPUT) + " characters"
            answer["err"] = err.decode("utf-8", "replace")[:2000]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            answer["starved_seconds"] = timeout - patience
            answer["error"] = name + ": no answer within " + format(patience, ".0f") + " s"
    answer["seconds"] = round(time.monotonic() - started, 4)
    return answer


def not_run(name: str, unit: str) -> dict[str, Any]:
    """Return the answer of a command that is not run, because a unit that it needs is suspended."""
    shown = "static pod " + unit[: -len(POD)] if unit.endswith(POD) else unit
    error = name + ": not run, because " + shown + " is suspended on this node"
    return {"name": name, "rc": 0, "out": "", "err": "", "error": error, "starved_seconds": None, "waits_for": unit, "seconds": 0.0}


def work(questions: list[tuple[str, str, float]], deadline: float, lock: threading.Lock) -> None:
    """Run queued commands until none is left."""
    while True:
        with lock:
            if not questions:
                return
            name, command, timeout = questions.pop(0)
        answer = ask(name, command, timeout, deadline)
        with lock:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def main(request: dict[str, Any]) -> None:
    """Run a round: {"seconds": limit, "workers": how many at a time, "questions": [[name, command, timeout]], "needs": {name: [unit]}}.

    The first line reports the factor by which all limits grow on this node, so that the caller waits as long, and the node's speed.
    """
    os.environ.update(LC_ALL="C.UTF-8", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    os.chdir("/")
    first = first_line()
    longer = first["slowness"]
    os.environ[SLOWNESS] = str(longer)
    sys.stdout.write(json.dumps(first) + "\n")
    sys.stdout.flush()
    deadline = time.monotonic() + request["seconds"] * longer
    lock = threading.Lock()
    questions = [(name, command, timeout * longer) for name, command, timeout in request["questions"]]
    needs = request.get("needs", {})
    stopped = set(suspended(sorted({unit for units in needs.values() for unit in units})) if needs else ())
    for name in [name for name, _, _ in questions if stopped.intersection(needs.get(name, ()))]:
        sys.stdout.write(json.dumps(not_run(name, sorted(stopped.intersection(needs[name]))[0])) + "\n")
        sys.stdout.flush()
        questions = [question for question in questions if question[0] != name]
    arguments = (questions, deadline, lock)
    workers = [threading.Thread(target=work, args=arguments) for _ in range(request["workers"])]
    for hand in workers:
        hand.start()
    for hand in workers:
        hand.join()
    sys.stdout.write('{"end": true}\n')
