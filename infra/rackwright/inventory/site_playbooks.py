"""The user's own playbooks: missing files, and the playbook that includes them after their phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.inventory import paths
from rackwright.model.cluster import Cluster
from rackwright.model.phases import AfterPhase
from rackwright.model.scheduler.kubernetes import Kubernetes

_BESIDE: Final = ("roles", "tasks", "handlers", "files", "templates", "vars", "group_vars", "host_vars", "library", "filter_plugins")
"""Folders beside a playbook that Ansible reads."""


def missing_site_files(cluster: Cluster | None) -> frozenset[str]:
    """Return the playbooks and manifests of a cluster that do not exist in the project."""
    root = paths.project_root()
    named = {file for files in cluster.hooks.values() for file in files} if cluster else set()
    if cluster is not None and isinstance(cluster.scheduler, Kubernetes):
        named |= {manifest.file for manifest in cluster.scheduler.cni_manifests}
    return frozenset(file for file in named if not _inside(root, file))


def _inside(root: Path, file: str) -> bool:
    found = (root / file).resolve()
    return found.is_file() and found.is_relative_to(root.resolve())


def listed(cluster: Cluster) -> dict[str, list[str]]:
    """Return playbooks by the phase they follow, in the order of the phases."""
    return {after.phase: list(cluster.hooks[after]) for after in AfterPhase if cluster.hooks.get(after)}


def parts(files: Sequence[str]) -> list[str]:
    """Return the files that determine a playbook's run: playbooks, and the folders beside them that Ansible reads.

    Paths from the project's root.
    """
    beside = {str(Path(file).parent / name) for file in files for name in _BESIDE}
    return sorted({*files, *beside})


def table_of_contents(
    site: Sequence[Mapping[str, Any]], after: Mapping[str, Sequence[str]], product: Path, project: Path
) -> list[dict[str, Any]]:
    """Return site.yml with each list of playbooks after its phase; paths are absolute, because the file is in another folder."""
    return [entry for phase in site for entry in _with_followers(phase, after, product, project)]


def _with_followers(phase: Mapping[str, Any], after: Mapping[str, Sequence[str]], product: Path, project: Path) -> Iterator[dict[str, Any]]:
    file = str(phase["ansible.builtin.import_playbook"])
    yield {"name": phase["name"], "ansible.builtin.import_playbook": str(product / layout.PLAYBOOKS / file)}
    for own in after.get(Path(file).stem, ()):
        yield {"name": f"Site playbook {own}", "ansible.builtin.import_playbook": str(project / own)}
