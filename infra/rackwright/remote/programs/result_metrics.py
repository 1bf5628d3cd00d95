"""Run on the node, as root: replace files of results that its node_exporter serves.

Input: {"files": {name: text in the format of Prometheus}}. Output: the names of the written files. Each file is replaced at once and
belongs to the group of its folder, as those of collectors do (roles/metrics_collectors). Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

FOLDER = "/var/lib/rackwright/metrics"
PREFIX = "results-"
"""Start of the names, so that no file of a collector is replaced, and the alert about stale collectors leaves them out."""


def main(request: dict[str, Any], folder: str = FOLDER) -> Any:
    """Write the files and return their names."""
    if not os.path.isdir(folder):
        sys.exit(f"{folder} does not exist: node_exporter is not configured on this node")
    return [write(name, text, folder) for name, text in request["files"].items()]


def write(name: str, text: str, folder: str) -> str:
    """Replace one file; node_exporter may read at any time, and reads only names that end in .prom."""
    if not re.fullmatch(r"[a-z]+", name):
        raise ValueError(f"{name!r} is not a name of a results file")
    path = os.path.join(folder, f"{PREFIX}{name}.prom")
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chown(beside, -1, os.stat(folder).st_gid)
    os.chmod(beside, 0o640)
    os.replace(beside, path)
    return os.path.basename(path)
