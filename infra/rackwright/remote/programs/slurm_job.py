"""Run on the node: what Slurm has on record about a job.

Input: {"job": as sacct names it (123, 123_4, 123+1), "seconds": limit of one command}.
Output: {"fields": names, "rows": rows of sacct in their order, "sacct": why there are none or "", "scontrol": its output, "scontrol_error",
"hosts": node names by list of nodes, "users": names by user ID}. Times are seconds of the epoch.
Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from typing import Any

from rackwright.remote.programs.commands import slowness

FIELDS = (
    *("JobID", "JobIDRaw", "State", "ExitCode", "DerivedExitCode", "Submit", "Start", "End", "TimelimitRaw", "NodeList", "Reason"),
    *("FailedNode", "User", "UID", "Account", "Partition", "Restarts", "MaxRSS", "ReqMem", "StdOut", "StdErr", "JobName"),
)
"""Fields that are asked for, as far as this release of sacct has them. The name of a job is its user's text, so it comes last."""
SEPARATOR = "\x1f"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders of programs; a login without a shell has fewer."""
MOST_ROWS = 2000
"""Rows that are kept: an array may have tens of thousands of tasks."""
FORM = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?(?:\.[A-Za-z0-9_+]+)?")
HOSTS = re.compile(r"[\w.,\[\]-]+")


def run(command: list[str], seconds: float) -> tuple[str, str]:
    """Return the output of a command, and why it failed or an empty string."""
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError:
        return "", command[0] + " is not installed"
    except subprocess.TimeoutExpired:
        return "", command[0] + ": no answer within " + format(seconds, ".0f") + " s"
    said = [line for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return ended.stdout.decode("utf-8", "replace"), (said[-1] if said else "status " + str(ended.returncode)) if ended.returncode else ""


def rows_of(text: str, width: int) -> list[list[str]]:
    """Return the rows of sacct. A line feed in the name of a job continues its row.

    >>> rows_of("5\\x1fFAILED\\x1fa\\nb\\n6\\x1fTIMEOUT\\x1fc\\n", 3)
    [['5', 'FAILED', 'a b'], ['6', 'TIMEOUT', 'c']]
    """
    rows: list[list[str]] = []
    for line in text.split("\n"):
        cells = line.split(SEPARATOR, width - 1)
        if len(cells) == width and FORM.fullmatch(cells[0]):
            rows.append(cells)
        elif rows and line:
            rows[-1][-1] += " " + line
    return rows


def hosts_of(lists: set[str], seconds: float) -> dict[str, list[str]]:
    """Return the nodes of each list that Slurm wrote, w[0-1] for example."""
    found = {}
    for text in sorted(lists):
        if HOSTS.fullmatch(text) and text not in ("None", "Unknown"):
            found[text] = run(["scontrol", "show", "hostnames", text], seconds)[0].split()
    return found


def users_of(texts: list[str]) -> dict[str, str]:
    """Return the names of the users whose IDs Slurm's texts have, `CANCELLED by 2001` for example."""
    found = {}
    for number in {match for text in texts for match in re.findall(r"\bby (\d+)\b", text)}:
        try:
            found[number] = pwd.getpwuid(int(number)).pw_name
        except (KeyError, OverflowError):
            continue
    return found


def main(request: dict[str, Any]) -> Any:
    """Return what sacct and scontrol know of the job."""
    os.environ.update(LC_ALL="C.UTF-8", PATH=PATH, SLURM_TIME_FORMAT="%s")
    seconds = request["seconds"] * slowness()
    job = request["job"]
    listed, why = run(["sacct", "--helpformat"], seconds)
    fields = [name for name in FIELDS if name in listed.split()]
    rows: list[list[str]] = []
    if fields:
        form = ["--parsable2", "--delimiter=" + SEPARATOR, "--noheader", "--duplicates", "--allusers", "--format=" + ",".join(fields)]
        text, why = run(["sacct", "--jobs=" + job, *form], seconds)
        rows = rows_of(text, len(fields))
    shown, failed = run(["scontrol", "show", "job", job.split(".")[0]], seconds)
    texts = [row[fields.index("NodeList")] for row in rows] if "NodeList" in fields else []
    lists = {*texts, *re.findall(r"^   NodeList=(\S+)", shown, re.MULTILINE)} - {""}
    return {
        "fields": fields,
        "rows": rows[-MOST_ROWS:],
        "sacct": why,
        "scontrol": shown,
        "scontrol_error": failed,
        "hosts": hosts_of(lists, seconds),
        "users": users_of([cell for row in rows for cell in row]),
    }
