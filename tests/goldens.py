"""Golden files: output that was reviewed. `pytest --update-golden` writes them again, and the difference is reviewed."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"
WIDTH = 140
SHOWN = 60
"""Lines of a difference that a failing test shows."""


class Goldens:
    """The golden files, which a test compares with or, on request, replaces."""

    def __init__(self, update: bool, folder: Path = FOLDER) -> None:
        self.update, self.folder = update, folder

    def check(self, name: str, text: str) -> None:
        """Compare a text with one golden file."""
        file = self.folder / name
        if self.update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"tests/golden/{name} is missing; --update-golden writes it"
        kept = file.read_text(encoding="utf-8")
        lines = list(difflib.unified_diff(kept.splitlines(), text.splitlines(), f"tests/golden/{name}", "now", lineterm="", n=2))
        assert text == kept, "\n".join([*lines[:SHOWN], *([f"and {len(lines) - SHOWN} lines more"] if len(lines) > SHOWN else [])])

    def check_names(self, folder: str, names: Iterable[str]) -> None:
        """Compare the names of a folder's files, at any depth, with those that tests use; files beyond them are removed on request."""
        root, used = self.folder / folder, set(names)
        found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        if self.update:
            for name in found - used:
                (root / name).unlink()
            for path in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
                if not any(path.iterdir()):
                    path.rmdir()
            found &= used
        assert found == used, f"used by no test: {sorted(found - used)}; missing: {sorted(used - found)}"

    def check_folder(self, folder: str, files: Mapping[str, str]) -> None:
        """Compare a whole folder: each of these files, and no other."""
        for name, text in files.items():
            self.check(f"{folder}/{name}", text)
        self.check_names(folder, files)


def compact(data: Any, indent: int = 0, taken: int = 0) -> str:
    """Data as JSON in which whatever fits on a line is on one; `taken` characters of the first line are a key's.

    >>> print(compact({"name": "worker0", "rails": [1, 2]}))
    {"name": "worker0", "rails": [1, 2]}
    """
    line = json.dumps(data, ensure_ascii=False)
    if indent + taken + len(line) < WIDTH or not data or not isinstance(data, dict | list):
        return line
    step = " " * (indent + 2)
    if isinstance(data, dict):
        parts = [f"{json.dumps(key)}: {compact(value, indent + 2, len(key) + 4)}" for key, value in data.items()]
    else:
        parts = [compact(value, indent + 2) for value in data]
    opening, closing = "{}" if isinstance(data, dict) else "[]"
    return f"{opening}\n{step}" + f",\n{step}".join(parts) + f"\n{' ' * indent}{closing}"


def digest(data: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the data's JSON without blanks, keys in their order."""
    return hashlib.sha256(json.dumps(data, separators=(",", ":")).encode()).hexdigest()[:16]
