"""`make docs`: write the reference pages."""

from __future__ import annotations

from reference import PAGES, ROOT

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
