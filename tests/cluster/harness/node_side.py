"""Runs on the node: all questions of a round, a few at a time, each under its own time limit; one JSON line per answer.

Sent as text to the node's python3 (3.6 or newer, standard library only), because a node is not asked to have anything of ours.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

LONGEST = 1000000
"""Characters of output kept."""


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
    """Answer a round: {"seconds": total limit, "hands": how many at a time, "questions": [[name, command, timeout]]}."""
    os.environ.update(LC_ALL="C.UTF-8", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    os.chdir("/")
    sys.stdout.write('{"begun": true}\n')
    sys.stdout.flush()
    deadline = time.monotonic() + request["seconds"]
    lock = threading.Lock()
    arguments = (request["questions"], deadline, lock)
    hands = [threading.Thread(target=work, args=arguments) for _ in range(request["hands"])]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    sys.stdout.write('{"end": true}\n')


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
