"""Digests of the project's own files, so that a changed role is converged and a changed check is run."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from rackwright import layout
from rackwright.inventory import BAKED

NODE_CHECKS = (
    *(f"{layout.PACKAGE}/{name}.py" for name in ("errors", "os_release")),
    *(f"{layout.CLUSTER_CHECKS}/harness/{name}.py" for name in ("arguments", "compare", "probe", "tool_output")),
    *(
        f"{layout.CLUSTER_CHECKS}/probes/{name}.py"
        for name in ("directories", "disk_errors", "disk_latency", "driver_errors", "existing_storage", "gpu", "identity", "kernel_log")
    ),
    *(
        f"{layout.CLUSTER_CHECKS}/probes/{name}.py"
        for name in ("kernels", "mig", "neighbours", "nvidia_smi", "slurm_states", "smoke", "storage", "storage_usage", "units")
    ),
    *(f"{layout.CLUSTER_CHECKS}/test_{name}.py" for name in ("gpu", "node", "storage")),
    *(f"{layout.REMOTE}/programs/{name}.py" for name in ("commands", "daemon_states", "slurm_node")),
)
"""Files of the checks that compute nodes run on themselves (roles/slurm_worker)."""


def converge(root: Path, site: Collection[str] = (), project: Path | None = None) -> dict[str, str]:
    """Return the digests of what Converge applies; `site`: files and folders of the user's own playbooks in `project` (default: root)."""
    ours = {
        "playbooks": _digest(root, [layout.PLAYBOOKS]),
        "roles": _digest(root, [layout.ROLES]),
        "plugins": _digest(root, [layout.PLUGINS, layout.COLLECTION_META]),
        "ansible_cfg": _digest(root, [layout.ANSIBLE_CFG]),
        "node_checks": _digest(root, NODE_CHECKS),
    }
    return ours | ({"site": _digest(project or root, site, may_be_empty=True)} if site else {})


def verification(root: Path) -> dict[str, str]:
    """Return the digest of what Verification runs."""
    return {"checks": _digest(root, [layout.CLUSTER_CHECKS, layout.REMOTE])}


def power_agent(root: Path) -> str:
    """Return the digest of the process that outlives the run that starts it, and of the code it uses."""
    return _digest(
        root, [f"{layout.PACKAGE}/{part}" for part in ("provider/lab/power*.py", "drivers/*.py", "inventory/*.py", "processes.py")]
    )


def machine_network(root: Path) -> str:
    """Return the digest of the process that connects virtual machines, and outlives the run that starts it."""
    return _digest(root, [f"{layout.PACKAGE}/{part}" for part in ("drivers/vm/network/*.py", "drivers/daemon.py", "processes.py")])


def bake(root: Path, scheduler: str, release: str = "") -> str:
    """Return the digest of the node image's contents for a scheduler: base, install steps and their facts, without configuration.

    `release`: of Kubernetes, whose bundle is installed in the image.
    """
    installs = [f"{layout.ROLES}/{role}/tasks/install*.yml" for role in BAKED[scheduler]]
    facts = [f"{layout.ROLES}/{role}/vars/*.yml" for role in BAKED[scheduler] if (root / layout.ROLES / role / "vars").is_dir()]
    steps = [
        f"{layout.PLAYBOOKS}/build-image.yml",
        f"{layout.ACTION_PLUGINS}/apt.py",
        f"{layout.MODULES}/dpkg_facts.py",
    ]
    built = _bundle(root, release) if scheduler == "kubernetes" else []
    return _digest(root, [*installs, *facts, *steps, f"{layout.PACKAGE}/drivers/base_image.py", *built])


def kubernetes_bundle(root: Path, release: str) -> str:
    """Return the digest of what the bundle of binaries and images of a release of Kubernetes is built from."""
    return _digest(root, _bundle(root, release))


def kubernetes_addon(root: Path, name: str) -> str:
    """Return the digest of what an addon's part of the bundle is built from."""
    return _digest(root, [f"{layout.KUBERNETES_BUNDLE}/addons/{name}", f"{layout.KUBERNETES_BUNDLE}/bundle"])


def _bundle(root: Path, release: str) -> list[str]:
    """Return every file except the addons, each of which is a part of its own, and the modules of other minor releases."""
    tools = root / layout.KUBERNETES_BUNDLE
    own = tools / "releases" / release.rpartition(".")[0]
    others = {tools / "addons", *(folder for folder in (tools / "releases").glob("*") if folder != own)}
    found = layout.files(root, [layout.KUBERNETES_BUNDLE])
    return [str(file.relative_to(root)) for file in found if not others.intersection(file.parents)]


def _digest(root: Path, parts: Iterable[str], *, may_be_empty: bool = False) -> str:
    """Return 16 hexadecimal digits; a folder of the user's own may be empty, one of the project's may not."""
    digest = hashlib.sha256()
    for name, path in layout.named_files(root, parts, may_be_empty=may_be_empty).items():
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
