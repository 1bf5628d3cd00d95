"""Print what this node sees of a job's files: each node's own file, and the number of whole lines of each node in the common one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

LINE = 32
"""Bytes of a line: six digits, a space, the host's name padded to 24 characters, a newline."""


def seen(folders: Sequence[str]) -> dict[str, Any]:
    """Return {"files": {name: first line}, "lines": {host: whole lines}}."""
    files: dict[str, str] = {}
    lines: dict[str, int] = {}
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.startswith("from-"):
                with open(os.path.join(folder, name)) as file:
                    files[name] = file.readline().rstrip("\n")
        with open(os.path.join(folder, "together"), "rb") as file:
            together = file.read()
        for number in range(len(together) // LINE):
            line = together[number * LINE : (number + 1) * LINE]
            if line[:7] == b"%06d " % number and line.endswith(b"\n"):
                host = line[7:].decode(errors="replace").strip()
                lines[host] = lines.get(host, 0) + 1
    return {"files": files, "lines": lines}


def main(folders: Sequence[str]) -> None:
    """Print the result; an error of reading is a result, too."""
    try:
        print(json.dumps(seen(folders)))
    except OSError as error:
        print(json.dumps({"error": str(error)}))


main(sys.argv[1:])
