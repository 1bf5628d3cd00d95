"""`make docs`: write docs/troubleshooting.md."""

from __future__ import annotations

from troubleshooting import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
