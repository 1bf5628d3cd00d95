"""The packages of real GPUs out of Debian's own archive, installed on a machine that has none: driver with its modules built, and NCCL.

The image is the lab's, or the one that RACKWRIGHT_TEST_IMAGE names. About 510 MB are fetched; RACKWRIGHT_TEST_TOOLKIT=1 fetches the CUDA
toolkit too, 1.9 GB more.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.machines import PORT, USER, Machines
from support.project import ROOT

from rackwright.inventory import Host, inventory
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster

TOOLKIT = os.environ.get("RACKWRIGHT_TEST_TOOLKIT") == "1"
WITHOUT_DRIVER = ("-e", '{"nvidia_driver_set": {"packages": {"pinning": [], "per-kernel": [], "driver": []}}}')
STEPS = "install,nccl_configure" + (",cuda_configure" if TOOLKIT else "")


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Yield a Debian 13 machine without a GPU."""
    image = os.environ.get("RACKWRIGHT_TEST_IMAGE") or request.getfixturevalue("lab").resources()["image"]["outputs"]["image"]
    number = os.getpid() % 200
    machines = Machines(f"gpu-packages-{os.getpid()}", f"10.{130 + number % 60}.7", image, tmp_path_factory.mktemp("machine") / "id")
    try:
        machines.start("worker0")
        yield machines
    finally:
        machines.remove()


def kernel(machine: Machines) -> str:
    """Return the newest kernel whose headers the archive has; it replaces the running one."""
    listed = machine.on("worker0", "apt-get -qq update && apt-cache search --names-only '^linux-headers-6[0-9.]+[+]deb13-amd64$'")
    kernels = [line.split()[0].removeprefix("linux-headers-") for line in listed.splitlines()]
    assert kernels, f"the archive offers no kernel headers: {listed}"
    return max(kernels, key=lambda name: [int(part) for part in name.split("+")[0].split(".")])


