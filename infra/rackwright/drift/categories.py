"""Categories of differences by subject, from categories.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rackwright.drift.difference import Category
from rackwright.yaml_loader import load_yaml


@dataclass(frozen=True, slots=True)
class Categories:
    """Categories by check or its subject, by role, by property of a resource, by kind of trace."""

    behaviour: Mapping[str, Category]
    configuration: Mapping[str, Category]
    resources: Mapping[str, Category]
    host_baseline: Mapping[str, Category]

    def of_check(self, key: str, subject: str) -> Category:
        """Return the category of the check, else that of its subject."""
        return self.behaviour.get(key) or self.behaviour[subject]


@cache
def categories() -> Categories:
    """Return the categories of categories.yml."""
    found = load_yaml(files("rackwright.drift").joinpath("categories.yml").read_text(encoding="utf-8"))
    return Categories(**{part: {name: Category(word) for word, names in found[part].items() for name in names} for part in found})
