"""Programs of rackwright.remote with an edit, for tests that run them as a node does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rackwright.remote import command

FUTURE = "from __future__ import annotations\n"
"""The line of a program behind which a test may insert statements."""


def edit_program(monkeypatch: pytest.MonkeyPatch, program: str, edit: Callable[[str], str]) -> None:
    """Send a program with its text edited. Raises AssertionError if the edit changes nothing."""
    send = command.source
    edited = edit(send(program))
    assert edited != send(program), f"the edit does not match the text of {program}"
    monkeypatch.setattr(command, "source", lambda name: edited if name == program else send(name))
