"""Names that the provider generates where the program sets none: the logical name and seven hex digits, constant for life."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

_DEFAULTS: Final = "__defaults"
"""Input in which a bridged provider records the properties that it filled in itself."""


@dataclass(frozen=True)
class Autoname:
    """The generated property, and the service's limits of its value."""

    property: str = "name"
    longest: int = 255
    prefix: str = "namePrefix"
    lower: bool = False


def fill_in(rule: Autoname | None, logical: str, seed: bytes, olds: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with a name. The recorded one stays if it was generated from the same logical name."""
    if rule is None or news.get(rule.property) is not None:
        return {**news, _DEFAULTS: []}
    base = news.get(rule.prefix) or f"{logical}-"
    base = base.lower() if rule.lower else base
    kept = olds.get(rule.property)
    digits = hashlib.sha256(seed + logical.encode()).hexdigest()[:7]
    made_up = rule.property in olds.get(_DEFAULTS, []) and isinstance(kept, str) and kept.startswith(base)
    return {**news, rule.property: kept if made_up else f"{base}{digits}"[: rule.longest], _DEFAULTS: [rule.property]}


def own(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs without the provider's notes."""
    return {key: value for key, value in inputs.items() if key != _DEFAULTS}


def was_given(rule: Autoname | None, inputs: dict[str, Any]) -> bool:
    """Return whether the program itself named the resource: then two of them cannot exist at once."""
    return rule is not None and rule.property not in inputs.get(_DEFAULTS, []) and rule.property in inputs
