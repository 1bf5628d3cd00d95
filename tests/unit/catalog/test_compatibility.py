"""The compatibility matrix: every row traceable, every profile good on its own terms, packages named on every system."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from catalog.software import tables

from rackwright import catalog, rules
from rackwright.catalog import compatibility
from rackwright.model.node.software import GpuModules
from rackwright.stackfile.load import load_cluster
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[3]
FOLDER = Path(catalog.__file__).parent
TODAY = date(2026, 12, 1)


def rows(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a file, with its place."""
    tables = load_yaml((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    for table, entries in tables.items():
        yield from ((f"{table}.{key}", row) for key, row in entries.items())


@pytest.mark.parametrize("name", ["compatibility", "packages"])
def test_every_row_has_its_source_and_its_date(name: str) -> None:
    """A version without a source is not used."""
    for place, row in rows(name):
        assert row["source"], place
        assert row["date"] <= date.today(), place


def test_every_gpu_has_an_architecture() -> None:
    assert {gpu.architecture for gpu in catalog.gpus().values() if gpu.vendor == catalog.NVIDIA} <= set(compatibility.architectures())


def test_the_driver_of_the_first_profile_is_the_one_stacks_without_software_expect() -> None:
    """Otherwise adding `software: {}` would ask for another driver."""
    assert next(iter(compatibility.profiles().values())).versions["driver"] == catalog.software("nvidia-driver")


@pytest.mark.parametrize("profile", compatibility.profiles().values(), ids=lambda profile: profile.name)
def test_a_profile_suits_something(profile: compatibility.Profile) -> None:
    """On each of its systems, with a GPU that it is for, no rule refuses it."""
    model = {"2026-lts-cuda12": "v100", "2026-lts-arm64": "gh200"}.get(profile.name, "a100")
    for system in profile.systems:
        machines = {
            name: {"address": f"192.0.2.{10 + at}", "host_key": "ssh-ed25519 AAAA"} for at, name in enumerate(("login0", "worker0"))
        }
        described = {
            "target": {"kind": "hosts", "os": system, "user": "root", "machines": machines},
            "network": {"cidr": "192.0.2.0/24"},
            "access": {"allowed_cidrs": ["198.51.100.0/24"]},
            "groups": {
                "login": {"count": 1, "roles": ["login", "controller"], "cpus": 8, "memory": "16GiB"},
                "worker": {"count": 1, "cpus": 8, "memory": "16GiB", "gpus": {"model": model, "count": 4}},
            },
            "software": {"profile": profile.name},
        }
        found = rules.check(load_cluster(described, "rack"), TODAY)
        assert [str(finding) for finding in found if finding.rule.startswith("software") and finding.is_error] == []


@pytest.mark.parametrize("profile", compatibility.profiles().values(), ids=lambda profile: profile.name)
def test_packages_are_named_on_every_system_of_a_profile(profile: compatibility.Profile) -> None:
    """And every name in braces is filled in, for both flavours of modules and on both sides of the change of names."""
    for system in profile.systems:
        for flavour in GpuModules:
            for pins in ({}, {"driver": "595.91.07"}):
                versions = compatibility.resolve(profile, pins)
                named = compatibility.packages(profile, versions, compatibility.systems()[system], flavour)
                assert named["driver"] and named["cuda"] and named["nccl"]
                assert not [name for names in named.values() for name in names if "{" in name or "None" in name]


def test_dma_buf_is_a_default_that_every_system_can_keep() -> None:
    """Its kernel is new enough, and so is the CUDA of every profile."""
    kernel, cuda = (catalog.version_key(compatibility.requirement(name)) for name in ("dma-buf-kernel", "dma-buf-cuda"))
    assert all(catalog.version_key(system.kernel) >= kernel for system in compatibility.systems().values())
    assert all(catalog.version_key(profile.versions["cuda"]) >= cuda for profile in compatibility.profiles().values())


def test_names_of_newer_branches_carry_no_branch() -> None:
    profile, system = compatibility.profiles()["2026-lts"], compatibility.systems()["ubuntu-24.04"]
    older, newer = (
        compatibility.packages(profile, compatibility.resolve(profile, {"driver": driver}), system, GpuModules.OPEN)["driver"][0]
        for driver in ("580.173.02", "595.91.07")
    )
    assert (older, newer) == ("nvidia-dkms-580-open=580.173.02*", "nvidia-dkms-open=595.91.07*")


def test_dcgm_follows_the_driver_and_nccl_the_toolkit() -> None:
    """DCGM queries the driver; what NCCL is built for is what programs are compiled with."""
    profile, system = compatibility.profiles()["2026-lts-cuda12"], compatibility.systems()["rocky-9"]
    named = compatibility.packages(profile, compatibility.resolve(profile, {}), system, GpuModules.PROPRIETARY)
    assert "datacenter-gpu-manager-4-cuda13-1:4.6.0" in named["dcgm"]
    assert named["nccl"][0] == "libnccl-2.28.9-1+cuda12.9"
    assert named["pinning"] == ("nvidia-driver:580-dkms",)


def test_the_page_shows_the_catalogue() -> None:
    """`PYTHONPATH=tools python -m catalog.software` prints what stands between the marks."""
    page = (ROOT / "docs" / "software.md").read_text(encoding="utf-8")
    assert page.split("<!-- tables -->\n")[1].split("<!-- end of tables -->")[0].strip() == tables().strip()
