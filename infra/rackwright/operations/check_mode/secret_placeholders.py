"""Secrets in recorded module arguments: replaced by placeholders before the record is saved, and inserted again before a replay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rackwright.yaml_loader import load_yaml

_SHORTEST: Final = 8
"""Minimum length of a secret in characters: generated secrets are longer, and shorter texts occur in ordinary words."""


def is_too_short(secret: str) -> bool:
    """Return whether a secret may also be a part of ordinary words."""
    return 0 < len(secret) < _SHORTEST


def read_secrets(file: Path, others: Iterable[str] = ()) -> dict[str, str]:
    """Return placeholder -> secret, the longest first, because a secret may contain another one.

    Arguments contain `others` as they are, and within JSON.
    """
    written = [form for text in others for form in (text, json.dumps(text)[1:-1])]
    found = sorted(_strings([load_yaml(file.read_text(encoding="utf-8")), written]), key=lambda text: (-len(text), text))
    return {f"\N{SYMBOL FOR SUBSTITUTE}secret {number}\N{SYMBOL FOR SUBSTITUTE}": text for number, text in enumerate(dict.fromkeys(found))}


def mask(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return the data with all secrets replaced by placeholders."""
    return _replaced(value, {text: name for name, text in secrets.items()})


def unmask(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return the data with all placeholders replaced by secrets."""
    return _replaced(value, secrets)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= _SHORTEST:
        yield value
        yield from (line for line in value.splitlines() if len(line) >= _SHORTEST and line != value)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for old, new in words.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, Mapping):
        return {_replaced(key, words): _replaced(part, words) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(part, words) for part in value]
    return value
