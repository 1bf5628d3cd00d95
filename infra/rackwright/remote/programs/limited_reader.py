"""Run on the node, imported by host_baseline: read in a child process, and stop waiting for it after a time limit.

A file system whose server does not respond blocks its readers in the kernel, where no exception and no thread ends the wait.
Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def read_within(seconds: float, read: Callable[[], Any]) -> Any:
    """Return what the function returns. Raises TimeoutError after the time limit, RuntimeError with the message of an exception."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(source)
            send(sink, read)
        finally:
            os._exit(0)
    os.close(sink)
    text, deadline = b"", time.monotonic() + seconds
    try:
        while select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = os.read(source, 65536)
            if not part:
                os.waitpid(child, 0)
                return result_of(text)
            text += part
    finally:
        os.close(source)
    os.kill(child, signal.SIGKILL)  # It may end only when the file system responds: it is not waited for.
    raise TimeoutError(f"no answer within {seconds:.0f} s")


def send(sink: int, read: Callable[[], Any]) -> None:
    """Write the result of a function, or its error, to a pipe."""
    try:
        answer = {"result": read()}
    except Exception as error:
        answer = {"error": type(error).__name__ + ": " + str(error)}
    with os.fdopen(sink, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


def result_of(text: bytes) -> Any:
    """Return the result that a child has sent."""
    answer = json.loads(text or b'{"error": "the child process ended without an answer"}')
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["result"]
