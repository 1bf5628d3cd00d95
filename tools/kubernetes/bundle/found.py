"""Location of a bundle and whether it exists. This runs at every start, so it must be fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import inputs, recipe, releases

SCHEMA = "rackwright.kubernetes-bundle/1"
LABEL = "bundle.json"


class Wanted(NamedTuple):
    """A bundle, there or not."""

    folder: Path
    inputs: str
    processor: str


def wanted(machine: Machine, rooms: Path, into: Path | None, release: str | None = None) -> Wanted:
    """The bundle of these sources for this machine's processor, of a release or of the default."""
    processor = inputs.processor(machine)
    digest = releases.digest(rooms, release, processor)
    version = inputs.version(releases.modules(rooms, release), recipe.KUBERNETES).lstrip("v")
    return Wanted(into.absolute() if into else machine.cache() / f"kubernetes-{version}-{digest}", digest, processor)


def of_release(part: Wanted, rooms: Path, release: str | None) -> Wanted:
    """Return the same part rendered by the kubectl of a release. The default's part has the digest that addons.py computes."""
    if releases.modules(rooms, release) == rooms:
        return part
    digest = inputs.digest_of(f"{part.inputs} {release}", [])
    return part._replace(inputs=digest, folder=part.folder.with_name(part.folder.name.replace(part.inputs, digest)))


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
