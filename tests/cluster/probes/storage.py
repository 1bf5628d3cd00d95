"""Shared file systems as a node has them mounted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster.harness.probe import Place, Probe

TYPES: Final = {"moosefs": ("fuse.mfs", "fuse"), "fsx-lustre": ("lustre",)}
"""Types in the kernel's mount table by kind of storage."""
SOURCES: Final = {"moosefs": "mfs#"}
"""How the mounted source begins, where the type alone does not tell."""


@dataclass(frozen=True)
class Mount:
    """One line of the mount table."""

    point: str
    type: str
    source: str
    options: frozenset[str]

    @property
    def effective(self) -> frozenset[str]:
        """The options as they act: one `ro`, of the mount or of the file system below it, makes it read-only."""
        return self.options - {"rw"} if "ro" in self.options else self.options

    def is_a(self, kind: str) -> bool:
        """Whether it is a storage of this kind."""
        return self.type in TYPES.get(kind, ()) and self.source.startswith(SOURCES.get(kind, ""))


def parse_mounts(text: str) -> dict[str, Mount]:
    """/proc/self/mountinfo by mount point; where several lie on one another, the last is seen."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words, (kind, source, super_options) = before.split(), after.split(None, 2)
        point = _unescape(words[4])
        found[point] = Mount(point, kind, _unescape(source), frozenset(words[5].split(",")) | frozenset(super_options.split(",")))
    if "/" not in found:
        raise ValueError("no root file system")
    return found


def _unescape(text: str) -> str:
    r"""The kernel writes space, tab, newline, backslash and # as octal.

    >>> _unescape(r"mfs\043storage0")
    'mfs#storage0'
    """
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("043", "#"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text


MOUNTS = Probe("mounts", on="storage_client", command="cat /proc/self/mountinfo", parse=parse_mounts)


@dataclass(frozen=True)
class Root:
    """The top folder of a mounted file system, and the file system's size."""

    path: str
    owner: str
    mode: str
    size_mib: int


def parse_roots(text: str) -> dict[str, Root]:
    """Lines `path|owner:group|mode|blocks|block size`."""
    found = {}
    for line in text.splitlines():
        path, owner, mode, blocks, size = line.split("|")
        found[path] = Root(path, owner, mode, int(blocks) * int(size) // 2**20)
    return found


def mounts_of(place: Place) -> list[str]:
    """Where the node's shared file systems belong."""
    return [one["mount"] for one in place.declared.cluster["storage"] if place.node["name"] in one["clients"]]


def _roots(place: Place) -> str:
    return f"for m in {' '.join(mounts_of(place))}; do echo $(stat -c '%n|%U:%G|%a' $m)'|'$(stat -f -c '%b|%S' $m); done"


ROOTS = Probe("storage-roots", on="storage_client", command=_roots, parse=parse_roots)
