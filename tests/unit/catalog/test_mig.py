"""MIG profiles: the numbers of NVIDIA's tables, and combinations that fit or do not."""

from __future__ import annotations

import pytest
from support.rows import each_row

from rackwright import catalog
from rackwright.catalog.mig import mig_models, mig_profiles
from rackwright.derive.mig import layout, place, required_devices
from rackwright.model.groups import Gpus

LARGE, SMALL = [7, 4, 3, 2, 1, 1], [4, 2, 1]
"""Instances of one profile on a GPU, the smallest profile first (NVIDIA MIG User Guide: Number of Instances Available)."""


@each_row("model", mig_models())
def test_profiles_fit_as_often_as_nvidia_says(model: str) -> None:
    assert model in catalog.gpus()
    profiles = mig_profiles(model)
    assert [profile.maximum for profile in profiles.values()] == (SMALL if model == "a30" or model.startswith("rtxpro6000") else LARGE)
    for name, profile in profiles.items():
        assert name.startswith(f"{profile.compute_slices}g.") and name.endswith("gb")
        assert place([profile] * profile.maximum) is not None
        assert place([profile] * (profile.maximum + 1)) is None


def test_a_profile_of_the_whole_gpu_has_its_memory() -> None:
    for model in mig_models():
        largest = list(mig_profiles(model))[-1]
        gigabytes = int(largest.partition(".")[2].removesuffix("gb"))
        assert abs(gigabytes - catalog.gpus()[model].memory_mib / 1024) <= 0.06 * gigabytes, model


@pytest.mark.parametrize(
    ("profiles", "fit"),
    [
        ({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, True),
        ({"2g.20gb": 1, "1g.10gb": 5}, True),
        ({"4g.40gb": 1, "3g.40gb": 1}, True),
        ({"3g.40gb": 2}, True),
        ({"3g.40gb": 2, "1g.10gb": 1}, False),
        ({"4g.40gb": 1, "3g.40gb": 1, "1g.10gb": 1}, False),
        ({"7g.80gb": 1, "1g.10gb": 1}, False),
        ({"2g.20gb": 3, "1g.20gb": 1}, True),
        ({"2g.20gb": 3, "1g.10gb": 2}, False),
    ],
)
def test_combinations(profiles: dict[str, int | None], fit: bool) -> None:
    """The first two are examples of the MIG User Guide, by the names of 80 GB."""
    placed = place(required_devices(profiles, mig_profiles("h100")))
    assert (placed is not None) is fit
    if placed is not None:
        taken = [start + offset for name, start in placed for offset in range(mig_profiles("h100")[name].memory_slices)]
        assert len(taken) == len(set(taken)) and max(taken) < 8
        assert sum(mig_profiles("h100")[name].compute_slices for name, _ in placed) <= 7


def test_layout_has_an_entry_for_each_gpu() -> None:
    gpus = Gpus(model="h100", count=3, mig=[{"devices": [1], "profiles": {"7g.80gb": 1}}, {"profiles": {"4g.40gb": None}}])
    assert layout(gpus) == ((("4g.40gb", 0),), (("7g.80gb", 0),), (("4g.40gb", 0),))
    assert layout(Gpus(model="h100", count=3)) == ()
