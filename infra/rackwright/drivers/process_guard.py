"""Guard of a command: terminate it, with all its descendants, when the other end of a pipe closes or on a signal.

usage: python -I -S process_guard.py LIFELINE_FD COMMAND [ARGUMENT …]

Standard library only, and no site: this process starts before every long child. As a subreaper it inherits descendants whose own
parents have exited (`man 2 prctl`, PR_SET_CHILD_SUBREAPER), so that none escapes by daemonising.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
"""Number of the operation in prctl(2) (linux/prctl.h); Python has no constant."""
_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as listing:
                found += [int(child) for child in listing.read().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Return all processes below a process, nearest first."""
    found = children(pid)
    for child in tuple(found):
        found += descendants(child)
    return found


def end_descendants() -> None:
    """Terminate all descendants, then kill those that remain."""
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        deadline = time.monotonic() + patience
        for pid in descendants(os.getpid()):
            _send(pid, number)
        while time.monotonic() < deadline:
            _reap()
            if not children(os.getpid()):
                return
            time.sleep(0.02)


def main(arguments: list[str]) -> int:
    """Run the command until it exits or the lifeline is closed."""
    lifeline, command = int(arguments[0]), arguments[1:]
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.set_inheritable(lifeline, False)
    child = _spawn(command)
    while True:
        ready = select.select([lifeline, wake_read], [], [])[0]
        received = set(os.read(wake_read, 64)) - {signal.SIGCHLD} if wake_read in ready else set()
        status = _reap(child)
        if status is not None:
            return status
        if lifeline in ready or received:
            end_descendants()
            return 130


def _spawn(command: list[str]) -> int:
    try:
        return os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


def _reap(wanted: int = -1) -> "int | None":
    """Reap exited children; return the status of the wanted one when it is among them."""
    status = None
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == wanted:
            status = os.waitstatus_to_exitcode(code)
            status = 128 - status if status < 0 else status


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
