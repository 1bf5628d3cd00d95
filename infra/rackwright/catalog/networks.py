"""Networks of pods: versions, ports, what encapsulation costs."""

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
    """Plain routes where all nodes are on one segment; a cloud's network carries none."""
    return Cni.FLANNEL if target == "aws" else Cni.BRIDGE


def overhead(encapsulation: Encapsulation) -> int:
    """Bytes of each packet that it takes."""
    return int(_read()["overhead"][encapsulation.value])


def encapsulations(cni: Cni) -> tuple[Encapsulation, ...]:
    """Those that a network knows, its default first."""
    if cni is Cni.BRIDGE:
        return (Encapsulation.NONE,)
    return tuple(Encapsulation(name) for name in _read()["required_ports"][cni.value])


def required_ports(cni: Cni, encapsulation: Encapsulation) -> tuple[str, ...]:
    """What nodes must take from each other, as `udp/8472` or the name of a protocol."""
    return () if cni is Cni.BRIDGE else tuple(_read()["required_ports"][cni.value][encapsulation.value])


def version(cni: Cni) -> str:
    """The release that manifests and values are written for."""
    return addons()["cilium"].version if cni is Cni.CILIUM else str(_read()[cni.value]["version"])


def source(cni: Cni) -> str:
    """Where its maker's files are to be had."""
    return addons()["cilium"].source if cni is Cni.CILIUM else str(_read()[cni.value]["source"])


def flannel_image(bundled: bool) -> str:
    """Its maker's image, or the bundle's own."""
    row = _read()["flannel"]
    return f"{OWN}/flannel:{row['own']}" if bundled else str(row["image"])
