"""The catalogue of Kubernetes releases."""

from __future__ import annotations

from datetime import date

from bundle import front
from rackwright.catalog import version_key
from rackwright.catalog.kubernetes import bundled_releases, lab_releases, releases, support_ends
from rackwright.model.scheduler.kubernetes import DEFAULT_VERSION


def test_each_release_has_end_of_support() -> None:
    """A later minor release is supported for longer."""
    minors = {version_key(version)[:2]: support_ends(version) for version in sorted(releases(), key=version_key)}
    assert list(minors.values()) == sorted(set(minors.values())) and minors


def test_default_release_has_a_bundle() -> None:
    """The lab has no other source."""
    assert DEFAULT_VERSION in bundled_releases()


def test_every_supported_minor_release_has_a_bundle() -> None:
    minors = {version_key(version)[:2] for version in releases()}
    assert {version_key(version)[:2] for version in bundled_releases()} == minors


def test_default_release_ran_in_a_lab() -> None:
    """A new stack selects no release that was never run."""
    assert DEFAULT_VERSION in lab_releases() and set(lab_releases()) <= set(bundled_releases())


def test_bundle_and_stacks_have_the_same_default() -> None:
    assert front.DEFAULT_RELEASE == DEFAULT_VERSION


def test_default_release_is_supported() -> None:
    """Judged at the day on which the catalogue was read, so that the test does not fail with time."""
    assert support_ends(DEFAULT_VERSION) > date(2026, 11, 27)
