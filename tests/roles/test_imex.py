"""What the role of IMEX installs, writes and starts, with modules that record what they are asked."""

from __future__ import annotations

from typing import Any

import pytest

NODE = {
    "name": "worker0",
    "os": "ubuntu-24.04",
    "address": "192.0.2.11",
    "imex_nodes": ["192.0.2.11", "192.0.2.12"],
    "gpus": {"modules": "open"},
}


def variables(*packages: str) -> dict[str, Any]:
    return {"node": NODE, "cluster": {"software": {"package_sets": {"ubuntu-24.04-open": {"packages": {"imex": list(packages)}}}}}}


def test_imex_is_installed_pinned_and_run(steps: Any) -> None:
    done = steps("nvidia_imex", "main", variables=variables("nvidia-imex=580.105.08*"), tools={})
    assert done.good, done.said
    files = {file["path"]: file["content"] for step in done.recorded for file in step.get("files") or []}
    assert files["/etc/nvidia-imex/nodes_config.cfg"] == "192.0.2.11\n192.0.2.12\n"
    assert "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\n" in files["/etc/nvidia-imex/config.cfg"]
    assert "Package: nvidia-imex\n" in files["/etc/apt/preferences.d/rackwright-nvidia_imex"]
    assert ["nvidia-imex=580.105.08*"] in [step.get("name") for step in done.recorded]
    (unit,) = (unit for step in done.recorded for unit in step.get("units") or [])
    assert (unit["name"], unit["enabled"]) == ("nvidia-imex", True)
    assert unit["config"] == ["/etc/nvidia-imex/config.cfg", "/etc/nvidia-imex/nodes_config.cfg"]


def test_profile_without_imex_is_refused(steps: Any) -> None:
    done = steps("nvidia_imex", "install", variables=variables(), tools={})
    assert not done.good and "the software profile has no IMEX" in done.said


@pytest.mark.parametrize("listed", [True, False])
def test_driver_creates_the_channel_where_imex_runs(steps: Any, listed: bool) -> None:
    node = {**NODE, "roles": ["worker"], "gpus": {"modules": "open", "driver": "580.105.08"}}
    if not listed:
        del node["imex_nodes"]
    given = {"node": node, "cluster": {"software": {"package_sets": {"ubuntu-24.04-open": {"packages": {}}}, "gpudirect": "dma-buf"}}}
    done = steps("nvidia_driver", "service", variables=given, tools={"sh": "echo loaded 580.105.08"}, words="--check")
    content = next(file["content"] for step in done.recorded for file in step.get("files") or [] if "modprobe.d" in file["path"])
    assert ("options nvidia NVreg_CreateImexChannel0=1" in content) is listed
