"""From declared MIG profiles to the instances of each GPU: which profile at which place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rackwright.catalog.mig import MigProfile, mig_profiles
from rackwright.model.groups import Gpus, mig_devices


class MigPlace(NamedTuple):
    """A GPU instance: its profile, and the memory slice at which it begins."""

    profile: str
    start: int


def place(profiles: Sequence[MigProfile]) -> tuple[MigPlace, ...] | None:
    """Return a place for each profile on one GPU, in the order of their starts; None where they do not fit together.

    >>> full = list(mig_profiles("h100").values())
    >>> place([full[0], full[3]])
    (MigPlace(profile='1g.10gb', start=4), MigPlace(profile='3g.40gb', start=0))
    """
    reached = {start + offset for one in profiles for start in one.starts for offset in range(one.memory_slices)}
    if sum(one.memory_slices for one in profiles) > len(reached):
        return None
    placed = _place(sorted(profiles, key=lambda one: (-one.memory_slices, -one.compute_slices)), frozenset())
    return tuple(sorted(placed, key=lambda one: one.start)) if placed is not None else None


def _place(left: Sequence[MigProfile], taken: frozenset[int]) -> tuple[MigPlace, ...] | None:
    """Try every start of the largest profile that is left."""
    if not left:
        return ()
    first, *rest = left
    for start in first.starts:
        own = frozenset(range(start, start + first.memory_slices))
        if not own & taken and (others := _place(rest, taken | own)) is not None:
            return (MigPlace(first.name, start), *others)
    return None


def required_devices(declared: Mapping[str, int | None], known: Mapping[str, MigProfile]) -> list[MigProfile]:
    """Return a profile for each instance; without a number, as many as fit on a GPU alone. Unknown profiles are left out."""
    return [
        profile
        for name, count in declared.items()
        if (profile := known.get(name)) is not None
        for _ in range(profile.maximum if count is None else count)
    ]


def devices_of(gpus: Gpus) -> Iterable[tuple[int, Mapping[str, int | None]]]:
    """Yield each GPU that is divided, with its profiles. A declaration without `devices` is about all GPUs that no other one names."""
    declared = mig_devices(gpus.mig)
    named = {device for one in declared for device in one.devices}
    for one in declared:
        for device in one.devices or (device for device in range(gpus.count) if device not in named):
            yield device, one.profiles


def layout(gpus: Gpus) -> tuple[tuple[MigPlace, ...], ...]:
    """Return the instances of each GPU, in the order of the device files; a GPU without instances is whole. Empty without MIG.

    The declaration is one that the rules found no error in.
    """
    if not gpus.mig:
        return ()
    known, divided = mig_profiles(gpus.model), dict(devices_of(gpus))
    return tuple(place(required_devices(divided.get(device, {}), known)) or () for device in range(gpus.count))
