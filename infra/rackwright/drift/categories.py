"""Classes of differences by subject, from weights.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from rackwright.drift.difference import Weight


@dataclass(frozen=True, slots=True)
class Weights:
    """By check or its subject, by role, by property of a resource, by kind of trace."""

    behaviour: Mapping[str, Weight]
    configuration: Mapping[str, Weight]
    resources: Mapping[str, Weight]
    traces: Mapping[str, Weight]

    def of_check(self, key: str, subject: str) -> Weight:
        """The check's own, else its subject's."""
        return self.behaviour.get(key) or self.behaviour[subject]


@cache
def weights() -> Weights:
    """As weights.yml has them."""
    found = yaml.safe_load(files("rackwright.drift").joinpath("weights.yml").read_text(encoding="utf-8"))
    return Weights(**{part: {name: Weight(word) for word, names in found[part].items() for name in names} for part in found})
