"""Masking of a stack's secrets in reports and messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

MASK: Final = "[secret]"
_SHORTEST: Final = 6
"""Minimum length of a secret in characters. Shorter ones would mask ordinary words; no generated secret is shorter."""


class Redactor:
    """Masks every given secret and each of its lines, because keys are quoted line by line."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        parts = {part.strip() for secret in secrets for part in (secret, *secret.splitlines())}
        self._secrets = sorted((part for part in parts if len(part) >= _SHORTEST and not part.startswith("-----")), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return text


def redactor(*files: Path) -> Redactor:
    """Return a redactor of all texts in the files: the values of YAML files, other files as a whole. Missing files are ignored."""
    found: list[str] = []
    for file in files:
        if file.exists():
            text = file.read_text(encoding="utf-8")
            found += _texts(yaml.safe_load(text)) if file.suffix == ".yml" else [text]
    return Redactor(found)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
