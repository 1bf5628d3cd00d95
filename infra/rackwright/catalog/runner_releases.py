"""Releases of the GitHub Actions runner with the digest of each archive. A digest that is not here must be in the stack file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from rackwright import catalog

OLDEST: Final = "2.329.0"
"""GitHub registers no older runner (GitHub community discussion 194762: version enforcement of self-hosted runners, 2026)."""


@cache
def runner_digests() -> Mapping[str, Mapping[str, str]]:
    """Return the SHA-256 digests by version and processor architecture, the oldest version first."""
    return {row["version"]: {key: row[key] for key in ("x86_64", "arm64")} for row in catalog.rows("runner_releases")}


def newest() -> str:
    """Return the newest known version."""
    return list(runner_digests())[-1]
