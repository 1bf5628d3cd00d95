"""What roles install, where no test runs it: read from their tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from rackwright.catalog import compatibility
from rackwright.yaml_loader import load_yaml

ROLES = Path(__file__).parents[2] / "roles"
PACKAGERS = {"debian": ("rackwright.cluster.apt", "ansible.builtin.apt"), "rocky": ("ansible.builtin.dnf",)}


def tasks(role: str, step: str = "install") -> Iterator[dict[str, Any]]:
    """The tasks of one step, those of blocks too, in order."""
    waiting = load_yaml((ROLES / role / "tasks" / f"{step}.yml").read_text(encoding="utf-8"))
    while waiting:
        task = waiting.pop(0)
        waiting = [*task.get("block", []), *waiting]
        yield task


def packages(role: str, system: str, step: str = "install") -> list[str]:
    """What the package manager of the system is asked for by name."""
    asked = [task[module].get("name", []) for task in tasks(role, step) for module in PACKAGERS[system] if module in task]
    return [name for names in asked for name in ([names] if isinstance(names, str) else names)]


def templated(text: str, **variables: Any) -> Any:
    """What Ansible makes of a value."""
    return Templar(DataLoader(), variables=variables).template(trust_as_template(text))


@pytest.mark.parametrize("system", PACKAGERS)
def test_sssd_comes_with_the_service_that_sssctl_asks(system: str) -> None:
    """`sssctl domain-status` asks InfoPipe, which D-Bus starts where its package is."""
    assert {"sssd-tools", "sssd-dbus"} <= set(packages("sssd", system))


def test_debian_pytorch_comes_with_openblas() -> None:
    """The package depends on any BLAS, and the reference BLAS makes training 40 times slower."""
    assert set(packages("pytorch", "debian", "debian")) == {"python3-torch", "libopenblas0-pthread"}


@pytest.mark.parametrize(("source", "steps"), [("wheels", ["install.yml", "configure.yml"]), ("debian", ["debian.yml", "blas.yml"])])
def test_source_of_pytorch_selects_its_steps(source: str, steps: list[str]) -> None:
    found = {task["ansible.builtin.import_tasks"]: task["when"] for task in tasks("pytorch", "main")}
    chosen = [step for step, when in found.items() if templated(f"{{{{ {when} }}}}", pytorch_source=source)]
    assert chosen == steps


ROCKY = """[appstream]
name=Rocky Linux $releasever - AppStream
enabled=1
countme=1

[crb]
name=Rocky Linux $releasever - CRB
mirrorlist=https://mirrors.rockylinux.org/mirrorlist?arch=$basearch&repo=CRB-$releasever$rltype
gpgcheck=1
enabled=0
countme=1

[crb-debug]
name=Rocky Linux $releasever - CRB - Debug
enabled=0
"""


def test_rocky_linux_knows_epel_and_crb_before_anything_is_installed_from_them() -> None:
    """dkms, which the GPU phase needs, is in EPEL and needs CRB; the scheduler's phase comes later."""
    assert "epel-release" in packages("base", "rocky")
    assert "epel-release" not in packages("munge", "rocky")
    (enabling,) = (task["ansible.builtin.replace"] for task in tasks("base") if "ansible.builtin.replace" in task)
    regexp, replacement = re.compile(enabling["regexp"], re.MULTILINE), enabling["replace"]
    enabled, times = regexp.subn(replacement, ROCKY)
    assert (times, enabled) == (1, ROCKY.replace("gpgcheck=1\nenabled=0", "gpgcheck=1\nenabled=1"))
    assert regexp.subn(replacement, enabled) == (enabled, 0)


def test_nccl_tests_find_the_headers_of_rocky_linux_open_mpi() -> None:
    """Its headers lie apart from the rest, where MPI_HOME does not lead."""
    declared = load_yaml((ROLES / "nccl" / "vars" / "main.yml").read_text(encoding="utf-8"))
    for system, architecture, path in (
        ("rocky-9", "amd64", "/usr/include/openmpi-x86_64"),
        ("rocky-9", "arm64", "/usr/include/openmpi-aarch64"),
        ("debian-12", "amd64", ""),
    ):
        node = {"os": system, "architecture": architecture}
        processor = templated(declared["_nccl_processor"], nccl_node=node)
        assert templated(declared["_nccl_tests_build"]["CPATH"], nccl_node=node, _nccl_processor=processor) == path


def test_enroot_is_installed_on_every_system_from_the_same_release() -> None:
    words = {"_containers_releases": "https://github.com", "containers_enroot_version": "4.1.2"}
    named = load_yaml((ROLES / "containers" / "vars" / "main.yml").read_text(encoding="utf-8"))
    words |= {name: trust_as_template(value) for name, value in named.items() if isinstance(value, str)}
    (debs,) = (task for task in tasks("containers") if "enroot" in str(task.get("ansible.builtin.apt", {}).get("deb")))
    (rpms,) = (task for task in tasks("containers") if "enroot" in str(task.get("ansible.builtin.dnf", {}).get("name")))
    folder = "https://github.com/NVIDIA/enroot/releases/download/v4.1.2"
    assert [templated(debs["ansible.builtin.apt"]["deb"], **words, item=templated(item, **words)) for item in debs["loop"]] == [
        f"{folder}/enroot_4.1.2-1_amd64.deb",
        f"{folder}/enroot+caps_4.1.2-1_amd64.deb",
    ]
    assert [templated(name, **words) for name in rpms["ansible.builtin.dnf"]["name"]] == [
        f"{folder}/enroot-4.1.2-1.el8.x86_64.rpm",
        f"{folder}/enroot+caps-4.1.2-1.el8.x86_64.rpm",
    ]


@pytest.mark.parametrize("tool", ["enroot", "pyxis"])
def test_the_plan_says_which_releases_come(tool: str) -> None:
    """A pin that no role reads would hold nothing."""
    defaults = load_yaml((ROLES / "containers" / "defaults" / "main.yml").read_text(encoding="utf-8"))
    version = defaults[f"containers_{tool}_version"]
    assert templated(version, cluster={"software": {"versions": {tool: "9.9.9"}}}) == "9.9.9"
    last = compatibility.profiles()["2026-lts"].versions[tool]
    assert [templated(version, cluster=cluster) for cluster in ({}, {"software": None}, {"software": {"versions": {}}})] == [last] * 3
