"""Run on the node: pass on entries of its journal as they are written.

Input: {"units", "rules", "priority": as for journal, "lines": number of entries before the present ones}.
Output: a line of JSON for each entry, [microseconds, unit, priority, process ID or null, message], and {"files": [unit]} with the units
that write to files, which are not followed; null when nothing was written for a while, so that the program notices a closed connection
and ends.
Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from typing import Any

from rackwright.remote.programs import log_files
from rackwright.remote.programs.journal import KERNEL, PATH, Wanted, matches, options, read_entry, unit_names

PULSE = 10.0
"""Seconds without an entry after which null is written."""


def emit(value: Any) -> None:
    """Write a line at once; end the process when its reader is gone."""
    try:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()
    except OSError:
        os._exit(0)


def main(request: dict[str, Any]) -> None:
    """Follow the journal until the connection is closed."""
    os.environ.update(LC_ALL="C.UTF-8", PATH=PATH)
    wanted = Wanted(request, None, None)
    try:
        command = options()
    except FileNotFoundError:
        sys.exit("journalctl is not installed")
    names, _, _ = unit_names(wanted.units) if wanted.units else ([], {}, [])
    if wanted.units and not names and not wanted.has_unit(KERNEL):
        sys.exit("it has none of these units")
    chosen = matches(names, kernel=wanted.has_unit(KERNEL)) if wanted.units else []
    emit({"files": sorted({unit for unit, _, _ in log_files.of_daemons()[0] if wanted.has_unit(unit)})})
    child = subprocess.Popen(
        [*command, "--follow", "--lines=" + str(request["lines"]), *chosen], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        pass_on(child, wanted)
    finally:
        child.kill()
    sys.exit("journalctl ended with status " + str(child.wait()))


def pass_on(child: subprocess.Popen[bytes], wanted: Wanted) -> None:
    """Write each wanted entry of journalctl until it ends."""
    assert child.stdout is not None
    rest = b""
    while True:
        if not select.select([child.stdout], [], [], PULSE)[0]:
            emit(None)
            continue
        part = os.read(child.stdout.fileno(), 1 << 18)
        if not part:
            return
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            entry = read_entry(line)
            if entry is not None and wanted.has(entry):
                emit(entry)
