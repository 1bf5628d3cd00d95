"""The one layer of an image, as a stream of tar that is the same on every machine and at any time."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_CHUNK = 1 << 20
_BINDS_LOW_PORTS = b"\1\0\0\2\0\4" + b"\0" * 14
"""The extended attribute that `setcap cap_net_bind_service=+ep` writes: version 2, effective; bit 10 permitted."""


class Entry(NamedTuple):
    """A file, a folder or a symbolic link."""

    path: str
    content: Path | bytes | None = None
    """None: a folder, or a link."""
    mode: int = 0o755
    link: str = ""
    binds_low_ports: bool = False

    def size(self) -> int:
        """Of a file's content."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return self.content.stat().st_size if self.content else 0


def program(path: str, source: Path, binds_low_ports: bool = False) -> Entry:
    """An executable."""
    return Entry(path.lstrip("/"), source, binds_low_ports=binds_low_ports)


def base() -> list[Entry]:
    """What a static program expects of a root: users, the order in which names are looked up, a place for passing files."""
    users = "root:x:0:0:root:/:\nnobody:x:65534:65534:nobody:/:\nnonroot:x:65532:65532:nonroot:/:\n"
    groups = "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\n"
    texts = {"etc/passwd": users, "etc/group": groups, "etc/nsswitch.conf": "hosts: files dns\n"}
    return [Entry("tmp", mode=0o1777), *(Entry(path, text.encode(), 0o644) for path, text in texts.items())]


def stream(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The layer's bytes: sorted, parents first, nothing of the machine it is made on."""
    for entry in _whole(entries):
        yield header(entry, entry.size())
        yield from _content(entry)
        yield padding(entry.size())
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _content(entry: Entry) -> Iterator[bytes]:
    if isinstance(entry.content, bytes):
        yield entry.content
    elif entry.content:
        with entry.content.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece


def padding(size: int) -> bytes:
    """What stands after it."""
    return b"\0" * (-size % tarfile.BLOCKSIZE)


def _whole(entries: Iterable[Entry]) -> list[Entry]:
    found = {entry.path: entry for entry in entries}
    for path in list(found):
        for parent in PurePosixPath(path).parents:
            if parent.name:
                found.setdefault(str(parent), Entry(str(parent)))
    return [found[path] for path in sorted(found)]


def header(entry: Entry, size: int) -> bytes:
    """What stands before the content."""
    info = tarfile.TarInfo(entry.path)
    info.mode, info.size = entry.mode, size
    if entry.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
    elif entry.content is None:
        info.type = tarfile.DIRTYPE
    if entry.binds_low_ports:
        info.pax_headers = {"SCHILY.xattr.security.capability": _BINDS_LOW_PORTS.decode("ascii")}
    return info.tobuf(tarfile.PAX_FORMAT)
