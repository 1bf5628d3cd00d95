"""Run on the node: read its journal newest first, and the log files that daemons write beside it.

Input: {"now": the caller's clock, "since", "until": seconds of the epoch or null, "units": names or patterns, none for all, "rules":
[[pattern of the unit, pattern of the message]], none for all, "priority": 0 to 7 or null, "lines", "bytes": limits of the answer,
"seconds": time limit, "files": whether log files are read}.
Output: {"entries": [[microseconds, unit, priority, process ID or null, message]] oldest first, "now": this node's clock, "cut": reason why
older entries are missing or "", "begins": microseconds of the journal's first entry or null, "volatile": whether it is kept in memory
only, "known": whether the units exist, by name, "seen": all units of the journal if one does not, "warnings": messages of journalctl,
"notes": what was not read}.
Python 3.9, standard library only.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import Any

from rackwright.remote.programs import log_files
from rackwright.remote.programs.commands import slowness

KERNEL = "kernel"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders of programs; a login without a shell has fewer."""
FIELDS = "MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,COREDUMP_UNIT,SYSLOG_IDENTIFIER,_COMM,_PID,_TRANSPORT"
HAS_OUTPUT_FIELDS = 236
"""Release of systemd from which journalctl has --output-fields (NEWS of systemd 236)."""
LOGINS = ("ssh.service", "sshd.service", "cron.service", "crond.service")
"""Units whose control groups hold what users start, where logind opens no session for it."""
SKEW = 2.0
"""Seconds by which a clock may differ from the caller's before the window is widened."""
GRACE = 5
"""Seconds after the time limit until the process is ended, for an answer that is being written."""
INFO = 6
"""Priority that journald gives to lines of standard output and error."""
SEVERITIES = (
    (re.compile(r"\s*(?:\[[^\]\s]*\] )?fatal: "), 2),
    (re.compile(r"\s*(?:\[[^\]\s]*\] )?error: "), 3),
    (re.compile(r"\s*(?:\[[^\]\s]*\] )?(?:warning: )"), 4),
    (re.compile(r"\s*(?:\[[^\]\s]*\] )?debug\d?: "), 7),
    (re.compile(r"F\d{4} \d\d:\d\d:"), 2),
    (re.compile(r"E\d{4} \d\d:\d\d:"), 3),
    (re.compile(r"W\d{4} \d\d:\d\d:"), 4),
    (re.compile(r'.*\blevel="?(?:fatal|panic)\b'), 2),
    (re.compile(r'.*\blevel="?error\b'), 3),
    (re.compile(r'.*\blevel="?warn(?:ing)?\b'), 4),
    (re.compile(r"\S+ \S+ \d+ \[ERROR\]"), 3),
)
"""Severity in the text of daemons that print to standard error: Slurm, klog of Kubernetes, logrus of containerd, MariaDB."""


def text_of(value: Any) -> str:
    """Return the text of a field: bytes that are no UTF-8 are a list of numbers, a field that occurs twice is a list of values.

    >>> text_of([104, 105, 255]), text_of(["a", [98]]), text_of(None)
    ('hi\\ufffd', 'a\\nb', '')
    """
    if isinstance(value, list):
        if all(isinstance(one, int) for one in value):
            return bytes(one & 255 for one in value).decode("utf-8", "replace")
        return "\n".join(text_of(one) for one in value)
    return "" if value is None else str(value)


def severity(priority: int, message: str) -> int:
    """Return the priority of an entry, from its text where journald knows none.

    >>> severity(6, "error: Nodes n1 not responding"), severity(6, "[5.batch] error: x"), severity(6, "an error: x"), severity(4, "x")
    (3, 3, 6, 4)
    """
    if priority != INFO:
        return priority
    start = message[:300]
    return next((found for pattern, found in SEVERITIES if pattern.match(start)), priority)


