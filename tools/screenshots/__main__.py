"""`python -m screenshots STACK FOLDER`: save the top of the stack's report, of its drift page and of its boards as PNG, with Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.monitor.boards import open_boards

WIDTH, HEIGHT = 1100, 760
"""Pixels; chosen: the README's column on a desktop is about 830 wide, and a phone still shows the headline."""
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def main(arguments: list[str]) -> int:
    """Return 0, or 2 with the reason on standard error if there is no page or no browser."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    stack, folder = arguments[0], Path(arguments[1])
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print(f"no browser found (expected one of {', '.join(_BROWSERS)})\n  install chromium", file=sys.stderr)
        return 2
    pages = {"report.png": paths.report_html(stack), "drift.png": paths.drift_page(stack)}
    for page in pages.values():
        if not page.is_file():
            print(f"{page}: file does not exist\n  run `rackwright up {stack}`, then `rackwright drift {stack}`", file=sys.stderr)
            return 2
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        take_screenshot(browser, page.resolve().as_uri(), folder / name)
    if RunningStack.of(stack).inventory.monitoring is not None:
        take_boards(browser, stack, folder)
    return 0


def take_boards(browser: str, stack: str, folder: Path) -> None:
    """Save boards of a stack that is up, of the last hour."""
    with open_boards(stack, 0) as session:
        threading.Thread(target=session.server.serve_forever, daemon=True).start()
        for board in ("fleet", "gpu", "alerts"):
            take_screenshot(browser, f"{session.addresses.page}#board={board}&range=3600", folder / f"monitor-{board}.png")
        session.server.shutdown()


def take_screenshot(browser: str, page: str, picture: Path) -> None:
    """Save the top of the page; raise CalledProcessError if the browser fails, FileNotFoundError if it writes nothing."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with its sandbox.
    with tempfile.TemporaryDirectory() as profile:
        draft = Path(profile) / "picture.png"
        # The virtual time stands still while the page waits for answers.
        options = [
            "--headless",
            "--virtual-time-budget=3000",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}/profile",
            *sandbox,
        ]
        subprocess.run(
            [browser, *options, f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={draft}", page],
            check=True,
            capture_output=True,
        )
        shutil.copyfile(draft, picture)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
