"""Probes by subject, each with the pure parser of its output."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def load() -> None:
    """Import every module of probes, which registers all probes."""
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        import_module(f"{__name__}.{file.stem}")
