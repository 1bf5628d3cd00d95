"""Software versions for each release of Kubernetes, and the product's own images."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_name("kubernetes.yml")
OWN: Final = "rackwright.local"
"""Registry name of images that only the bundle contains; no such registry exists."""


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return found


def releases() -> tuple[str, ...]:
    """Return the known releases."""
    return tuple(_read()["releases"])


def bundled_releases() -> tuple[str, ...]:
    """Return the releases of which tools/kubernetes builds a bundle."""
    return tuple(version for version, row in _read()["releases"].items() if row["bundle"])


def lab_releases() -> tuple[str, ...]:
    """Return the releases with which a lab was created and passed its checks."""
    return tuple(version for version, row in _read()["releases"].items() if row["lab"])


def support_ends(version: str) -> date:
    """Return the last day of a known release's support (kubernetes.io/releases)."""
    found: date = _read()["support_ends"][version.rpartition(".")[0]]
    return found


def containerd(os: str) -> str | None:
    """Return the containerd release that a system packages; None if it changes over time."""
    found: str | None = _read()["containerd"].get(os)
    return found


def pause(version: str) -> str:
    """Return the image that holds a pod's namespaces."""
    return str(_read()["releases"][version]["pause"])


def etcd(version: str) -> str | None:
    """Return the release of etcd that kubeadm installs with a release of Kubernetes; None if it is not known.

    >>> etcd("1.36.2"), etcd("1.20.0")
    ('3.6.8', None)
    """
    row = _read()["releases"].get(version)
    return str(row["etcd"]).partition("-")[0] if row else None


def own_image(name: str) -> str:
    """Return the full name of an image of the bundle, with the digest of its sources."""
    return f"{OWN}/{name}:{_read()['own'][name]}"


def device_plugin() -> str:
    """Return the image of NVIDIA's device plugin."""
    return str(_read()["device_plugin"])
