"""Redaction of log lines, reasons and outputs: every secret that the engine sent is masked for the life of the process."""

from __future__ import annotations

from typing import Any

from rackwright.masking import mask, secret_parts
from rackwright.printable import printable
from rackwright.provider.protocol.property_values import Properties, Secret, secrets_in, unwrap_secrets

_SHORTEST = 8
"""Shorter texts are no secrets, and masking them would mask ordinary words."""


class Redactor:
    """Masks every secret text on record, and its lines (a private key is quoted line by line)."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def learn(self, properties: Properties) -> None:
        """Record every secret inside."""
        for text in secrets_in(properties):
            self._texts |= secret_parts([text], _SHORTEST)

    def __call__(self, text: str) -> str:
        """Return the text without secrets and printable: the engine puts what tools of nodes said onto terminals, and takes UTF-8 alone."""
        return printable(mask(text, self._texts))

    def seal(self, outputs: Properties) -> Properties:
        """Return the outputs with every value that contains a secret marked as secret."""
        return {key: value if isinstance(value, Secret) else self._sealed(value) for key, value in outputs.items()}

    def _sealed(self, value: Any) -> Any:
        return Secret(value) if self._holds_secret(value) else value

    def _holds_secret(self, value: Any) -> bool:
        if isinstance(value, str):
            return any(secret in value for secret in self._texts)
        if isinstance(value, dict):
            return any(self._holds_secret(item) for item in value.values())
        if isinstance(value, list | tuple):
            return any(self._holds_secret(item) for item in value)
        return False


def restore_secret_marks(plain: Properties, recorded: Properties) -> Properties:
    """Return plain properties with the values that are secret on record wrapped again."""
    return {key: _rewrapped(value, recorded.get(key)) for key, value in plain.items()}


def _rewrapped(value: Any, recorded: Any) -> Any:
    if isinstance(value, Secret) or recorded is None:
        return value
    if isinstance(recorded, Secret):
        return Secret(unwrap_secrets(value))
    if isinstance(value, dict) and isinstance(recorded, dict):
        return restore_secret_marks(value, recorded)
    return value
