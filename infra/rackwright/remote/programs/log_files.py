"""Run on the node, imported by journal and container_logs: log files that daemons write themselves.

Python 3.9, standard library only.
"""

from __future__ import annotations

import calendar
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

from rackwright.remote.programs.slurm_conf import Configuration

BLOCK = 1 << 18
MOST = 16 << 20
"""Bytes that are read of one file, from its end."""
SLURM_FOLDERS = (
    "/etc/slurm",
    "/run/slurm/conf",
    "/var/spool/slurmd/conf-cache",
    "/var/lib/slurm/slurmd/conf-cache",
    "/etc/slurm-llnl",
)
"""Folders of slurm.conf; a configless slurmd has a copy of the controller's (slurmd(8))."""
MARIADB = ("/var/log/mysql/error.log", "/var/log/mariadb/mariadb.log", "/var/log/mysqld.log", "/var/log/mysql/mysqld.log")
"""Error logs of MariaDB and MySQL in the packages of Debian and Red Hat; without one they print to the journal."""
KEYS = {"slurmctldlogfile": "slurmctld", "slurmdlogfile": "slurmd"}
CONFIGURATIONS = {"/slurm.conf": KEYS, "/slurmdbd.conf": {"logfile": "slurmdbd"}}
"""Settings that name the log file of a unit, by configuration file."""
ISO = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d)[T ] ?(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?\]?\s")
OLD_MYSQL = re.compile(r"(\d\d)(\d\d)(\d\d) {1,2}(\d{1,2}):(\d\d):(\d\d)\s")


def microseconds(moment: str) -> tuple[int, int] | None:
    """Return the time at the start of a line, in microseconds, and the length of its text; None without one.

    A time without a zone is of this node's clock. A clock that is set back at the end of summer time makes an hour ambiguous.

    >>> microseconds("[2026-11-27T16:10:46.5Z] x"), microseconds("2026-11-27T17:10:46.123456789+01:00 stdout F x"), microseconds("x")
    ((1795795846500000, 25), (1795795846123456, 36), None)
    """
    found = ISO.match(moment)
    if found:
        year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
        fraction, zone = (found.group(7) or "").ljust(6, "0")[:6], found.group(8)
    else:
        found = OLD_MYSQL.match(moment)
        if not found:
            return None
        year, month, day, hour, minute, second = (int(part) for part in found.groups())
        year, fraction, zone = year + 2000, "0", None
    parts = (year, month, day, hour, minute, second, 0, 0, -1)
    try:
        if zone is None:
            seconds = time.mktime(parts)
        else:
            seconds = calendar.timegm(parts)
            if zone != "Z":
                shift = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
                seconds -= shift if zone[0] == "+" else -shift
    except (ValueError, OverflowError):
        return None
    return int(seconds) * 1000000 + int(fraction), found.end()


def of_daemons() -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """Return unit, path and form of each log file that a daemon's configuration names, as far as it is of this node.

    The second list has the unit and the reason for each included file that cannot be read: it may name another log file.
    """
    found: dict[str, tuple[str, str]] = {}
    notes: list[tuple[str, str]] = []
    for folder in SLURM_FOLDERS:
        for name, units in CONFIGURATIONS.items():
            read, unread = settings(folder + name)
            for key, value in read.items():
                if key in units and value.startswith("/"):
                    found.setdefault(units[key], (value, "named"))
            notes += [(unit, folder + name + " has a line that cannot be followed: " + line) for line in unread for unit in units.values()]
    host = socket.gethostname().split(".")[0]
    listed = [(unit, path.replace("%h", host).replace("%n", host), form) for unit, (path, form) in found.items()]
    present = [one for one in listed if os.path.isfile("/usr/sbin/" + one[0]) or os.path.isfile(one[1])]
    return present + [("mariadb", path, "usual") for path in MARIADB if os.path.isfile(path) and os.path.getsize(path)], notes


def settings(path: str) -> tuple[dict[str, str], list[str]]:
    """Return the settings that name a log file, with the key in lower case, and lines `Include` whose file cannot be read.

    Slurm uses the last value of a setting. Nothing else of the files is kept.
    """
    found: dict[str, str] = {}
    configuration = Configuration()
    try:
        for line in configuration.lines(path):
            key, _, value = line.split("#")[0].partition("=")
            if key.strip().lower() in (*KEYS, "logfile"):
                found[key.strip().lower()] = value.strip().strip('"')
    except OSError:
        return {}, []
    return found, configuration.unread


def last_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file from its end, at most MOST bytes. Raises OSError."""
    with open(path, "rb") as file:
        end = left = file.seek(0, os.SEEK_END)
        rest = b""
        while left > 0 and end - left < MOST:
            size = min(BLOCK, left)
            left -= size
            file.seek(left)
            first, *lines = (file.read(size) + rest).split(b"\n")
            rest = first
            for line in reversed(lines):
                if line:
                    yield line
        if left == 0 and rest:
            yield rest


def read(unit: str, path: str, form: str, wanted: Any, answer: Any) -> list[str]:
    """Add the wanted entries of a file, newest first; return what could not be read. Lines without a time belong to the line above."""
    from rackwright.remote.programs.journal import INFO, severity

    later: list[str] = []
    oldest: int | None = None
    lines = timed = 0
    try:
        for raw in last_lines(path):
            if answer.late():
                return []
            text = raw.decode("utf-8", "replace")
            lines += 1
            found = microseconds(text)
            if found is None:
                later = [text, *later][:200]
                continue
            timed, oldest = timed + 1, found[0]
            message = "\n".join([text[found[1] :], *later])
            later = []
            entry = [oldest, unit, severity(INFO, message), None, message]
            if wanted.since is not None and oldest < wanted.since * 1e6:
                return []
            if wanted.has(entry) and not answer.add(entry):
                return []
    except OSError as error:
        return [f"{unit} writes to {path}, which cannot be read: {error.strerror}"]
    if lines and not timed:
        return [f"{unit} writes to {path}, whose lines have no date that can be read (LogTimeFormat of slurm.conf)"]
    rotated = [path + end for end in (".1", "-1", ".1.gz") if os.path.exists(path + end)]
    if rotated and wanted.since is not None:
        return [f"{unit} writes to {path}, which does not reach back so far; earlier lines are in {rotated[0]}"]
    return []
