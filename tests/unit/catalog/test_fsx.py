"""FSx for Lustre: what can be chosen, and what is nearest to what cannot."""

from __future__ import annotations

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackwright.catalog.fsx import (
    TIERING_THROUGHPUT,
    DeploymentType,
    DriveCache,
    MetadataMode,
    SizeSteps,
    StorageType,
    capacities,
    default_lustre_version,
    lustre_versions,
    metadata_iops,
    metadata_modes,
    storage_types,
    takes_efa,
    throughputs,
)

SSD, HDD, TIERING = StorageType
SCRATCH_1, SCRATCH_2, PERSISTENT_1, PERSISTENT_2 = DeploymentType


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (DeploymentType, "LustreDeploymentType"),
        (StorageType, "StorageType"),
        (MetadataMode, "MetadataConfigurationMode"),
        (DriveCache, "DriveCacheType"),
    ],
)
def test_the_words_are_those_of_the_api(words: type[DeploymentType], shape: str) -> None:
    """A word more would be refused by AWS, a word less is withheld from users."""
    model = botocore.session.get_session().get_service_model("fsx")
    assert [each.value for each in words] == model.shape_for(shape).enum


@pytest.mark.parametrize(
    ("deployment", "storage", "throughput", "good", "bad"),
    [
        (SCRATCH_1, SSD, None, (1200, 2400, 3600, 7200), (0, 1201, 4800, 6000)),
        (SCRATCH_2, SSD, None, (1200, 2400, 4800, 7200), (0, 600, 3600, 6000)),
        (PERSISTENT_1, SSD, 200, (1200, 2400, 4800), (3600, 2401)),
        (PERSISTENT_1, HDD, 12, (6000, 12000), (1200, 1800, 7200)),
        (PERSISTENT_1, HDD, 40, (1800, 3600, 5400), (1200, 2400)),
        (PERSISTENT_2, SSD, 125, (1200, 2400, 38400), (-2400, 600, 3600)),
    ],
)
def test_capacities(
    deployment: DeploymentType, storage: StorageType, throughput: int | None, good: tuple[int, ...], bad: tuple[int, ...]
) -> None:
    """As CreateFileSystem lists them."""
    allowed = capacities(deployment, storage, throughput)
    assert allowed
    assert all(each in allowed for each in good)
    assert not [each for each in bad if each in allowed]


@pytest.mark.parametrize(("throughput", "step"), [(1000, 4800), (500, 9600), (250, 19200), (125, 38400)])
def test_efa_takes_larger_steps(throughput: int, step: int) -> None:
    """The slower, the larger."""
    allowed = capacities(PERSISTENT_2, SSD, throughput, efa=True)
    assert allowed
    assert step in allowed and 3 * step in allowed
    assert step // 2 not in allowed and 1200 not in allowed


def test_there_is_no_capacity_where_there_is_nothing_to_choose() -> None:
    """Tiering grows by itself; HDD without its throughput and EFA elsewhere cannot be built."""
    assert capacities(PERSISTENT_2, TIERING) is None
    assert capacities(PERSISTENT_1, HDD, 50) is None
    assert capacities(PERSISTENT_1, SSD, 200, efa=True) is None
    assert capacities(PERSISTENT_2, SSD, 200, efa=True) is None


def test_throughputs() -> None:
    """Scratch has none to choose, and so has tiering."""
    assert throughputs(PERSISTENT_1) == (50, 100, 200)
    assert throughputs(PERSISTENT_1, HDD) == (12, 40)
    assert throughputs(PERSISTENT_2) == (125, 250, 500, 1000)
    assert throughputs(SCRATCH_2) == throughputs(PERSISTENT_2, TIERING) == throughputs(PERSISTENT_2, HDD) == ()
    assert 4000 in TIERING_THROUGHPUT and 2_000_000 in TIERING_THROUGHPUT
    assert 2000 not in TIERING_THROUGHPUT and 2_004_000 not in TIERING_THROUGHPUT


