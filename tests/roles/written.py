"""What roles write, in as few golden files as show it all: a file that several nodes get is kept once, a copied one not at all."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[2]


class Step(NamedTuple):
    """What a task asked of a module for one node."""

    node: str
    task: str
    """Where the task is written: the same of every node that it runs for."""
    asked: dict[str, Any]


def without_contents(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, less values without information and the contents of files; files come last."""
    kept = {key: value for key, value in asked.items() if value and key != "files"}
    files = [{key: value for key, value in file.items() if value and key != "content"} for file in asked.get("files") or []]
    return {**kept, "files": files} if files else kept


def shared(steps: Iterable[Step]) -> list[tuple[list[str], dict[str, Any]]]:
    """(nodes, what was asked) of each step, in the order of the run; equal steps of one task are one.

    A node that runs a task several times has each time for itself.
    """
    found: dict[tuple[str, int, str], tuple[list[str], dict[str, Any]]] = {}
    times: dict[tuple[str, str], int] = {}
    for node, task, asked in steps:
        times[node, task] = times.get((node, task), 0) + 1
        kept = without_contents(asked)
        found.setdefault((task, times[node, task], json.dumps(kept)), ([], kept))[0].append(node)
    return [*found.values()]


def contents(steps: Iterable[Step]) -> dict[str, dict[str, str]]:
    """Path -> node -> text. A second text for one path of one node would hide the first."""
    found: dict[str, dict[str, str]] = {}
    for node, _, asked in steps:
        for file in asked.get("files") or []:
            kept = found.setdefault(file["path"], {}).setdefault(node, file["content"])
            assert kept == file["content"], f"{node}: {file['path']} is written twice"
    return found


@functools.cache
def copied() -> dict[str, str]:
    """Text of every file that roles copy -> its path from the project's root."""
    files = [path for path in sorted((PROJECT / "roles").glob("*/files/**/*")) if path.is_file() and "__pycache__" not in path.parts]
    return {path.read_text(encoding="utf-8"): str(path.relative_to(PROJECT)) for path in reversed(files)}


class Kept:
    """Files for the golden folder, each text once: under the first node that gets it."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._places: dict[str, tuple[str, str]] = {}

    def place(self, path: str, text: str, node: str) -> str:
        """Where the text is kept: the file of a role that is copied as it is, or the node in the folder, with the path if it is another."""
        if text in copied():
            return copied()[text]
        first, place = self._places.setdefault(text, (node, path))
        self.files[f"{first}{place}"] = text
        return first if place == path else f"{first}{place}"

    def text(self, place: str, path: str) -> str:
        """What `place` said of a path stands for."""
        if place.startswith("roles/"):
            return (PROJECT / place).read_text(encoding="utf-8")
        return self.files[f"{place}{path}"] if f"{place}{path}" in self.files else self.files[place]

    def manifest(self, steps: list[Step], prefix: str = "") -> dict[str, Any]:
        """Every step with its nodes, and where the text of each file is kept: one place where all nodes that get it share it."""
        places = {
            path: {node: self.place(path, text, f"{prefix}{node}") for node, text in texts.items()}
            for path, texts in contents(steps).items()
        }
        return {
            "steps": [{"nodes": " ".join(nodes), **kept} for nodes, kept in shared(steps)],
            "contents": {path: next(iter(by.values())) if len(set(by.values())) == 1 else by for path, by in places.items()},
        }


def restored(manifest: Mapping[str, Any], node: str) -> list[dict[str, Any]]:
    """What a manifest says was asked for a node, in order."""
    return [{key: value for key, value in step.items() if key != "nodes"} for step in manifest["steps"] if node in step["nodes"].split()]


def assert_nothing_is_lost(kept: Kept, manifest: Mapping[str, Any], steps: list[Step]) -> None:
    """Hold every step and every text of every node against what the manifest says of them."""
    for node in {step.node for step in steps}:
        assert restored(manifest, node) == [without_contents(step.asked) for step in steps if step.node == node], node
    for path, texts in contents(steps).items():
        for node, text in texts.items():
            place = manifest["contents"][path]
            assert kept.text(place[node] if isinstance(place, dict) else place, path) == text, (node, path)
