"""The catalogue of Kubernetes releases."""

from __future__ import annotations

from rackwright.catalog import version_key
from rackwright.catalog.kubernetes import releases, support_ends


def test_each_release_has_end_of_support() -> None:
    """A later minor release is supported for longer."""
    ends = [support_ends(version) for version in sorted(releases(), key=version_key)]
    assert ends == sorted(set(ends)) and ends
