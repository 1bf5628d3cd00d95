"""The role rocm with stand-ins for modules and tools: repositories, packages in versions, device rights, and the driver at boot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rackwright.catalog.rocm import rocm_releases

RELEASE = rocm_releases()["7.0.2"]
VARIABLES = {
    "cluster": {
        "preinstalled_roles": [],
        "software": {"rocm": {"version": RELEASE.version, "driver": RELEASE.driver, "driver_package": RELEASE.driver_package}},
    }
}
TOOLS = {"uname": "echo 6.8.0-60-generic", "udevadm": "exit 0"}


def node(os: str = "ubuntu-24.04", count: int = 8) -> dict[str, Any]:
    """Return the record of a node."""
    return {"name": "node0", "os": os, "gpus": {"vendor": "amd", "model": "mi300x", "count": count}}


def files(recorded: list[dict[str, Any]]) -> dict[str, str]:
    """Return the files that the role writes."""
    return {file["path"]: file["content"] for step in recorded for file in step.get("files", [])}


@pytest.fixture
def installed(steps: Callable[..., Any]) -> Any:
    return steps("rocm", "install.yml", variables={**VARIABLES, "node": node()}, tools=TOOLS, words="--skip-tags download")


def test_repositories_are_those_of_the_release(installed: Any) -> None:
    assert installed.good, installed.said
    lines = files(installed.recorded)["/etc/apt/sources.list.d/rackwright-rocm.sources"].splitlines()
    (sources,) = [line.split()[1:] for line in lines if line.startswith("URIs: ")]
    folders = ["amdgpu/30.10.2/ubuntu", "rocm/apt/7.0.2", "graphics/7.0.2/ubuntu"]
    assert sources == [f"https://repo.radeon.com/{folder}" for folder in folders]
    assert {"Suites: noble", "Signed-By: /etc/apt/keyrings/rocm.asc"} <= set(lines)


def test_packages_have_versions_and_headers_of_the_kernel(installed: Any) -> None:
    names = [step["name"] for step in installed.recorded if "name" in step]
    assert names == [["linux-headers-6.8.0-60-generic", "amdgpu-dkms=*.30100200-*", "rocm=7.0.2.*"]]


def test_system_without_packages_is_refused(steps: Callable[..., Any]) -> None:
    ran = steps("rocm", "install.yml", variables={**VARIABLES, "node": node("debian-13")}, tools=TOOLS, words="--skip-tags download")
    assert not ran.good and "node0: no role installs ROCm on debian-13" in ran.said


@pytest.mark.parametrize(("count", "last"), [(1, "/dev/dri/renderD128"), (8, "/dev/dri/renderD135")])
def test_driver_is_loaded_and_devices_are_open(steps: Callable[..., Any], count: int, last: str) -> None:
    ran = steps("rocm", "service.yml", variables={**VARIABLES, "node": node(count=count)}, tools=TOOLS)
    assert ran.good, ran.said
    written = files(ran.recorded)
    assert 'KERNEL=="kfd", GROUP="render", MODE="0666"' in written["/etc/udev/rules.d/70-rackwright-amdgpu.rules"].splitlines()
    assert written["/etc/modules-load.d/rackwright-amdgpu.conf"].endswith("\namdgpu\n")
    (unit,) = [unit for step in ran.recorded for unit in step.get("units", [])]
    assert (unit["liveness"], unit["readiness"]) == ({"path": last}, {"path": last})
    assert ran.told["Apply the rule to the devices"] == "skipped"  # the stand-in reports no change
