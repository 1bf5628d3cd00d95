"""Questions to nodes, by subject, each beside the pure parser of its answer."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def load() -> None:
    """Import every module of questions, so that all of them are registered."""
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        import_module(f"{__name__}.{file.stem}")
