"""Reason of a failed task: the decisive sentence first, then the lines that explain it. Nothing is cut from the beginning.

A package manager prints its cause after pages of progress, a daemon writes it somewhere in its journal, and what the module reports may
be a sentence that is true of every failure ("non-zero return code"). Each form below was read in the source of the program that prints it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

HIDDEN: Final = "the result is not shown, because the task handles secrets (no_log)"
NO_REASON: Final = "no reason given"
NO_TRACEBACK: Final = "(traceback unavailable)"
"""`exception` of ansible-core 2.19 in results of failures that raised none."""
_LINES: Final = 12
"""Lines of a displayed reason. The run's record has all of them."""
_SENTENCE: Final = 600
"""Characters of the first line: a program may print a whole document on one line."""

_ANSIBLE_PREFIX: Final = re.compile(r"^(?:Task failed: )?(?:(?:Module|Action) failed: )?")
"""Prefixes of ansible-core 2.19 (executor/task_executor.py)."""
_NO_CAUSE: Final = re.compile(
    r"^(?:non-zero return code"  # ansible.builtin.command
    r"|One or more items failed|All items completed"  # a loop; the second by Mitogen's strategy where a connection broke
    r"|MODULE FAILURE.*|Module result deserialization failed.*|Task failed\.?|(?:Module|Action) failed\.?"
    r"|.*\bapt(?:-get|itude)?\b.*failed(?:: )?"
    r"|E: Sub-process \S+ returned an error code.*|E: Failed to process build dependencies"
    r"|.*(?:Job for \S+ failed|See .systemctl status).*|.*last lines of its journal:)$"
)
"""First lines that say that something failed, and not why."""
_APT_LINE: Final = re.compile(r"^'.*\bapt(?:-get|itude)?\b.*' failed:\s*(?P<rest>.*)$")
_JOURNAL: Final = re.compile(r"^(?P<unit>.*?); last lines of its journal:$")
_SYSTEMD: Final = re.compile(
    r"Main process exited|Control process exited|Failed with result|Failed to start |Start request repeated too quickly"
    r"|Scheduled restart job|Consumed .* CPU|Stopped |Starting |Started |Deactivated successfully|start operation timed out"
    r"|entered failed state|^See .systemctl status"
)
"""Lines of the manager about a unit: they say that it failed, which the sentence before says too."""
_GENERIC_FATAL: Final = re.compile(r"Cannot bind any address|terminating, \d+ bad configuration options")
"""sshd's last words; the line before has the port or the option (openssh: sshd.c, servconf.c)."""
_RANKED: Final = (
    re.compile(r"^E: (?!Sub-process |Failed to process build|Broken packages|.*you have held broken packages)"),
    re.compile(r"^\s*\S+ : (?:Pre-?Depends|Depends|Conflicts|Breaks): "),
    re.compile(r"^dpkg: (?:error|unrecoverable)"),
    re.compile(r"(?i)\bfatal(?: error)?:"),
    re.compile(r"^\S*(?:line \d+: )?(?:Bad configuration option|Unsupported option|Missing argument)|: line \d+:"),
    re.compile(r"(?i)(?:^|[\s:\]])\[?error\]?:"),
    re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Timeout): "),
    re.compile(r"^E: "),
    re.compile(
        r"(?i)\b(?:failed|failure|cannot|can't|could not|unable to|denied|refused|no such|not found|timed out|invalid|already in use"
        r"|unrecognized|no space left|out of memory|disconnected|EOF on stream)\b"
    ),
)
"""Signs of a cause, the most telling ones first."""


def is_hidden(result: Mapping[str, Any]) -> bool:
    """Return whether Ansible left out the result of a task with `no_log`."""
    return "censored" in result


def message_of(result: Mapping[str, Any]) -> str:
    """Return the message of a result; for a loop the messages of its items that have one."""
    said = _text(result.get("msg"))
    items = [item for item in result.get("results") or () if isinstance(item, Mapping)]
    texts = [f"{_item(item)}: {text}" for item in items if (text := _text(item.get("msg")))]
    return "\n".join(([said] if said else []) + texts)


def what_changed(result: Mapping[str, Any]) -> str:
    """Return what a changed task reports as changed."""
    keys = ("changed_paths", "restarted", "started", "reloaded", "stopped", "changes", "changed_hosts")
    names = [str(name) for key in keys for name in result.get(key, [])]
    return ", ".join(dict.fromkeys(names))


def failure_reason(result: Mapping[str, Any]) -> str:
    """Return why a task failed: one sentence that names the cause, then at most 11 lines that explain it."""
    if is_hidden(result):
        return HIDDEN
    failed = _failed_item(result)
    name = f"{_item(failed)}: " if failed is not result else ""
    lines = _lines(failed)
    if not lines:
        return f"{name}{NO_REASON}"
    sentence, used = _sentence(failed, lines)
    rest = [line for number, line in enumerate(lines) if number not in used]
    return "\n".join([_cut(name + sentence), *_explanation(rest)])