def apply(machine: Machines, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook on it."""
    hosts = folder / "inventory.yml"
    hosts.write_text(yaml.safe_dump(described(machine)))
    reach = f"-i {machine.identity} -p {PORT} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    variables = {"ansible_ssh_common_args": reach, "ansible_user": USER, "nvidia_driver_kernel": kernel(machine), "nccl_tests_source": ""}
    given = [word for key, value in variables.items() for word in ("-e", f'{{"{key}": "{value}"}}')]
    skipped = [] if TOOLKIT else ["--skip-tags", "toolkit"]
    return subprocess.run(
        ["ansible-playbook", "-i", str(hosts), *given, *skipped, *words, str(Path(__file__).with_name("gpu_packages.yml"))],
        capture_output=True, text=True, check=False, timeout=1500, env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
    )  # fmt: skip


def described(machine: Machines) -> dict[str, Any]:
    """Return the inventory of a stack with the profile of Debian's archive, for this one machine."""
    found = dict(machine.found["worker0"])
    groups = {
        "worker": {
            "count": 1,
            "roles": ["login", "controller", "worker"],
            "cpus": 2,
            "memory": "2GiB",
            "gpus": {"model": "a100", "count": 4},
        }
    }
    target = {
        "kind": "hosts",
        "os": "debian-13",
        "user": USER,
        "port": PORT,
        "machine_type": "system-container",
        "machines": {"worker0": found},
    }
    network, access = {"cidr": f"{machine.network}.0/24"}, {"allowed_cidrs": ["0.0.0.0/0"]}
    software = {"profile": "debian-13", "nccl": {"environment": {"NCCL_SOCKET_IFNAME": "eth0"}}}
    loaded = load_cluster({"target": target, "network": network, "access": access, "groups": groups, "software": software})
    assert loaded.cluster is not None, loaded.findings
    made = inventory(expand(loaded.cluster, "rack"), {"worker0": Host("worker0", found["address"], "ssh-ed25519 AAAA", "life-1")})
    made["all"]["hosts"]["worker0"]["ansible_host"] = found["address"]
    return made


@pytest.fixture(scope="module")
def unbuilt(machine: Machines, tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Return the first run. It fails since autumn 2026: Debian's driver builds for no kernel of Debian's archive."""
    return apply(machine, tmp_path_factory.mktemp("first"), "--tags", STEPS)


@pytest.fixture(scope="module")
def installed(machine: Machines, unbuilt: subprocess.CompletedProcess[str], tmp_path_factory: pytest.TempPathFactory) -> Machines:
    """Return the machine after a run without the driver's role, and without the package that does not build."""
    machine.on("worker0", "dpkg --purge --force-depends nvidia-open-kernel-dkms")
    ended = apply(machine, tmp_path_factory.mktemp("second"), "--tags", STEPS, *WITHOUT_DRIVER)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return machine


def test_failed_driver_build_reports_kernel(machine: Machines, unbuilt: subprocess.CompletedProcess[str]) -> None:
    """The message is not the package manager's, which is four screens long. As soon as Debian's driver builds again, this test fails."""
    assert unbuilt.returncode != 0
    assert f"driver 550.163.01 does not build for kernel {kernel(machine)}: " in unbuilt.stdout, unbuilt.stdout[-4000:]
    assert "pci_resize_resource" in unbuilt.stdout and "software.profile" in unbuilt.stdout


def test_packages_match_planned_versions(installed: Machines) -> None:
    told = installed.on("worker0", "dpkg-query -W -f '${Package} ${Version}\\n' nvidia-smi libcuda1 libnccl2 libnccl-dev")
    assert {line.split()[0]: line.split()[1].split("-")[0] for line in told.splitlines()} == {
        "nvidia-smi": "550.163.01",
        "libcuda1": "550.163.01",
        "libnccl2": "2.22.3",
        "libnccl-dev": "2.22.3",
    }


def test_linker_finds_nccl_with_stack_settings(installed: Machines) -> None:
    assert "libnccl.so.2 " in installed.on("worker0", "ldconfig -p")
    assert installed.on("worker0", "cat /etc/nccl.conf").splitlines()[1:] == ["NCCL_SOCKET_IFNAME=eth0"]


def test_upgrade_keeps_pinned_versions(installed: Machines) -> None:
    """The pin has a higher priority than every repository."""
    assert re.search(r"550\.163\.01\S* 1001", installed.on("worker0", "apt-cache policy nvidia-smi"))


@pytest.mark.skipif(not TOOLKIT, reason="the toolkit is 1.9 GB; RACKWRIGHT_TEST_TOOLKIT=1 fetches it")
def test_cuda_toolkit_compiles(installed: Machines) -> None:
    """The program is built for a GPU that the machine does not have."""
    source = "#include <nccl.h>\\n__global__ void nothing() {}\\nint main() { int v; return ncclGetVersion(&v) || v / 100 != 222; }\\n"
    build = f"printf '{source}' > /tmp/nothing.cu && nvcc -arch=sm_90 -o /tmp/nothing /tmp/nothing.cu -lnccl && /tmp/nothing && echo runs"
    assert installed.on("worker0", build).split()[-1] == "runs"
    assert "release 12.4" in installed.on("worker0", "nvcc --version")


def test_second_run_and_check_mode_change_nothing(installed: Machines, tmp_path: Path) -> None:
    for words in ((), ("--check",)):
        ended = apply(installed, tmp_path, "--tags", STEPS, *WITHOUT_DRIVER, *words)
        assert ended.returncode == 0, ended.stdout[-4000:]
        assert " changed=0 " in ended.stdout, ended.stdout[-4000:]


def test_check_reports_unloaded_driver_without_gpu(installed: Machines, tmp_path: Path) -> None:
    """The modules and libraries are in place, and the module that CUDA needs is not loaded."""
    ended = apply(installed, tmp_path, "--tags", "nvidia_driver_service")
    assert ended.returncode != 0
    assert "nvidia_uvm" in ended.stdout, ended.stdout[-4000:]
    assert "blacklist nouveau" in installed.on("worker0", "cat /etc/modprobe.d/rackwright-nvidia.conf")
