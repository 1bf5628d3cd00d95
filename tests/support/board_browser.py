"""The boards of `rackwright monitor` in Chromium."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

PATIENCE: Final = 60.0
"""Seconds until all panels of a board have an answer: a starved machine draws slowly."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the browser; skip the test where none is installed."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield started
        started.close()


class BoardPage:
    """The page of a server, and the browser's messages and requests."""

    def __init__(self, browser: Browser, address: str, *, width: int = 1400, dark: bool = False) -> None:
        self.address = address
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, board: str, **settings: str) -> dict[str, str]:
        """Show a board and return the state of each panel by its title, when all of them have an answer."""
        self.page.goto("about:blank")  # An address that differs in its fragment only is no new page.
        self.page.goto(f"{self.address}#{urlencode({'board': board, **settings})}")
        return self.states()

    def states(self) -> dict[str, str]:
        """Return the state of each panel by its title: data, empty or error."""
        read = "parts => parts.map(part => [part.querySelector('h3')?.textContent ?? '', part.dataset.state])"
        until = time.monotonic() + PATIENCE
        while True:
            found: dict[str, str] = dict(self.page.eval_on_selector_all("main > section", read))
            if found and "loading" not in found.values():
                return found
            assert time.monotonic() < until, f"panels without an answer: {found}; {self.messages}"
            self.page.wait_for_timeout(50)

    def panel(self, title: str) -> str:
        """Return the text of a panel."""
        return self.page.locator("main > section", has=self.page.get_by_role("heading", name=title, exact=True)).inner_text()