def test_what_lies_on_what() -> None:
    """HDD is PERSISTENT_1's alone, tiering PERSISTENT_2's; scratch keeps nothing."""
    assert storage_types(SCRATCH_2) == (SSD,)
    assert [each for each in DeploymentType if HDD in storage_types(each)] == [PERSISTENT_1]
    assert [each for each in DeploymentType if TIERING in storage_types(each)] == [PERSISTENT_2]
    assert [each for each in DeploymentType if each.persistent] == [PERSISTENT_1, PERSISTENT_2]


def test_metadata() -> None:
    """Small numbers first, then twelve thousands up to 192000; tiering has two."""
    assert [each for each in (1500, 3000, 6000, 12000, 24000, 192000) if each not in metadata_iops()] == []
    assert [each for each in (0, 2000, 4500, 9000, 18000, 204000) if each in metadata_iops()] == []
    assert [each for each in (1500, 6000, 12000, 24000) if each in metadata_iops(TIERING)] == [6000, 12000]
    assert metadata_modes(SSD) == tuple(MetadataMode) and metadata_modes(TIERING) == (MetadataMode.USER_PROVISIONED,)
    assert [each for each in DeploymentType if each.takes_metadata] == [PERSISTENT_2]


def test_efa_needs_persistent_2_and_a_metadata_configuration() -> None:
    """Half of it is refused by the API."""
    assert takes_efa(PERSISTENT_2, metadata=True)
    assert not takes_efa(PERSISTENT_2, metadata=False)
    assert not takes_efa(PERSISTENT_1, metadata=True)


def test_lustre_versions() -> None:
    """PERSISTENT_2 never runs 2.10, and with a metadata configuration 2.15 only."""
    assert lustre_versions(SCRATCH_2) == ("2.10", "2.12", "2.15")
    assert lustre_versions(PERSISTENT_2) == ("2.12", "2.15")
    assert lustre_versions(PERSISTENT_2, metadata=True) == ("2.15",)
    assert [default_lustre_version(PERSISTENT_1), default_lustre_version(PERSISTENT_2)] == ["2.10", "2.12"]
    assert default_lustre_version(PERSISTENT_2, metadata=True) == "2.15"


@pytest.mark.parametrize(
    ("asked", "nearest", "at_least"),
    [
        (1, 1200, 1200),
        (1200, 1200, 1200),
        (1500, 1200, 2400),
        (1800, 2400, 2400),
        (3500, 2400, 4800),
        (3600, 4800, 4800),
        (5000, 4800, 7200),
    ],
)
def test_the_nearest_capacity(asked: int, nearest: int, at_least: int) -> None:
    """For a hint; of two equally near the larger."""
    allowed = capacities(PERSISTENT_2, SSD, 125)
    assert allowed
    assert (allowed.nearest(asked), allowed.at_least(asked)) == (nearest, at_least)


def test_above_the_most_there_is_nothing_larger() -> None:
    """The nearest is then the most."""
    assert (metadata_iops().at_least(200_000), metadata_iops().nearest(200_000)) == (None, 192_000)
    assert (metadata_iops(TIERING).at_least(12_001), metadata_iops(TIERING).nearest(9_000)) == (None, 12_000)


def test_steps_say_themselves() -> None:
    """As a hint puts it."""
    assert str(capacities(SCRATCH_1)) == "1200, 2400, then multiples of 3600"
    assert str(TIERING_THROUGHPUT) == "multiples of 4000 up to 2000000"
    assert str(metadata_iops(TIERING)) == "6000, 12000"


ALL_STEPS = [
    allowed
    for deployment in DeploymentType
    for storage in storage_types(deployment)
    for throughput in throughputs(deployment, storage) or (None,)
    for efa in (False, True)
    if (allowed := capacities(deployment, storage, throughput, efa=efa))
] + [metadata_iops(), metadata_iops(TIERING), TIERING_THROUGHPUT]


@given(allowed=st.sampled_from(ALL_STEPS), number=st.integers(-10_000, 3_000_000))
def test_nearest_and_at_least_are_themselves_allowed(allowed: SizeSteps, number: int) -> None:
    """A hint that leads into the next error is worse than none."""
    near, above = allowed.nearest(number), allowed.at_least(number)
    assert near in allowed
    assert above is None or (above in allowed and above >= number)
    if number in allowed:
        assert near == above == number
