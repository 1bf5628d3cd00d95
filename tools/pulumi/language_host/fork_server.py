"""The fork server: a process that has the Pulumi SDK loaded and forks one runner per order."""

from __future__ import annotations

import gc
import os
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from language_host.order import SHOWN, receive_order, send

_runner: int | None = None
"""Process id of the current runner."""


def serve_orders(host: socket.socket, engine: str) -> NoReturn:
    """Load the SDK, then run orders one after the other until the host exits."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)
    import language_host.program as program

    gc.freeze()
    orders, codes = host.makefile("r"), host.makefile("w")
    while (order := receive_order(orders)) is not None:
        code = _run_in_child(program, order, engine, host)
        try:
            send(codes, code)
        except BrokenPipeError:
            break
    _exit()


def _run_in_child(program: object, order: object, engine: str, host: socket.socket) -> int:
    """Fork a runner and return its exit code."""
    global _runner
    blocked = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    child = os.fork()
    if child == 0:
        host.close()
        for number in blocked:
            signal.signal(number, lambda *_: os._exit(SHOWN))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
        program.run(order, engine)  # type: ignore[attr-defined]
    _runner = child
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    _, status = os.waitpid(child, 0)
    _runner = None
    return os.waitstatus_to_exitcode(status)


def _exit(*_: object) -> NoReturn:
    """End the runner and this process at once."""
    if _runner is not None:
        with suppress(ProcessLookupError):
            os.kill(_runner, signal.SIGKILL)
    os._exit(0)