def unit_of(entry: dict[str, Any]) -> str:
    """Return the unit that an entry is about; where that is a session or a scope, the program.

    >>> unit_of({"_SYSTEMD_UNIT": "slurmd.service"}), unit_of({"_SYSTEMD_UNIT": "init.scope", "UNIT": "slurmd.service"})
    ('slurmd', 'slurmd')
    >>> unit_of({"_TRANSPORT": "kernel"}), unit_of({"_SYSTEMD_UNIT": "ssh.service", "SYSLOG_IDENTIFIER": "sudo"})
    ('kernel', 'sudo')
    """
    if entry.get("_TRANSPORT") == KERNEL:
        return KERNEL
    unit = text_of(entry.get("UNIT") or entry.get("COREDUMP_UNIT") or entry.get("_SYSTEMD_UNIT"))
    program = text_of(entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM"))
    if unit.endswith(".service") and (unit not in LOGINS or not program or program.startswith(("sshd", "cron"))):
        return unit[: -len(".service")]
    return program or unit or "unknown"


def plain(unit: str, message: str) -> str:
    """Return a message without the name that a daemon of Slurm puts before it; the unit names it already.

    >>> plain("slurmctld", "slurmctld: error: x"), plain("slurmd", "slurmd-worker0: y"), plain("slurmd", "slurm: z")
    ('error: x', 'y', 'slurm: z')
    """
    if unit not in ("slurmctld", "slurmd", "slurmdbd", "sackd"):
        return message
    return re.sub("^" + unit + r"(-[\w.-]+)?: ", "", message)


def read_entry(line: bytes) -> list[Any] | None:
    """Return [microseconds, unit, priority, process ID, message] of a line of JSON; None for a line that has no time."""
    try:
        entry = json.loads(line)
        moment = int(text_of(entry["__REALTIME_TIMESTAMP"]))
    except (ValueError, KeyError, TypeError):
        return None
    unit = unit_of(entry)
    message = plain(unit, text_of(entry.get("MESSAGE")))
    given, pid = text_of(entry.get("PRIORITY")), text_of(entry.get("_PID"))
    priority = severity(int(given) if given.isdigit() else INFO, message)
    return [moment, unit, priority, int(pid) if pid.isdigit() else None, message]


class Wanted:
    """Which entries are part of the answer."""

    def __init__(self, request: dict[str, Any], since: float | None, until: float | None) -> None:
        self.units = tuple(request.get("units") or ())
        self.rules = [(re.compile(unit), re.compile(message)) for unit, message in request.get("rules") or ()]
        self.priority = request.get("priority")
        self.since, self.until = since, until

    def has_unit(self, unit: str) -> bool:
        """Return whether entries of the unit are wanted."""
        return not self.units or any(fnmatch.fnmatchcase(unit, pattern) for pattern in self.units)

    def has(self, entry: list[Any]) -> bool:
        """Return whether an entry is wanted."""
        moment, unit, priority, _, message = entry
        if (self.since is not None and moment < self.since * 1e6) or (self.until is not None and moment > self.until * 1e6):
            return False
        if self.priority is not None and priority > self.priority:
            return False
        return not self.rules or any(one.search(unit) and other.search(message) for one, other in self.rules)


def options() -> list[str]:
    """Return the options of this node's journalctl. Raises OSError if it is not installed."""
    said = subprocess.run(["journalctl", "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.split()
    release = said[1].split(b".")[0].split(b"~")[0] if len(said) > 1 else b""
    fields = ["--output-fields=" + FIELDS] if release.isdigit() and int(release) >= HAS_OUTPUT_FIELDS else []
    return ["journalctl", "--output=json", "--no-pager", "--quiet", "--all", *fields]  # --all: else fields over 4 KiB are null


def unit_names(patterns: tuple[str, ...]) -> tuple[list[str], dict[str, bool], list[str]]:
    """Return the names of units in the journal that the patterns mean, whether each pattern means one, and all names.

    An alias is resolved: sshd.service of Debian is ssh.service. A unit that is gone still has its entries.
    """
    listed = subprocess.run(
        ["journalctl", "--quiet", "--no-pager", "-F", "_SYSTEMD_UNIT"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    seen = [name[: -len(".service")] for name in listed.stdout.decode("utf-8", "replace").split() if name.endswith(".service")]
    found: list[str] = []
    known: dict[str, bool] = {}
    for pattern in patterns:
        names = fnmatch.filter(seen, pattern)
        if not names and not re.search(r"[*?\[]", pattern):
            shown = subprocess.run(
                ["systemctl", "show", "--property=Id,LoadState", "--", pattern + ".service"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
            ).stdout.decode("utf-8", "replace")
            state = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
            if state.get("LoadState") == "loaded":
                names = [state["Id"][: -len(".service")]]
        known[pattern] = bool(names) or pattern == KERNEL
        found += names
    return list(dict.fromkeys(found)), known, sorted(set(seen))


def matches(names: list[str], *, kernel: bool) -> list[str]:
    """Return journalctl's matches for entries of units, and of systemd about them.

    >>> matches(["munge"], kernel=True)
    ['_SYSTEMD_UNIT=munge.service', '+', 'UNIT=munge.service', '_PID=1', '+', 'COREDUMP_UNIT=munge.service', '+', '_TRANSPORT=kernel']
    """
    words: list[str] = []
    for name in names:
        unit = name + ".service"
        words += ["_SYSTEMD_UNIT=" + unit, "+", "UNIT=" + unit, "_PID=1", "+", "COREDUMP_UNIT=" + unit, "+"]
        if name == "slurmd":  # Its slurmstepd runs in a scope of its own.
            words += ["SYSLOG_IDENTIFIER=slurmstepd", "+", "_COMM=slurmstepd", "+"]
    return [*words, "_TRANSPORT=kernel"] if kernel else words[:-1]


class Answer:
    """Entries within the limits of a request, newest first."""

    def __init__(self, lines: int, size: int, deadline: float) -> None:
        self.entries: list[list[Any]] = []
        self.cut = ""
        self._lines, self._size, self._deadline = lines, size, deadline

    def add(self, entry: list[Any]) -> bool:
        """Add an older entry; return whether there is room for more."""
        self.entries.append(entry)
        self._size -= len(entry[4]) + 60
        if len(self.entries) >= self._lines:
            self.cut = "lines"
        elif self._size <= 0:
            self.cut = "bytes"
        return not self.cut

    def late(self) -> bool:
        """Return whether the time is over."""
        if not self.cut and time.monotonic() > self._deadline:
            self.cut = "time"
        return self.cut == "time"


def read_journal(command: list[str], wanted: Wanted, answer: Answer) -> list[str]:
    """Add the wanted entries of journalctl, newest first; return its messages. Raises RuntimeError with its last one if it fails."""
    with open(os.devnull, "rb") as nothing:
        child = subprocess.Popen(command, stdin=nothing, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    rest, said, streams = b"", b"", [child.stdout, child.stderr]
    whole = False
    while streams and not answer.late():
        for stream in select.select(streams, [], [], 1.0)[0]:
            part = os.read(stream.fileno(), 1 << 18)
            if not part:
                streams.remove(stream)
            elif stream is child.stderr:
                said = (said + part)[-8192:]
            else:
                *lines, rest = (rest + part).split(b"\n")
                if not add_lines(lines, wanted, answer):
                    streams.clear()
                    break
    else:
        whole = not answer.cut
    if not whole:
        child.kill()
    status = child.wait()
    messages = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    if whole and status:
        raise RuntimeError(messages[-1] if messages else "journalctl ended with " + str(status))
    return messages


def add_lines(lines: list[bytes], wanted: Wanted, answer: Answer) -> bool:
    """Add the wanted entries of lines; return whether there is room for more."""
    for line in lines:
        entry = read_entry(line)
        if entry is not None and wanted.has(entry) and not answer.add(entry):
            return False
    return True


def first_entry(command: list[str]) -> int | None:
    """Return the microseconds of the journal's oldest entry, None for an empty journal."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    entry = read_entry(child.stdout.readline())
    child.kill()
    child.stdout.close()
    child.wait()
    return entry[0] if entry else None


def is_volatile() -> bool:
    """Return whether the journal is kept in memory only."""
    machine = "/etc/machine-id"
    try:
        with open(machine, encoding="ascii") as file:
            return not os.path.isdir("/var/log/journal/" + file.read().strip())
    except OSError:
        return not os.path.isdir("/var/log/journal")


def window(request: dict[str, Any], now: float) -> tuple[float | None, float | None]:
    """Return since and until by this node's clock: the caller's window, widened by as much as the clock may differ.

    >>> window({"now": 1000.0, "since": 900, "until": None}, 400.0), window({"now": 1000.0, "since": 900, "until": 950}, 1001.0)
    ((298.0, None), (900, 950))
    """
    since, until, ahead = request.get("since"), request.get("until"), now - request["now"]
    if ahead < -SKEW:
        since = None if since is None else since + ahead - SKEW
    elif ahead > SKEW:
        until = None if until is None else until + ahead + SKEW
    return since, until


def merge(parts: list[tuple[list[list[Any]], str]], lines: int) -> tuple[list[list[Any]], str]:
    """Return the newest entries of several logs, oldest first, and why older ones are missing; each log is newest first.

    A log that was cut hides what the others say of earlier times, so that the answer begins where all of them are complete.

    >>> merge([([[2, "b"], [2, "a"]], ""), ([[3, "d"], [1, "c"]], "")], 9)
    ([[1, 'c'], [2, 'a'], [2, 'b'], [3, 'd']], '')
    """
    begin = max((entries[-1][0] for entries, cut in parts if cut and entries), default=0)
    merged = sorted((entry for entries, _ in parts for entry in reversed(entries) if entry[0] >= begin), key=lambda entry: entry[0])
    cut = next((cut for _, cut in parts if cut), "")
    return merged[-lines:], cut or ("lines" if len(merged) > lines else "")


def limit_time(seconds: float) -> float:
    """Return a time limit as it is on this node, and end this process well after it: a pattern may take longer than every reader waits."""
    limit = seconds * slowness()
    signal.alarm(int(limit) + GRACE)
    return limit


def main(request: dict[str, Any]) -> Any:
    """Return the entries of a request; a journal that cannot be read ends the program with the reason."""
    os.environ.update(LC_ALL="C.UTF-8", PATH=PATH)
    deadline = time.monotonic() + limit_time(request["seconds"])
    started = time.time()
    since, until = window(request, started)
    wanted = Wanted(request, since, until)
    limits = (request["lines"], request["bytes"], deadline)
    journal = Answer(*limits)
    try:
        command = options()
        names, known, seen = unit_names(wanted.units) if wanted.units else ([], {}, [])
        begins = first_entry(command)
        span = [f"--since=@{int(since)}"] if since is not None else []
        span += [f"--until=@{int(until) + 1}"] if until is not None else []
        kernel = wanted.has_unit(KERNEL)
        asked = not wanted.units or names or kernel
        chosen = matches(names, kernel=kernel) if wanted.units and asked else []
        warnings = read_journal([*command, "--reverse", *span, *chosen], wanted, journal) if asked else []
    except FileNotFoundError:
        sys.exit("journalctl is not installed")
    except (OSError, RuntimeError) as error:
        sys.exit(f"journalctl: {error}")
    parts, notes = [(journal.entries, journal.cut)], list[str]()
    if request.get("files"):
        listed, unread = log_files.of_daemons()
        notes += dict.fromkeys(note for unit, note in unread if wanted.has_unit(unit))
        for unit, path, form in listed:
            if wanted.has_unit(unit):
                known[unit] = True
                written = Answer(*limits)
                notes += log_files.read(unit, path, form, wanted, written)
                parts.append((written.entries, written.cut))
    entries, cut = merge(parts, request["lines"])
    return {
        "entries": entries,
        "now": time.time(),
        "cut": cut,
        "begins": begins,
        "volatile": is_volatile(),
        "known": known,
        "seen": [] if all(known.values()) else seen,
        "warnings": warnings[:3],
        "notes": notes,
    }
