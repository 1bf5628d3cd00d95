"""Run on the node, imported by other programs; also used by checks: quantities of Kubernetes, and the GPUs that a pod holds.

Python 3.9, standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_FACTORS = {
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m"), -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_GPU = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")
"""Whole GPUs, replicas of shared GPUs, MIG slices (NVIDIA/k8s-device-plugin, README: renameByDefault, migStrategy mixed)."""


def quantity(text: Any) -> Fraction:
    """Return the value of a quantity (k8s.io/apimachinery, resource.Quantity); memory is in bytes. Raise ValueError for all else.

    >>> [str(quantity(text)) for text in ("8", "1k", "1e3", "100m", "0.5", "1Ki")]
    ['8', '1000', '1000', '1/10', '1/2', '1024']
    """
    found = _FORM.fullmatch(str(text).strip())
    if not found:
        raise ValueError(f'"{text}" is not a quantity')
    number, exponent, suffix = found.groups()
    return Fraction(number.rstrip(".")) * (Fraction(10) ** int(exponent) if exponent else _FACTORS[suffix or ""])


def whole_number(text: Any) -> int:
    """Return a quantity of whole things, such as GPUs or pods. Raise ValueError for all else.

    >>> whole_number("8"), whole_number("1k"), whole_number(2)
    (8, 1000, 2)
    """
    found = quantity(text)
    if found.denominator != 1:
        raise ValueError(f'"{text}" is not a whole number')
    return int(found)


def gpus_of(pod: dict[str, Any]) -> int:
    """Return the number of GPUs, shared GPUs and slices of GPUs that a pod holds until it ends.

    Init containers run before the others and give their GPUs back; those that restart always stay beside the others (sidecars).
    """
    spec = pod["spec"]
    first = spec.get("initContainers") or []
    sidecars = [one for one in first if one.get("restartPolicy") == "Always"]
    highest, beside = 0, 0
    for one in first:
        own = _held([one])
        beside += own if one in sidecars else 0
        highest = max(highest, beside + (0 if one in sidecars else own))
    return max(highest, beside + _held(spec["containers"]))


def _held(containers: Sequence[dict[str, Any]]) -> int:
    total = 0
    for one in containers:
        resources = one.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        total += sum(whole_number(value) for name, value in wanted.items() if _GPU.fullmatch(name))
    return total
