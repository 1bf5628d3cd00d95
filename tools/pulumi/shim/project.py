"""The Pulumi project of a command."""

from __future__ import annotations

import os

OURS = "rackwright"


class Project:
    """Name, folder and stack files of the nearest Pulumi.yaml."""

    def __init__(self, root: str, text: str) -> None:
        self.root = root
        self.name = _top_level(text, "name")
        self.stack_files = os.path.join(root, _top_level(text, "stackConfigDir"))

    def stack_file(self, stack: str) -> str:
        """Return the path of the committed stack file."""
        return os.path.join(self.stack_files, f"Pulumi.{stack}.yaml")


def find(folder: str) -> Project | None:
    """Return the project of `folder` or of its nearest parent with a project, as the engine does."""
    while True:
        try:
            with open(os.path.join(folder, "Pulumi.yaml"), encoding="utf-8") as file:
                return Project(folder, file.read())
        except OSError:
            above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _top_level(text: str, key: str) -> str:
    """Return a plain scalar at the top level of a YAML file; empty if missing."""
    for line in text.splitlines():
        if line.startswith(key + ":"):
            return line[len(key) + 1 :].partition(" #")[0].strip().strip("'\"")
    return ""
