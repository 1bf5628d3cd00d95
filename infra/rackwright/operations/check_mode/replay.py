"""Replay of recorded module calls on the nodes, without the phases: the same modules and arguments, all calls of a node at once."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from rackwright import layout

_LEFT_OUT: Final = frozenset({"csharp", "powershell", "facts"})
"""Parts of Ansible's module code that no module here needs: half of it."""
_PACKAGES: Final = (
    *("ansible", "ansible/modules"),
    *(str(folder) for folder in reversed(Path(layout.MODULES).parents) if folder.name),
    *(layout.MODULES, layout.MODULE_UTILS),
)
"""Folders of the archive that need a file to be packages: zipimport has no namespace packages."""
_DECIDE: Final = ("ansible-core", "mitogen")
"""Packages whose versions affect the phases as well."""


def inputs(root: Path, files: Iterable[Path], words: Iterable[str]) -> str:
    """Return the digest of all inputs of the phases except the nodes' results: files, inventory, versions."""
    taken = hashlib.sha256("\n".join([*words, *(f"{name} {version(name)}" for name in _DECIDE)]).encode())
    for file in (*files, *_texts(root)):
        taken.update(f"\n{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return taken.hexdigest()


def _texts(root: Path) -> list[Path]:
    """Return every file of the phases and roles, of the checks and of the programs for nodes; the roles install some of these programs."""
    collection = (layout.ROLES, layout.PLUGINS, layout.COLLECTION_META)
    installed = (f"{layout.PACKAGE}/errors.py", f"{layout.PACKAGE}/os_release.py")
    parts = (layout.ANSIBLE_CFG, layout.PLAYBOOKS, *collection, layout.CLUSTER_CHECKS, layout.REMOTE, *installed)
    return [*layout.named_files(root, parts).values()]


def requests(
    root: Path, calls: Mapping[str, Iterable[Mapping[str, Any]]], modules: Collection[str], seconds: float | None = None
) -> dict[str, dict[str, Any]]:
    """Return the requests that repeat each node's calls within so many seconds (rackwright.remote.programs.module_replay)."""
    packed = base64.b64encode(_archive(root, modules)).decode()
    keys = ("module", "arguments", "environment", "answer")
    return {
        node: {"modules": packed, "calls": [{key: call[key] for key in keys} for call in some], "seconds": seconds}
        for node, some in calls.items()
    }


def _archive(root: Path, modules: Collection[str]) -> bytes:
    """Return the modules and their imports, of Ansible and of the collection, in an archive that Python can import."""
    found = find_spec("ansible")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("ansible-core is not installed beside rackwright")
    core = Path(next(iter(found.submodule_search_locations)))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            archive.writestr(f"{package}/__init__.py", "")
        for file in sorted((core / "module_utils").rglob("*.py")):
            below = file.relative_to(core)
            if not _LEFT_OUT.intersection(below.parts):
                archive.write(file, f"ansible/{below}")
        for file in sorted((root / layout.MODULE_UTILS).glob("*.py")):
            archive.write(file, f"{layout.MODULE_UTILS}/{file.name}")
        for name in sorted(modules):
            path = f"{name.replace('.', '/')}.py"
            archive.write(root / path if path.startswith(f"{layout.MODULES}/") else core.parent / path, path)
    return packed.getvalue()
