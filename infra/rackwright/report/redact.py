"""Masking of a stack's secrets in reports and messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from rackwright.masking import mask, secret_parts
from rackwright.yaml_loader import load_yaml

_SHORTEST: Final = 6
"""Minimum length of a secret in characters. Shorter ones would mask ordinary words; no generated secret is shorter."""


class Redactor:
    """Masks every given secret and each of its lines, because keys are quoted line by line."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = secret_parts(secrets, _SHORTEST)

    def __call__(self, text: str) -> str:
        return mask(text, self._secrets)

    def in_all(self, value: Any) -> Any:
        """Return a document with its texts masked. A text must be masked before it is shortened: part of a secret is not recognised."""
        if isinstance(value, dict):
            return {key: self.in_all(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.in_all(item) for item in value]
        return self(value) if isinstance(value, str) else value


def redactor(*files: Path) -> Redactor:
    """Return a redactor of all texts in the files: the values of YAML files, other files as a whole. Missing files are ignored."""
    found: list[str] = []
    for file in files:
        if file.exists():
            text = file.read_text(encoding="utf-8")
            found += _texts(load_yaml(text)) if file.suffix == ".yml" else [text]
    return Redactor(found)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
