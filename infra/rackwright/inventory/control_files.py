"""Files of this machine that roles copy to nodes: plan and inventory name them, and their content is in no other input of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_SECRET: Final = frozenset({"secret_file", "password_file", "token_file"})
_PUBLIC: Final = frozenset({"authority_file", "ca_file"})
"""Fields of the inventory's schema with files "on the control machine"."""


def named_files(value: Any) -> list[Path]:
    """Return the files that variables name and that exist, each once."""
    return sorted({path for _, path in _named(value) if path.is_file()})


def secret_texts(value: Any) -> list[str]:
    """Return the content of those that hold secrets, without the white space around it."""
    return [
        path.read_text(encoding="utf-8", errors="replace").strip() for name, path in _named(value) if name in _SECRET and path.is_file()
    ]


def digest(value: Any) -> str:
    """Return a digest of the content of the files that variables name, empty without any; their folders differ from machine to machine.

    It is as secret as the files: a short password can be found from it.
    """
    contents = [_content(path) for _, path in _named(value) if path.is_file()]
    return hashlib.sha256(b"".join(b"%d " % len(content) + content for content in contents)).hexdigest() if contents else ""


def _content(path: Path) -> bytes:
    """Return the content; empty for a file that cannot be read, because the role that copies it reports that."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _named(value: Any) -> Iterator[tuple[str, Path]]:
    """Yield field and path of each file."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name in _SECRET | _PUBLIC and isinstance(part, str):
                yield name, Path(part).expanduser()
            else:
                yield from _named(part)
    elif isinstance(value, list):
        for part in value:
            yield from _named(part)
