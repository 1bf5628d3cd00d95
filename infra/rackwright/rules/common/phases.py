"""The user's own playbooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.rules.registry import RuleContext, Violation, rule

_OURS: Final = ("ansible_collections", "benchmarks", "docs", "infra", "playbooks", "roles", "stacks", "tests", "tools")
"""Folders whose content changes with the project's versions."""


@rule("site-playbook-missing")
def site_playbook_missing(case: RuleContext) -> Iterator[Violation]:
    """The first converge would fail midway, at the phase that the playbook follows."""
    for after, files in case.cluster.hooks.items():
        for index, file in enumerate(files):
            if file in case.missing_files:
                hint = "create it, or correct the path, which is relative to the project's root and inside the project"
                yield Violation(f"hooks.{after}[{index}]", f"{file} is not a file of the project", hint)


@rule("site-playbook-in-project-folder")
def site_playbook_in_project_folder(case: RuleContext) -> Iterator[Violation]:
    """The next version of the project would delete a file in one of its folders, or run it twice."""
    for after, files in case.cluster.hooks.items():
        for index, file in enumerate(files):
            folder = file.split("/")[0]
            if folder in _OURS:
                yield Violation(
                    f"hooks.{after}[{index}]", f"{folder}/ belongs to rackwright", "store your own playbooks in a folder like site/"
                )


@rule("site-playbook-twice")
def site_playbook_twice(case: RuleContext) -> Iterator[Violation]:
    """A repeated entry may be a typing error for another playbook."""
    seen: set[str] = set()
    for after, files in case.cluster.hooks.items():
        for index, file in enumerate(files):
            if file in seen:
                yield Violation(f"hooks.{after}[{index}]", f"{file} is listed twice", "list each playbook once")
            seen.add(file)
