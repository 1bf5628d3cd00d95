"""What goes with which release of Kubernetes, and the images that are our own."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_name("kubernetes.yml")
OWN: Final = "rackwright.local"
"""The registry, which is none, of images that only the bundle has."""


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return found


def releases() -> tuple[str, ...]:
    """The releases that are known."""
    return tuple(_read()["releases"])


def support_ends(version: str) -> date:
    """Return the last day of a known release's support (kubernetes.io/releases)."""
    found: date = _read()["support_ends"][version.rpartition(".")[0]]
    return found


def containerd(os: str) -> str | None:
    """The release of containerd that a system packages; None where it moves."""
    found: str | None = _read()["containerd"].get(os)
    return found


def pause(version: str) -> str:
    """The image that holds a pod's namespaces."""
    return str(_read()["releases"][version]["pause"])


def own_image(name: str) -> str:
    """An image of the bundle's own, by name and the digest of its sources."""
    return f"{OWN}/{name}:{_read()['own'][name]}"


def device_plugin() -> str:
    """NVIDIA's device plugin."""
    return str(_read()["device_plugin"])
