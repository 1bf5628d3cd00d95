"""All addons: those of addons.py, and later ones. addons.py decides the digest of all its parts: an entry there would build them anew."""

from __future__ import annotations

from pathlib import Path

from bootstrap.machine import Machine
from bundle import addons, inputs, recipe
from bundle.addons import Addon
from bundle.found import Wanted

_LWS = "sigs.k8s.io/lws"
_LATER = (
    Addon(
        recipe.Module(
            folder="addons/leaderworkerset",
            title="LeaderWorkerSet",
            main=_LWS,
            programs={"leaderworkerset": f"{_LWS}/cmd"},
            tags="grpcnotrace",
            variables=(f"{_LWS}/pkg/version.GitVersion={{version}}",),
            packages=1090,
        ),
        program="/manager",
        described="config",
    ),
)
ADDONS: dict[str, Addon] = {**addons.ADDONS, **{one.name: one for one in _LATER}}


def wanted(machine: Machine, rooms: Path, addon: Addon, into: Path | None) -> Wanted:
    """Return the addon's part for this machine's processor. A later one's recipe is in its digest, beside the files of addons.py."""
    part = addons.wanted(machine, rooms, addon, into)
    if addon.name in addons.ADDONS:
        return part
    digest = inputs.digest_of(f"{part.inputs} {addon}", [])
    return part._replace(inputs=digest, folder=part.folder.with_name(part.folder.name.replace(part.inputs, digest)))
