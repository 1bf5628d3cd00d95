"""Digests of the project's own files, so that a changed role is converged and a changed check is run."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from rackwright.handover import BAKED

_IGNORED = frozenset({"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"})
NODE_CHECKS = (
    "infra/rackwright/errors.py",
    *(f"tests/cluster/harness/{name}.py" for name in ("compare", "node_side", "probe")),
    *(f"tests/cluster/probes/{name}.py" for name in ("gpu", "identity", "neighbours", "smoke", "storage", "units")),
    *(f"tests/cluster/test_{name}.py" for name in ("gpu", "node", "storage")),
)
"""Files of the checks that compute nodes make of themselves (roles/slurm_worker)."""


def converge(root: Path, site: Collection[str] = ()) -> dict[str, str]:
    """What Converge applies; `site`: files and folders of the user's own playbooks."""
    ours = {
        "playbooks": _digest(root, ["playbooks"]),
        "roles": _digest(root, ["roles"]),
        "ansible_cfg": _digest(root, ["ansible.cfg"]),
        "node_checks": _digest(root, NODE_CHECKS),
    }
    return ours | ({"site": _digest(root, site)} if site else {})


def verification(root: Path) -> dict[str, str]:
    """What Verification runs."""
    return {"checks": _digest(root, ["tests/cluster"])}


def power_agent(root: Path) -> str:
    """The process that outlives the run that starts it, and the code it uses."""
    package = root / "infra" / "rackwright"
    files = [*package.glob("provider/lab_power*.py"), *package.glob("provider/drivers/*.py"), *package.glob("handover/*.py")]
    return _digest(root, [str(file.relative_to(root)) for file in files])


def bake(root: Path, scheduler: str) -> str:
    """What goes into the node image of a scheduler: its base, install steps and the facts they use, nothing that configures."""
    roles = [root / "roles" / role for role in BAKED[scheduler]]
    files = [file for role in roles for pattern in ("tasks/install*.yml", "vars/*.yml") for file in role.glob(pattern)]
    files += [root / "playbooks" / part for part in ("bake.yml", "action_plugins/rackwright_apt.py", "library/rackwright_packages.py")]
    files += [root / "infra" / "rackwright" / "provider" / "drivers" / "base_image.py"]
    built = _bundle(root) if scheduler == "kubernetes" else []
    return _digest(root, [*(str(file.relative_to(root)) for file in files), *built])


def kubernetes_bundle(root: Path) -> str:
    """What the bundle of binaries and images is built from."""
    return _digest(root, _bundle(root))


def kubernetes_addon(root: Path, name: str) -> str:
    """What an addon's part of the bundle is built from."""
    return _digest(root, [f"tools/kubernetes/addons/{name}", "tools/kubernetes/bundle"])


def _bundle(root: Path) -> list[str]:
    """All but the addons, each of which is a part of its own."""
    found = sorted((root / "tools" / "kubernetes").iterdir())
    return [str(path.relative_to(root)) for path in found if path.name not in {"addons", *_IGNORED}]


def _digest(root: Path, parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted({file for part in parts for file in _files(root / part)}):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return [file for file in path.rglob("*") if file.is_file() and not _IGNORED & set(file.parts) and file.suffix != ".pyc"]
