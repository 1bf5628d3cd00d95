"""Where the product and the user's project lie (docs/adr/0029-project-folder-and-product-data.md).

The product is the package, the Ansible collection, playbooks and tools: in the checkout, or in an installed wheel in the folder `_data` of
the package.
The project is the user's: Pulumi.yaml, stack files, site playbooks, site catalogue. In a checkout both are one folder.

Digests decide whether `up` applies a role or runs a check again. They are made of these paths, so a path that matches no file raises
`FileNotFoundError`: the digest of nothing never changes, and `up` would report "no changes" for every edit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Final

from rackwright.errors import RackwrightError

PROJECT_ENV: Final = "RACKWRIGHT_PROJECT"
"""Environment variable that names the project folder."""
PROJECT_NAME: Final = "rackwright"
"""`name` in Pulumi.yaml, by which a project folder is recognized; state files are kept under it."""
PULUMI_FILE: Final = "Pulumi.yaml"
PACKAGE: Final = "infra/rackwright"
IMPORT_ROOT: Final = Path(__file__).resolve().parents[1]
"""The folder that holds the package `rackwright`: PYTHONPATH of processes that the product starts."""
PROGRAM: Final = "infra/__main__.py"
STACKS: Final = "stacks"
SITE_CATALOG: Final = "site/catalog"
ANSIBLE_CFG: Final = "ansible.cfg"
COLLECTION_NAME: Final = "rackwright.cluster"
"""Namespace and name of the Ansible collection, the prefix of its modules, plugins and roles."""
COLLECTIONS: Final = "ansible_collections"
COLLECTION: Final = f"{COLLECTIONS}/rackwright/cluster"
"""In a checkout its `roles` is a link to the top-level folder; an installed wheel has the roles here only
(docs/adr/0033-ansible-collection.md)."""
ROLES: Final = f"{COLLECTION}/roles"
PLAYBOOKS: Final = "playbooks"
"""Not in the collection: Ansible would look in it first for the short names of site playbooks that follow."""
SITE_PLAYBOOK: Final = f"{PLAYBOOKS}/site.yml"
PLUGINS: Final = f"{COLLECTION}/plugins"
COLLECTION_META: Final = f"{COLLECTION}/meta"
MODULES: Final = f"{PLUGINS}/modules"
MODULE_UTILS: Final = f"{PLUGINS}/module_utils"
ACTION_PLUGINS: Final = f"{PLUGINS}/action"
CALLBACK_PLUGINS: Final = f"{PLUGINS}/callback"
CLUSTER_CHECKS: Final = f"{PACKAGE}/checks/cluster"
REMOTE: Final = f"{PACKAGE}/remote"
KUBERNETES_BUNDLE: Final = "tools/kubernetes"
BOOTSTRAP: Final = "tools/bootstrap"
SHIM: Final = "tools/pulumi/shim.sh"

_DATA: Final = "_data"
_GENERATED: Final = frozenset({"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"})


@cache
def product_root() -> Path:
    """Return the folder below which the product's paths lie. Raises RackwrightError in a zip archive: Ansible reads folders."""
    package = package_files("rackwright")
    if not isinstance(package, Path):
        hint = "install the wheel with pip or uv"
        raise RackwrightError("rackwright runs from an archive, and Ansible reads roles from folders only", hint=hint)
    data = package / _DATA
    return data if data.is_dir() else IMPORT_ROOT.parent


def is_checkout() -> bool:
    """Return whether the product lies in a checkout, and not in an installed wheel."""
    return product_root().name != _DATA


def doctor_command() -> str:
    """Return the command that names what this machine lacks and installs it or says how: a wheel has no Makefile."""
    return "make doctor" if is_checkout() else "rackwright up STACK"


def project_root() -> Path:
    """Return the project folder: RACKWRIGHT_PROJECT, the nearest one above the working directory, the checkout, the working directory."""
    named = os.environ.get(PROJECT_ENV)
    if named:
        return Path(named).expanduser().absolute()
    found = _nearest_project(Path.cwd())
    return found or (product_root() if is_checkout() else Path.cwd())


def is_project(folder: Path) -> bool:
    """Return whether a folder has a Pulumi.yaml of the product's name."""
    file = folder / PULUMI_FILE
    try:
        status = file.stat()
        return _has_name_of_product(file, (status.st_ino, status.st_ctime_ns, status.st_size))
    except OSError:
        return False


@lru_cache(maxsize=64)
def _has_name_of_product(file: Path, version: tuple[int, ...]) -> bool:
    """Return whether a Pulumi.yaml has the product's name; `version` are inode, time and size, so that an edited file is read again.

    A validation looks up the project folder some 25 times, for each table of the catalogue that it reads.
    """
    text = file.read_text(encoding="utf-8")
    names = (line.removeprefix("name:").partition(" #")[0].strip().strip("'\"") for line in text.splitlines() if line.startswith("name:"))
    return PROJECT_NAME in names


def _nearest_project(start: Path) -> Path | None:
    """Return the folder of the nearest Pulumi.yaml, as the engine finds it, if it is of the product's name."""
    nearest = start
    while not (nearest / PULUMI_FILE).is_file():
        if nearest == nearest.parent:
            return None
        nearest = nearest.parent
    return nearest if is_project(nearest) else None


def named_files(root: Path, parts: Iterable[str], *, may_be_empty: bool = False) -> Mapping[str, Path]:
    """Return files as `files` finds them, by their path in a checkout: the same for the same content in an installed wheel."""
    named = {_name(root, path): path for path in files(root, parts, may_be_empty=may_be_empty)}
    return dict(sorted(named.items(), key=lambda item: item[0].split("/")))


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else f"{PACKAGE}/{path.relative_to(root.parent)}"


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
    if root.name == _DATA and part.startswith(f"{PACKAGE}/"):  # In a wheel the data lies inside of the package.
        root, part = root.parent, part.removeprefix(f"{PACKAGE}/")
    return root.glob(part) if "*" in part else [root / part]


def _below(path: Path) -> Iterable[Path]:
    """Return a file, or those below a folder; links to folders are not followed."""
    if not _GENERATED.isdisjoint(path.parts):
        return []
    if not path.is_dir():
        return [path] if path.is_file() and path.suffix != ".pyc" else []
    return [Path(name) for name in _names_below(str(path))]


def _names_below(folder: str) -> Iterator[str]:
    """Yield the files below a folder. Entries know what they are, so that this takes a third of the time of Path.rglob and is_file."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _GENERATED:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _names_below(entry.path)
            elif not entry.name.endswith(".pyc") and entry.is_file():
                yield entry.path
