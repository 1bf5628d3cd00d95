"""The builder of the Kubernetes bundle is asked for the release of the stack, and another one is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.drivers import bundle
from rackwright.errors import RackwrightError


async def quiet(_text: str) -> None:
    """Report no progress."""


class Builder:
    """A builder that prints the folder of a bundle of one release."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **contents: str) -> None:
        self.folder, self.words = folder, list[str]()
        (folder / bundle.CONTENTS).write_text(json.dumps(contents))
        monkeypatch.setattr(bundle, "stream", self.stream)

    async def stream(self, command: list[str], on_line: Callable[[str], Awaitable[None]]) -> Any:
        """Record the command."""
        self.words = command[1:]
        await on_line(json.dumps({"bundle": str(self.folder)}))
        return SimpleNamespace(ok=True, stderr="")


def test_bundle_of_the_release_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(tmp_path, monkeypatch, kubernetes="1.35.3")
    assert asyncio.run(bundle.ensure_bundle("1.35.3", ["flannel"], quiet, quiet)) == str(tmp_path)
    assert builder.words == ["--json", "--release=1.35.3", "--with=flannel"]


def test_bundle_of_another_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Builder(tmp_path, monkeypatch, kubernetes="1.34.1")
    with pytest.raises(RackwrightError, match=r"is of Kubernetes 1\.34\.1, the stack requires 1\.35\.3"):
        asyncio.run(bundle.ensure_bundle("1.35.3", [], quiet, quiet))


def test_part_of_an_addon_is_built_for_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder(tmp_path, monkeypatch, version="0.15.2")
    assert asyncio.run(bundle.ensure_addon("kueue", "0.15.2", "1.36.2", quiet, quiet)) == str(tmp_path)
    assert builder.words == ["--json", "--release=1.36.2", "--addon", "kueue"]
