"""Path of the engine: the one that the bootstrap recorded, else the one in the user's cache."""

from __future__ import annotations

import os
import sys

from shim import IS_INSTALLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "3.259.0"

RECORD = "rackwright-engine"
"""File in the virtual environment whose first line is the engine's path; written by tools/bootstrap."""


def find(environ: Mapping[str, str], venv: str) -> str:
    """Return the path of the engine; exit with a hint if there is none."""
    for path in (_recorded(venv), os.path.join(cache_folder(environ), "pulumi")):
        if path and os.access(path, os.X_OK):
            return path
    sys.exit(
        "pulumi: the engine is missing (no path recorded in the virtual environment, none in the cache)\n"
        f"  run `{'rackwright up STACK' if IS_INSTALLED else 'make venv'}` once: it finds, downloads or builds Pulumi {VERSION}"
    )


def cache_folder(environ: Mapping[str, str]) -> str:
    """Return the cache folder of the user and the version, shared by all checkouts."""
    caches = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "rackwright", f"pulumi-{VERSION}")


def _recorded(venv: str) -> str:
    try:
        with open(os.path.join(venv, RECORD), encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""
