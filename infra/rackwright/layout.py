"""Where the parts of the project lie, as paths below its root.

Digests decide whether `up` applies a role or runs a check again. They are made of these paths, so a path that matches no file raises
`FileNotFoundError`: the digest of nothing never changes, and `up` would report "no changes" for every edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

PACKAGE: Final = "infra/rackwright"
IMPORT_ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder that holds the package `rackwright`: PYTHONPATH of processes that the product starts."""
STACKS: Final = "stacks"
SITE_CATALOG: Final = "site/catalog"
ANSIBLE_CFG: Final = "ansible.cfg"
ROLES: Final = "roles"
PLAYBOOKS: Final = "playbooks"
SITE_PLAYBOOK: Final = f"{PLAYBOOKS}/site.yml"
MODULES: Final = f"{PLAYBOOKS}/library"
MODULE_UTILS: Final = f"{PLAYBOOKS}/module_utils"
ACTION_PLUGINS: Final = f"{PLAYBOOKS}/action_plugins"
CALLBACK_PLUGINS: Final = f"{PLAYBOOKS}/callback_plugins"
CLUSTER_CHECKS: Final = "tests/cluster"
ACCEPTANCE: Final = "tests/acceptance"
HARDWARE_REPORT: Final = "tests/hardware"
KUBERNETES_BUNDLE: Final = "tools/kubernetes"

_GENERATED: Final = frozenset({"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"})


def files(root: Path, parts: Iterable[str], *, may_be_empty: bool = False) -> list[Path]:
    """Return the files of parts, sorted; each part is a file, a folder with all below it, or a glob pattern.

    Files that Python and its tools generate are left out. Raises FileNotFoundError for a part without a file, unless it may be empty.
    """
    found = set[Path]()
    for part in parts:
        matched = {file for path in _expand(root, part) for file in _below(path)}
        if not matched and not may_be_empty:
            raise FileNotFoundError(f"no file of the project matches {part} in {root}")
        found |= matched
    return sorted(found)


def _expand(root: Path, part: str) -> Iterable[Path]:
    return root.glob(part) if "*" in part else [root / part]


def _below(path: Path) -> Iterable[Path]:
    candidates = path.rglob("*") if path.is_dir() else [path]
    return (file for file in candidates if file.is_file() and not _GENERATED & set(file.parts) and file.suffix != ".pyc")
