"""The lab with Kubernetes that a file's tests share: like the stack that the file names as STACK."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.project import ROOT, Project, clone

from bootstrap.machine import Machine
from bundle import found
from bundle.front import DEFAULT_RELEASE

_SETTINGS: Final = ("fs.file-max", "fs.nr_open", "fs.inotify.max_user_instances", "kernel.pid_max", "kernel.panic", "kernel.panic_on_oops",
                    "kernel.core_pattern", "kernel.keys.root_maxkeys", "vm.overcommit_memory", "vm.panic_on_oom", "net.ipv4.ip_forward",
                    "net.netfilter.nf_conntrack_max")  # fmt: skip


def machine_settings() -> dict[str, str]:
    """Return what of this machine a node could change: kernel settings and hierarchies of control groups.

    A setting of a module is left out while the module is not loaded.
    """
    files = {name: Path("/proc/sys", *name.split(".")) for name in _SETTINGS}
    settings = {name: file.read_text().strip() for name, file in files.items() if file.exists()}
    settings["hierarchies"] = ",".join(sorted(line.split(":")[1] for line in Path("/proc/self/cgroup").read_text().splitlines()))
    return settings


def bundle_is_cached() -> bool:
    """Return whether the bundle of the default release, which the stacks of this folder use, is built."""
    return found.is_there(found.wanted(Machine.this(os.environ), ROOT / "tools/kubernetes", None, DEFAULT_RELEASE))


@pytest.fixture(scope="module")
def settings_before() -> dict[str, str]:
    """Return the machine's settings before the lab was created."""
    return machine_settings()


@pytest.fixture(scope="module")
def lab(settings_before: dict[str, str], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield the lab, up and verified; destroy it after the file's last test."""
    if os.geteuid() != 0:
        pytest.skip("a node of Kubernetes in the lab needs podman as root")
    if request.config.getoption("--tier") == "test" and not bundle_is_cached():
        pytest.skip("Kubernetes was not tested, because its bundle is not built. Build it once with: tools/kubernetes/build")
    project = clone(tmp_path_factory.mktemp("kubernetes") / "checkout", like=request.module.STACK)
    try:
        project.run_checked("up", timeout=3000)
        yield project
    finally:
        project.pulumi("destroy")
        project.remove()
    assert project.leftovers() == []
