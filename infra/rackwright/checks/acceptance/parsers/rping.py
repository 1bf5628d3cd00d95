"""Output of rping of librdmacm's examples."""

from __future__ import annotations

import re
from typing import Final

from rackwright.checks.cluster.harness.tool_output import lines_of, quoted, refusing
from rackwright.errors import UndeterminedError

PINGS: Final = 5
"""Round trips of rping between two nodes. Chosen: one shows the connection, five take milliseconds more."""
_PING: Final = re.compile(r"ping data: rdma-ping-(\d+): [!-~]+")
"""What the client prints with -v for each round trip (rdma-core 56: librdmacm/examples/rping.c, RPING_MSG_FMT)."""
_END: Final = re.compile(r"^client DISCONNECT EVENT\.\.\.\s*$", re.MULTILINE)
"""What the client prints when its connection has ended (the same file, rping_cma_event_handler). A second thread prints it, and a client
that has all its round trips does not wait for that thread: on slow nodes the line is often missing."""
_TROUBLE: Final = re.compile(
    r"(?:rdma_\w+|ibv_\w+|pthread_\w+): .+|cma event \S+, error -?\d+|cma detected device removal!+|connect error .*"
    r"|wait(?:ing)? for .* state \d+|data mismatch!|(?:post (?:send|recv)|poll|recv wc) error.*|.*\b[Ff]ailed\b.*"
    r"|Received bogus data.*|.*not installed|.* did not end within .*"
)
"""Messages of rping (the same file), and of the program that runs it."""


@refusing("rping")
def parse_rping(text: str) -> int:
    """Return the round trips that a client of `rping -v` completed.

    Raise UndeterminedError for none, a gap, or fewer than `PINGS` without an end, as in a truncated output.
    """
    numbers = [int(found[1]) for line in lines_of(text) if (found := _PING.fullmatch(line.strip()))]
    is_whole = len(numbers) >= PINGS or _END.search(text)
    if not numbers or numbers != list(range(len(numbers))) or not is_whole:
        trouble = next((line.strip() for line in lines_of(text) if _TROUBLE.match(line.strip())), "")
        raise UndeterminedError(f"rping did not connect: {quoted(trouble)}" if trouble else "rping printed no complete list of its pings")
    return len(numbers)
