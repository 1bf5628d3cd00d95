"""The series of Kubernetes that Prometheus keeps, as the role declares them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rackwright.yaml_loader import load_yaml

_FILE = Path(__file__).parents[2] / "roles" / "prometheus" / "vars" / "main.yml"


@cache
def _kept() -> tuple[dict[str, list[str]], ...]:
    return tuple(load_yaml(_FILE.read_text(encoding="utf-8"))["_prometheus_kept"].values())


def is_kept(metric: str) -> bool:
    """Return whether a series with this name and the labels `le="1"` and `container` is kept."""
    names = {"": metric, "le": f"{metric};1", "container": f"{metric};main"}
    plain = {"le": f"{metric};"}
    return any(
        re.fullmatch("|".join(job["series"]), text)
        for job in _kept()
        for label in ["".join(job["labels"][1:])]
        for text in {names[label], plain.get(label, names[label])}
    )
