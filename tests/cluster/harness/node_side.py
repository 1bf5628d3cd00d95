"""Runs on the node: all questions of a round, a few at a time, each under its own time limit; one JSON line per answer.

Sent as text to the node's python3 (3.6 or newer, standard library only), because a node is not asked to have anything of ours.
"""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

LONGEST = 1000000
"""Characters of output kept."""
REFERENCE = 0.03
"""Seconds in which a node for which the time limits were chosen starts Python; a quick one takes 0.009 (benchmarks/slowness.py)."""
SLOWEST = 15
"""Factor beyond which limits no longer grow: a node that needs more is reported as one that does not answer."""
SLOWNESS = "RACKWRIGHT_SLOWNESS"
"""The environment variable with the factor, for commands that have time limits of their own. Where it is set, nothing is measured."""


def slowness():
    """Return the whole factor by which this machine's time limits grow, 1 to SLOWEST: how long it takes to start Python, load included."""
    given = os.environ.get(SLOWNESS, "")
    if given.isdigit():
        return min(max(int(given), 1), SLOWEST)
    started = time.monotonic()
    subprocess.call([sys.executable, "-I", "-S", "-c", "pass"], stdin=subprocess.DEVNULL)
    return min(max(math.ceil((time.monotonic() - started) / REFERENCE), 1), SLOWEST)


def ask(name, command, timeout, deadline):
    """Run one command in its own process group and end the whole group when its time is up."""
    started = time.monotonic()
    patience = min(timeout, deadline - started)
    answer = {"name": name, "rc": 0, "out": "", "err": "", "trouble": "", "lacked": None}
    if patience <= 0:
        answer["lacked"] = timeout
        answer["trouble"] = name + ": the node had no time left for it"
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
            answer["out"] = out.decode("utf-8", "replace")[:LONGEST]
            if len(out) > LONGEST and len(out.decode("utf-8", "replace")) > LONGEST:
                answer["trouble"] = name + ": it printed more than " + str(LONGEST) + " characters"
            answer["err"] = err.decode("utf-8", "replace")[:2000]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            answer["lacked"] = timeout - patience
            answer["trouble"] = name + ": no answer within " + format(patience, ".0f") + " s"
    answer["seconds"] = round(time.monotonic() - started, 4)
    return answer


def work(questions, deadline, lock):
    """Take questions until there are none."""
    while True:
        with lock:
            if not questions:
                return
            name, command, timeout = questions.pop(0)
        answer = ask(name, command, timeout, deadline)
        with lock:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def main(request):
    """Answer a round: {"seconds": total limit, "hands": how many at a time, "questions": [[name, command, timeout]]}.

    The first line tells the factor by which all limits grow on this node, so that the caller waits as long.
    """
    os.environ.update(LC_ALL="C.UTF-8", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    os.chdir("/")
    factor = slowness()
    os.environ[SLOWNESS] = str(factor)
    sys.stdout.write(json.dumps({"begun": True, "slowness": factor}) + "\n")
    sys.stdout.flush()
    deadline = time.monotonic() + request["seconds"] * factor
    lock = threading.Lock()
    questions = [(name, command, timeout * factor) for name, command, timeout in request["questions"]]
    arguments = (questions, deadline, lock)
    hands = [threading.Thread(target=work, args=arguments) for _ in range(request["hands"])]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    sys.stdout.write('{"end": true}\n')


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
