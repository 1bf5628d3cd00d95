"""Pod networks: versions, ports, overhead of encapsulation."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.catalog.addons import addons
from rackwright.catalog.kubernetes import OWN
from rackwright.model.scheduler.kubernetes import Cni, Encapsulation
from rackwright.yaml_loader import load_yaml

_FILE: Final = Path(__file__).with_suffix(".yml")


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return found


def default_cni(target: str) -> Cni:
    """Return the default CNI plugin: plain routes if all nodes are on one segment; on a cloud's network, plain routes do not work."""
    return Cni.FLANNEL if target == "aws" else Cni.BRIDGE


def overhead(encapsulation: Encapsulation) -> int:
    """Return the overhead of each packet, in bytes."""
    return int(_read()["overhead"][encapsulation.value])


def encapsulations(cni: Cni) -> tuple[Encapsulation, ...]:
    """Return the encapsulations that a network supports, its default first."""
    if cni is Cni.BRIDGE:
        return (Encapsulation.NONE,)
    return tuple(Encapsulation(name) for name in _read()["required_ports"][cni.value])


def required_ports(cni: Cni, encapsulation: Encapsulation) -> tuple[str, ...]:
    """Return the ports that nodes must accept from each other, as `udp/8472` or the name of a protocol."""
    return () if cni is Cni.BRIDGE else tuple(_read()["required_ports"][cni.value][encapsulation.value])


def version(cni: Cni) -> str:
    """Return the release that manifests and values are written for."""
    return addons()["cilium"].version if cni is Cni.CILIUM else str(_read()[cni.value]["version"])


def source(cni: Cni) -> str:
    """Return the URL of the vendor's files."""
    return addons()["cilium"].source if cni is Cni.CILIUM else str(_read()[cni.value]["source"])


def flannel_image(bundled: bool) -> str:
    """Return the vendor's image, or the one of the bundle."""
    row = _read()["flannel"]
    return f"{OWN}/flannel:{row['own']}" if bundled else str(row["image"])
