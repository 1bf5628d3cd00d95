"""Run on the node: read configuration files of Slurm together with the files that they include.

Input: {"file": path}, or {"digests": [[path, ...], ...]}: of each list, the first file that exists.
Output: `file`: its lines. `digests`: a line `SHA-256 path` for each file and each file that it includes, as sha256sum(1) prints them.
An `Include` whose file cannot be read stays a line, followed by the reason.
Python 3.9, standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

INCLUDE = re.compile(r"\s*include\s+([^\s#]+)(.*)", re.IGNORECASE)
"""An included file: slurm.conf(5), Include. The name has no blanks and no quotes (src/common/parse_config.c, _parse_include_directive)."""
CLUSTER_NAME = re.compile(r'(?:[^#]*\s)?clustername\s*=\s*"?([^\s"#]+)', re.IGNORECASE)
COMMENT = re.compile(r"(?<!\\)#.*")
MAX_BYTES = 4 * 1024 * 1024
"""Largest file that is read, in bytes. Chosen: a configuration of 10 000 nodes, a line each, has 2 MiB."""


class Configuration:
    """Files of one configuration: digests by path, and lines `Include` whose file was not read, in the order in which Slurm reads them."""

    def __init__(self) -> None:
        self.cluster = ""
        self.digests: list[tuple[str, str]] = []
        self.unread: list[str] = []

    def lines(self, path: str, within: tuple[str, ...] = ()) -> Iterator[str]:
        """Yield the lines of a file, with those of an included file in place of its `Include`. Raises OSError."""
        text = read_file(path)
        self.digests.append((hashlib.sha256(text).hexdigest(), path))
        is_continued = False
        for line in re.split(r"\r\n|\r|\n", text.decode("utf-8", "replace")):
            found = None if is_continued else INCLUDE.fullmatch(line)
            named = CLUSTER_NAME.match(line)
            if named:
                self.cluster = named.group(1).lower()
            if found:
                yield from self.included(found.group(1), path, within)
                yield found.group(2)
            else:
                yield line
            is_continued = not found and COMMENT.sub("", line).rstrip().endswith("\\")

    def included(self, name: str, path: str, within: tuple[str, ...]) -> Iterator[str]:
        """Yield the lines of an included file, or its `Include` with the reason why the file cannot be read."""
        try:
            where = self.path_of(name, path)
            chain = (*within, os.path.realpath(path))
            if os.path.realpath(where) in chain:
                raise OSError(where + " includes itself")
            yield from self.lines(where, chain)
            yield "# end of " + where  # A comment ends a line that the file left open.
        except OSError as error:
            unread = "Include " + name + " (" + (error.strerror or str(error)) + ")"
            self.unread.append(unread)
            yield unread

    def path_of(self, name: str, path: str) -> str:
        """Return the path of a file that another one includes: relative to its folder, with the name of the cluster for `%c`."""
        if "%c" in name and not self.cluster:
            raise OSError("ClusterName is not set above")
        return os.path.join(os.path.dirname(path), name.replace("%c", self.cluster))


def read_file(path: str) -> bytes:
    """Return a regular file's contents; a pipe or a device would block. Raises OSError."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(path + " is not a regular file")
    with open(path, "rb") as file:
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise OSError(path + " has more than " + str(MAX_BYTES) + " bytes")
    return text


def main(request: dict[str, Any]) -> None:
    """Print the lines of a file, or the digests of several."""
    if "file" in request:
        try:
            sys.stdout.writelines(line + "\n" for line in Configuration().lines(request["file"]))
        except OSError as error:
            sys.exit(request["file"] + ": " + (error.strerror or str(error)))
        return
    for choices in request["digests"]:
        path = next((path for path in choices if os.access(path, os.R_OK)), "")
        if path:
            configuration = Configuration()
            for _ in configuration.lines(path):
                pass
            sys.stdout.writelines(digest + "  " + name + "\n" for digest, name in configuration.digests)
            sys.stdout.writelines(line + "\n" for line in configuration.unread)