def reason_in_output(text: str) -> str:
    """Return why a program failed, from what it printed: the line that names the cause, then at most 11 lines; empty without output."""
    lines = list(dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip()))
    if not lines:
        return ""
    cause, place = _cause(lines, 0)
    return "\n".join([_cut(cause or lines[-1]), *_explanation([line for number, line in enumerate(lines) if number != place])])


def _failed_item(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first item of a loop that failed, else the result."""
    items = [item for item in result.get("results") or () if isinstance(item, Mapping)]
    return next((item for item in items if item.get("failed") or item.get("unreachable")), result)


def _item(item: Mapping[str, Any]) -> str:
    label = item.get("_ansible_item_label", item.get("item", ""))
    return str(label.get("name", label) if isinstance(label, Mapping) else label)


def _lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines of the message, then those of the program's output that it does not quote."""
    parts = [_ANSIBLE_PREFIX.sub("", _text(result.get("msg")))]
    for name in ("stderr", "module_stderr", "exception", "stdout", "module_stdout"):
        text = _text(result.get(name))
        if text and text != NO_TRACEBACK and all(text not in part for part in parts):
            parts.append(text)
    lines = [line.rstrip() for part in parts for line in part.splitlines() if line.strip()]
    return list(dict.fromkeys(lines))


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(str(part) for part in value).strip()
    return "" if value is None or value == "" else str(value).strip()


def _sentence(result: Mapping[str, Any], lines: Sequence[str]) -> tuple[str, set[int]]:
    """Return the decisive sentence, and the numbers of the lines that it consists of."""
    first = lines[0]
    apt = _APT_LINE.match(first)
    if apt:
        lines = [apt["rest"], *lines[1:]]
    elif not _NO_CAUSE.match(first):
        return first, {0}
    cause, place = _cause(lines, 0 if apt else 1)
    if apt:
        return f"apt-get failed: {cause or apt['rest'] or 'it printed no reason'}", {0, place}
    journal = _JOURNAL.match(first)
    if journal and ": runs, but " in first:
        return journal["unit"], {0}
    if journal:
        return f"{journal['unit']}: {cause or 'its journal is empty'}", {0, place}
    if first == "non-zero return code":
        return f"{_command(result)}: {cause or 'it printed no reason'}", {0, place}
    return (f"{first}: {cause}" if first.startswith(("Unable to", "Failed to", "Job for")) and cause else cause or first), {0, place}


def _command(result: Mapping[str, Any]) -> str:
    """Return which command ended how."""
    words = result.get("cmd") or "the command"
    text = shlex.join(str(word) for word in words) if isinstance(words, list) else str(words)
    short = text if len(text) <= 120 else f"{text[:120]} (and more)"
    return f"`{short}` ended with exit status {result.get('rc', 'unknown')}"


def _cause(lines: Sequence[str], start: int) -> tuple[str, int]:
    """Return the line that tells most of the cause, and its number; without such a line the last one, and an empty text without lines."""
    for pattern in _RANKED:
        for number in range(start, len(lines)):
            line = lines[number]
            if pattern.search(line) and not _SYSTEMD.search(line) and not _GENERIC_FATAL.search(line):
                return _joined(lines, number), number
    candidates = [number for number in range(start, len(lines)) if lines[number] and not _SYSTEMD.search(lines[number])]
    return (lines[candidates[-1]].strip(), candidates[-1]) if candidates else ("", 0)


def _joined(lines: Sequence[str], number: int) -> str:
    """Return a line; a line that ends with a colon with the one below, where dpkg has its reason."""
    line = lines[number].strip()
    return f"{line} {lines[number + 1].strip()}" if line.endswith(":") and number + 1 < len(lines) else line


def _explanation(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines below the sentence in their order: those with signs of a cause, then the last ones, as many as fit."""
    room = _LINES - 1
    if len(lines) <= room:
        yield from lines
        return
    telling = [number for number, line in enumerate(lines) if any(pattern.search(line) for pattern in _RANKED)]
    last = [number for number in range(len(lines) - 1, -1, -1) if number not in set(telling)]
    kept = sorted([*telling, *last][: room - 1])
    yield from (_cut(lines[number]) for number in kept)
    yield f"({len(lines) - len(kept)} more lines in the run's record)"


def _cut(line: str) -> str:
    return line if len(line) <= _SENTENCE else f"{line[:_SENTENCE]} ({len(line) - _SENTENCE} more characters in the run's record)"
