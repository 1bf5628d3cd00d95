"""Generate the reference pages of docs/ from the definitions in the product, so that no page states a key, check or option twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from reference import alerts, checks, commands, compatibility, documents, environment, faults, metrics, roles, rules, stack_file

ROOT: Final = Path(__file__).parents[2]
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/reference/cli.md": commands.page,
    "docs/reference/stack-file.md": stack_file.page,
    "docs/reference/checks.md": checks.page,
    "docs/reference/alerts.md": alerts.page,
    "docs/reference/faults.md": faults.page,
    "docs/reference/rules.md": rules.page,
    "docs/reference/documents.md": documents.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/roles.md": roles.page,
    "docs/reference/environment.md": environment.page,
    "docs/reference/compatibility.md": compatibility.page,
}
"""Path of each page below the project's root -> function that returns its text."""
