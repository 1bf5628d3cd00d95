"""The catalogue of Kubernetes releases."""

from __future__ import annotations

import ast
from pathlib import Path

from rackwright.catalog import version_key
from rackwright.catalog.kubernetes import bundled_releases, releases, support_ends
from rackwright.model.scheduler.kubernetes import DEFAULT_VERSION


def test_each_release_has_end_of_support() -> None:
    """A later minor release is supported for longer."""
    minors = {version_key(version)[:2]: support_ends(version) for version in sorted(releases(), key=version_key)}
    assert list(minors.values()) == sorted(set(minors.values())) and minors


def test_default_release_has_a_bundle() -> None:
    """The lab has no other source."""
    assert DEFAULT_VERSION in bundled_releases()


def test_bundle_is_built_for_default_release() -> None:
    """`tools/kubernetes/build` runs without the package: it has the release in a constant of its own."""
    source = Path(__file__).parents[3] / "tools" / "kubernetes" / "bundle" / "releases.py"
    assigned = {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert assigned["DEFAULT"] == DEFAULT_VERSION


def test_every_supported_minor_release_has_a_bundle() -> None:
    minors = {version_key(version)[:2] for version in releases()}
    assert {version_key(version)[:2] for version in bundled_releases()} == minors
