"""The Pulumi project a command is about."""

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
        """Path of the committed stack file."""
        return os.path.join(self.stack_files, f"Pulumi.{stack}.yaml")


def find(folder: str) -> Project | None:
    """The project of `folder`, looking upwards as the engine does."""
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
    """A plain scalar at the top of a YAML file; empty where it is absent."""
    for line in text.splitlines():
        if line.startswith(key + ":"):
            return line[len(key) + 1 :].partition(" #")[0].strip().strip("'\"")
    return ""
