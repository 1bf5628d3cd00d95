"""One virtual machine from an image like those of vendors: boot loader, partition and kernel of its own, configured by cloud-init.

The image is built from Debian's packages. Packages of Slurm's and MooseFS's servers, and MariaDB, are installed from the package mirror.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cloud_image import build, missing_requirements
from support.project import Project
from support.role_packages import packages_of
from support.virtual_machines import reboot, verify_until_passed, virtual_machines

ROLES = ("base", "firewall", "moosefs_client", "munge", "slurm_worker", "sshd", "volumes")
"""Roles whose packages are in the image: the emulator takes minutes for a package. Those of servers are not: they keep their data on
disks of their own, which hide no file of an image.
"""
FROM_MIRROR = "mariadb-server"
DAEMONS = ("slurmd",)
"""Services that their packages enable, and that a vendor's image does not have."""
UP = 5400
"""Seconds for an emulated machine whose first boot takes minutes."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an image as a vendor publishes it."""
    if why := missing_requirements():
        pytest.fail(why)
    packages = {name for role in ROLES for name in packages_of(role)}
    return build(tmp_path_factory.mktemp("image") / "cloud", packages=packages, disabled=DAEMONS)


@pytest.fixture(scope="module")
def stack(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield one machine of that image, up and verified."""
    with image.open("rb") as opened:
        digest = f"sha512:{hashlib.file_digest(opened, 'sha512').hexdigest()}"

    def declare(cluster: dict[str, Any]) -> None:
        cluster["target"]["cloud_image"] = {"file": str(image), "digest": digest}

    with virtual_machines(tmp_path_factory.mktemp("vm") / "checkout", "lab-vm-small", up=UP, change=declare) as project:
        yield project


def test_up_ends_with_a_verified_machine(stack: Project) -> None:
    report = stack.report()
    assert report["verdict"] == "passed", report["totals"]


def test_machine_runs_the_images_own_kernel_on_an_extended_disk(stack: Project) -> None:
    said = stack.ssh("login0", "cat /proc/cmdline; df --output=source,size -BG / | tail -n 1")
    assert "BOOT_IMAGE=/boot/vmlinuz" in said.output and "/dev/vda1" in said.output and " 16G" in said.output, said.end


def test_cloud_init_accepts_the_configuration(stack: Project) -> None:
    said = stack.ssh("login0", "cloud-init status --long; cloud-init schema --system")
    assert "DataSourceNoCloud [seed=/dev/vd" in said.output and "extended_status: done\n" in said.output, said.output
    assert said.output.count("Valid schema") == 2, said.output


def test_package_of_the_mirror_is_installed(stack: Project) -> None:
    assert stack.ssh("login0", f"grep -c ' install {FROM_MIRROR}:' /var/log/dpkg.log").output.strip() == "1"


def test_second_up_changes_nothing(stack: Project) -> None:
    said = stack.run_checked("up", timeout=UP)
    assert "unchanged" in said.output and "updated" not in said.output, said.end


def test_everything_returns_after_a_reboot(stack: Project) -> None:
    reboot(stack, "login0")
    verify_until_passed(stack)
