"""Committed stack files without the encryption salt (docs/adr/0006-no-salt-in-stack-files.md).

The engine reads a copy in the state directory that contains the salt of the stack's state; the shim saves the engine's changes of the
copy to the committed file, without the salt.
"""

from __future__ import annotations

import os

_OWN_SECRETS = ("encryptionsalt:", "secretsprovider:", "encryptedkey:")


class StackFile:
    """One committed stack file and its salted copy."""

    def __init__(self, committed: str, copy: str) -> None:
        self._committed = committed
        self.copy = copy
        self._before = _read(committed)
        self._written = ""

    @property
    def exists(self) -> bool:
        """Return whether the committed file exists."""
        return self._before is not None

    @property
    def keeps_its_own_secrets(self) -> bool:
        """Return whether the file has its own encryption settings: the engine then reads the file unchanged."""
        return any(line.startswith(_OWN_SECRETS) for line in (self._before or "").splitlines())

    def drop_salt(self, salt: str) -> None:
        """Remove the salt of the stack's own state from the committed file."""
        if self._before is None or f"encryptionsalt: {salt}" not in self._before.splitlines():
            return
        self._before = _without_salt(self._before)
        if self._before.strip():
            _replace(self._committed, self._before)
        else:
            os.unlink(self._committed)
            self._before = None

    def undo_salting(self, salt: str) -> None:
        """Restore the committed file after a command that changed nothing but the salt."""
        now = _read(self._committed)
        if now is not None and now != self._before and f"encryptionsalt: {salt}" in now.splitlines():
            if self._before is None:
                os.unlink(self._committed)
            else:
                _replace(self._committed, self._before)

    def write_copy(self, salt: str) -> None:
        """Write the copy for the engine."""
        text = self._before or ""
        self._written = text + ("" if not text or text.endswith("\n") else "\n") + f"encryptionsalt: {salt}\n"
        if _read(self.copy) != self._written:
            _replace(self.copy, self._written, mode=0o600)

    def bring_home(self) -> str | None:
        """Save the engine's changes of the copy; return a message if the committed file changed meanwhile."""
        now = _read(self.copy)
        if now is None or now == self._written:
            return None
        if _read(self._committed) != self._before:
            return f"{self._committed} was edited while pulumi ran: pulumi's own change to it is in {self.copy}"
        text = _without_salt(now)
        if text.strip():
            _replace(self._committed, text)
        return None


def _without_salt(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("encryptionsalt:"))


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError:
        return None


def _replace(path: str, text: str, mode: int | None = None) -> None:
    """Replace the file atomically: readers, also after a kill, see the old or the new file."""
    if mode is None:
        try:
            mode = os.stat(path).st_mode & 0o777
        except OSError:
            mode = 0o644
    fresh = f"{path}.{os.getpid()}.tmp"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(fresh, path)
