"""Print what CIS items need to know of this node, as JSON: arguments of daemons, owners and modes of files, the kubelet's settings.

Input: JSON on standard input, {"daemons": [names], "files": [glob patterns], "texts": [glob patterns]}.
Output: `arguments` (daemon -> its words, null: does not run), `files` (pattern -> [path, user, group, mode]), `texts` (path -> content).
Nothing is written, and no key is read.
"""

from __future__ import annotations

import glob
import grp
import json
import os
import pwd
import stat
import sys
from collections.abc import Callable
from typing import Any


def arguments_of(daemon: str) -> list[str] | None:
    """Return the words of the first process whose program has this name; None without one."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = [word.decode("utf-8", "replace") for word in file.read().split(b"\0")]
        except OSError:
            continue
        if os.path.basename(words[0]) == daemon:
            return [word for word in words[1:] if word]
    return None


def described(path: str) -> list[str]:
    """Return path, user, group and permission bits in octal; numbers stand for unknown users and groups."""
    found = os.stat(path)
    return [path, name_of(pwd.getpwuid, found.st_uid), name_of(grp.getgrgid, found.st_gid), f"{stat.S_IMODE(found.st_mode):o}"]


def name_of(look_up: Callable[[int], Any], number: int) -> str:
    """Return the name of a user or group, or the number as text."""
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


def matching(pattern: str) -> list[str]:
    """Return the paths of a pattern, in which `**` matches folders too."""
    return sorted(set(glob.glob(pattern, recursive=True)))


def text_of(path: str) -> str:
    """Return the content of a file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def main() -> None:
    """Answer the order of standard input."""
    order = json.load(sys.stdin)
    found = {
        "arguments": {daemon: arguments_of(daemon) for daemon in order["daemons"]},
        "files": {pattern: [described(path) for path in matching(pattern)] for pattern in order["files"]},
        "texts": {path: text_of(path) for pattern in order["texts"] for path in matching(pattern)},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
