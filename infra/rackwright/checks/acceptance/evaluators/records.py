"""Output of programs, parsed as JSON. A launcher may have cut long lines: JSON has no line breaks of its own."""

from __future__ import annotations

from typing import Any, Final

from rackwright.checks.acceptance.phase import Output, Task, find_record
from rackwright.checks.cluster.harness.tool_output import quoted
from rackwright.errors import UndeterminedError

_LAST_SIGNAL: Final = 64
"""SIGRTMAX of Linux (signal(7)). Statuses of dcgmi are negative error codes, 196 and more (dcgm_structs.h)."""


class Answer(dict[str, Any]):
    """An answer of a program; a missing key raises UndeterminedError."""

    def __missing__(self, key: str) -> Any:
        raise UndeterminedError(f"its answer has no {key}")


def record(output: Output | None, node: str) -> Answer:
    """Return the output of the first task on a node; raises UndeterminedError if it is missing, incomplete or unknown."""
    if output is None:
        raise UndeterminedError("its job was not submitted")
    return parse(output.only(node), output)


def parse(task: Task, output: Output) -> Answer:
    """Return the parsed output of one task."""
    text = "".join(task.out.splitlines())
    found = find_record(text)
    if found is None:
        raise UndeterminedError(
            f"job {output.job.name} printed no complete record on {task.node}: {output.error or text[:120] or 'nothing'}"
        )
    if "unknown" in found:
        raise UndeterminedError(str(found["unknown"]))
    return Answer(found)


def tool(found: dict[str, Any], name: str, *, both: bool = False) -> str:
    """Return the output of one tool from programs/tools.py; raises UndeterminedError if the tool is missing or timed out.

    `both`: include stderr, for tools that name there what they did not list.
    """
    if name not in found:
        raise UndeterminedError(f"{name} was not queried")
    result = found[name]
    if result["rc"] in (124, 126, 127):
        raise UndeterminedError(result["err"].strip() or f"{name} ended with status {result['rc']}")
    signal = -result["rc"] if result["rc"] < 0 else result["rc"] - 128
    if 0 < signal <= _LAST_SIGNAL:
        last = (result["err"].strip() or result["out"].strip() or "no output").splitlines()[-1]
        raise UndeterminedError(f"{name} was ended by signal {signal}: {quoted(last)}")
    if not result["out"].strip() and not result["err"].strip():
        raise UndeterminedError(f"{name} printed nothing and ended with status {result['rc']}")
    return f"{result['err']}\n{result['out']}" if both and result["err"].strip() else str(result["out"] or result["err"])


def server_failure(output: Output, server: str, rail: str, name: str) -> str:
    """Return why the server of a pair failed, to follow the client's error; empty if it did not fail, or if it printed no record.

    The client only knows that it could not connect.
    """
    try:
        meetings = record(output, server)["meetings"]
        failed = next(each for each in meetings if (each["rail"], each["tool"]) == (rail, name) and each["rc"])
    except (UndeterminedError, StopIteration):
        return ""
    last = (failed["err"].strip() or failed["out"].strip() or "no output").splitlines()[-1]
    return f"; {name} on {server} ended with status {failed['rc']}: {quoted(last)}"
