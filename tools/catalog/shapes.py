"""Hardware of EC2 instance types, from moto's copy of DescribeInstanceTypes."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import moto

_RESOURCES: Final = Path(moto.__file__).parent / "ec2" / "resources"

MODELS: Final = {
    ("T4", 16384): "t4",
    ("A10G", 22888): "a10g",
    ("L4", 22888): "l4",
    ("L40S", 45776): "l40s",
    ("RTX PRO Server 6000", 98304): "rtxpro6000",
    ("A100", 40960): "a100-40g",
    ("A100", 81920): "a100",
    ("H100", 81920): "h100",
    ("H200", 144384): "h200",
    ("B200", 183359): "b200",
    ("B300", 275040): "b300",
}
"""EC2's name of a GPU and its memory in MiB -> row of gpus.csv."""

_PERFORMANCE: Final = re.compile(r"(?:Up to )?(?:(?P<cards>\d+)x )?(?P<gbps>[\d.]+) Gigabit")


class NoShape(Exception):
    """The type is unknown, or its hardware does not fit the columns of the catalogue."""


def source(operation: str = "DescribeInstanceTypes") -> str:
    """Return the source of the columns, with its version."""
    return f"moto {version('moto')}: {operation}"


@cache
def described() -> Mapping[str, Mapping[str, Any]]:
    """Return all types by name, each an entry of DescribeInstanceTypes."""
    with gzip.open(_RESOURCES / "instance_types.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, dict[str, Any]] = json.load(file)
    return found


def shape(name: str) -> dict[str, str]:
    """Return the shape columns of a type's row. Raise NoShape for an unknown type, and for one with fractional GPUs."""
    if name not in described():
        raise NoShape(f"{name}: {source()} has no such type")
    entry = described()[name]
    model, count = _gpus(name, entry)
    return {
        "architecture": _architecture(name, entry),
        "cpus": str(entry["VCpuInfo"]["DefaultVCpus"]),
        "cores": str(entry["VCpuInfo"]["DefaultCores"]),
        "memory_mib": str(entry["MemoryInfo"]["SizeInMiB"]),
        "gpu_model": model,
        "gpu_count": str(count),
        "neuron_devices": str(sum(device["Count"] for device in entry.get("NeuronInfo", {}).get("NeuronDevices", []))),
        **_network(name, entry["NetworkInfo"]),
        "nvme_gb": str(entry.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        "usage_classes": " ".join(sorted(entry["SupportedUsageClasses"])),
        "cluster_placement": _word("cluster" in entry["PlacementGroupInfo"]["SupportedStrategies"]),
    }


def _architecture(name: str, entry: Mapping[str, Any]) -> str:
    """Return the 64-bit architecture; old types list a 32-bit one as well."""
    found = [each for each in entry["ProcessorInfo"]["SupportedArchitectures"] if each in {"x86_64", "arm64"}]
    if len(found) != 1:
        raise NoShape(f"{name}: architectures {found}")
    return str(found[0])


def _gpus(name: str, entry: Mapping[str, Any]) -> tuple[str, int]:
    """Return model and count; ("", 0) without GPUs."""
    gpus = entry.get("GpuInfo", {}).get("Gpus", [])
    if not gpus:
        return "", 0
    if len(gpus) > 1 or gpus[0]["Count"] < 1:
        raise NoShape(f"{name}: its GPUs are fractions of one, or of several models")
    key = (gpus[0]["Name"], gpus[0]["MemoryInfo"]["SizeInMiB"])
    if key not in MODELS:
        raise NoShape(f"{name}: GPU {key} has no row in gpus.csv")
    return MODELS[key], gpus[0]["Count"]


def _network(name: str, info: Mapping[str, Any]) -> dict[str, str]:
    """Return cards, interfaces and speed. A row has one number of interfaces for all cards, and EFA on adjacent cards only."""
    cards = info["NetworkCards"]
    per_card = {card["MaximumNetworkInterfaces"] for card in cards}
    with_efa = [card["NetworkCardIndex"] for card in cards if "efa" in card["InterfaceTypes"]]
    interfaces = info.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    neighbours = list(range(with_efa[0], with_efa[0] + interfaces)) if with_efa else []
    if len(per_card) != 1 or with_efa != neighbours:
        raise NoShape(f"{name}: network cards of several kinds")
    return {
        "efa_interfaces": str(interfaces),
        "network_cards": str(len(cards)),
        "interfaces_per_card": str(per_card.pop()),
        "primary_card_takes_efa": _word(0 in with_efa),
        "gbps": f"{_gbps(name, info['NetworkPerformance']):g}",
    }


def _gbps(name: str, performance: str) -> float:
    """Return the speed in Gbit/s: `8x 100 Gigabit` is 800, `Up to 25 Gigabit` is 25."""
    match = _PERFORMANCE.fullmatch(performance)
    if match is None:
        raise NoShape(f"{name}: network performance {performance!r}")
    return int(match["cards"] or 1) * float(match["gbps"])


def _word(value: bool) -> str:
    return "yes" if value else "no"
