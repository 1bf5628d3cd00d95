"""Comparison of a live object with its plan. An API server adds fields to an object and normalizes quantities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

_UNITS: Final = {
    "": Decimal(1),
    **{letter: Decimal(10) ** (-3 * power) for power, letter in enumerate("mun", 1)},
    **{letter: Decimal(10) ** (3 * power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
"""Suffixes of quantities (kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity)."""


def differences(planned: Any, live: Any, where: str = "") -> Iterator[str]:
    """Yield each place where the live object differs from the plan. Lists must have the same length and order.

    >>> list(differences({"spec": {"hard": {"memory": "2048Mi"}}}, {"spec": {"hard": {"memory": "2Gi"}}, "status": {}}))
    []
    >>> list(differences({"a": {"b": "1", "c": [1, 2]}}, {"a": {"b": "2", "c": [1]}}))
    ['a.b is 2, not 1', 'a.c has 1, not 2']
    """
    if isinstance(planned, Mapping):
        for key, value in planned.items():
            inner = f"{where}.{key}" if where else str(key)
            if not isinstance(live, Mapping) or key not in live:
                yield f"{inner} is missing"
            else:
                yield from differences(value, live[key], inner)
    elif isinstance(planned, list):
        if not isinstance(live, list) or len(live) != len(planned):
            yield f"{where} has {len(live) if isinstance(live, list) else 'none'}, not {len(planned)}"
        else:
            for place, (planned_item, live_item) in enumerate(zip(planned, live, strict=True)):
                yield from differences(planned_item, live_item, f"{where}.{place}")
    elif planned != live and (quantity(planned) is None or quantity(planned) != quantity(live)):
        yield f"{where} is {live}, not {planned}"


def quantity(value: Any) -> Decimal | None:
    """Return a number with its unit; None for a value that is not a quantity.

    >>> quantity("50m") == quantity("0.05"), quantity("alice"), quantity("1Gi") == quantity("1024Mi")
    (True, None, True)
    """
    found = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)([numkMGTPE]?|[KMGTPE]i)", str(value))
    return Decimal(found[1]) * _UNITS[found[2]] if found and not isinstance(value, bool) else None
