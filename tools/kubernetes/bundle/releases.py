"""Releases of Kubernetes that a bundle can be built of, and the wrapper modules of each."""

from __future__ import annotations

from pathlib import Path

from bootstrap.failure import Failure
from bundle import inputs, recipe

FOLDER = "releases"
"""Folder of the modules of all releases but the one that the modules beside this package build. Its folders are minor releases.
The modules beside this package also build the project's own programs, for every release."""


def known(rooms: Path) -> dict[str, Path]:
    """Return each release, such as 1.35.3, with the folder of its modules. `rooms`: tools/kubernetes, whose own modules come first."""
    folders = [rooms, *sorted(path for path in (rooms / FOLDER).glob("*") if (path / recipe.KUBERNETES.folder / "go.mod").exists())]
    return {inputs.version(folder, recipe.KUBERNETES).lstrip("v"): folder for folder in folders}


def modules(rooms: Path, release: str | None) -> Path:
    """Return the folder of a release's modules; without a release, those beside this package. Raise Failure for a release that has none."""
    if release is None:
        return rooms
    found = known(rooms)
    if release not in found:
        raise Failure(
            f"Kubernetes {release}: tools/kubernetes has no modules for this release (expected one of {', '.join(found)}).\n"
            "Select one of these, or add the modules (tools/README.md, Add a release of Kubernetes)."
        )
    return found[release]


def digest(rooms: Path, release: str | None, processor: str) -> str:
    """Return twelve hex digits that change with anything that a release's bundle is built from."""
    folder = modules(rooms, release)
    if folder == rooms:
        return inputs.digest(rooms, processor)
    files = [path for module in recipe.MODULES for path in inputs.sources(folder / module.folder)]
    own = [path for program in recipe.OWN_PROGRAMS for path in inputs.own_sources(rooms, program)]
    named = {str(path.relative_to(rooms)): path for path in (*files, *own)}
    return inputs.digest_of(processor, [*sorted(named.items()), *inputs.deciding()])
