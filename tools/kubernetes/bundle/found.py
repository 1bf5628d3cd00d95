"""Location of a bundle and whether it exists. This runs at every start, so it must be fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import inputs, recipe

SCHEMA = "rackwright.kubernetes-bundle/1"
LABEL = "bundle.json"


class Wanted(NamedTuple):
    """A bundle, there or not."""

    folder: Path
    inputs: str
    processor: str


def wanted(machine: Machine, rooms: Path, into: Path | None) -> Wanted:
    """The bundle of these sources for this machine's processor."""
    processor = inputs.processor(machine)
    digest = inputs.digest(rooms, processor)
    version = inputs.version(rooms, recipe.KUBERNETES).lstrip("v")
    return Wanted(into.absolute() if into else machine.cache() / f"kubernetes-{version}-{digest}", digest, processor)


def is_there(sought: Wanted) -> bool:
    """Whether it is; whatever else has its place is nothing to write over."""
    try:
        described = json.loads((sought.folder / LABEL).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        described = None
    except (OSError, ValueError) as error:
        raise Failure(f"{sought.folder / LABEL}: {error}; remove {sought.folder} and run this again") from None
    if isinstance(described, dict) and described.get("schema") == SCHEMA and described.get("inputs") == sought.inputs:
        return True
    if described is not None or (sought.folder.exists() and not _is_empty(sought.folder)):
        raise Failure(f"{sought.folder}: holds something else, or a bundle of other sources; remove it, or name another folder with --into")
    return False


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
