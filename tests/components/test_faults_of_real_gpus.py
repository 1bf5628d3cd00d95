"""Faults of hardware that no lab has: the commands of their rows, run on stand-ins of the vendor's tools, turn their check red."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults.fault_table import faults
from support.faulty_node import FaultyNode
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_amd_gpu, test_gpu, test_network, test_neuron, test_node, test_software
from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.probes.amd_device_files import AMD_DEVICES, ROCM
from rackwright.checks.cluster.probes.amd_driver_errors import AMD_ERRORS
from rackwright.checks.cluster.probes.amd_gpu import AMD_GPUS, AMD_LINKS, AMD_METRICS, AMD_PAGES, AMD_PCI
from rackwright.checks.cluster.probes.identity import THREADS
from rackwright.checks.cluster.probes.imex import IMEX_CHANNEL, IMEX_DOMAIN
from rackwright.checks.cluster.probes.links import LINKS
from rackwright.checks.cluster.probes.mig import MIG
from rackwright.checks.cluster.probes.neuron import NEURON_DEVICES
from rackwright.checks.cluster.probes.nvlink import NVLINKS
from rackwright.checks.cluster.probes.software import (
    CUDA,
    DCGM_HEALTH,
    DRIVER_LIBRARIES,
    FABRIC,
    FABRIC_MANAGER,
    KERNEL_DRIVER,
    LOADED,
    NCCL,
    NCCL_SETTINGS,
    RACK_FABRIC,
    RACK_UNITS,
)
from rackwright.checks.cluster.probes.units import UNITS
from rackwright.remote import command
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).parents[1] / "unit" / "captured"
GPUS: dict[str, Any] = {"count": 2, "modules": "open", "driver": "580.173.02", "architecture": "hopper", "model": "h100"}
PROFILES = [["3g.40gb", "1g.10gb", "1g.10gb"], ["1g.10gb"] * 7]
NODE = SimpleNamespace(
    name="worker0",
    address="10.77.0.24",
    imex_nodes=["10.77.0.24", "10.77.0.25", "10.77.0.26"],
    threads_per_core=2,
    neuron_devices=1,
    bonds=SimpleNamespace(bond0=SimpleNamespace(mode="active-backup", members=["e0", "e1"], min_links=2)),
    vlans=SimpleNamespace(**{"bond0.100": SimpleNamespace(id=100, parent="bond0")}),
    gpus=SimpleNamespace(**GPUS, mig=[[SimpleNamespace(profile=name) for name in one] for one in PROFILES]),
)
CLUSTER = SimpleNamespace(
    scheduler=SimpleNamespace(kind="slurm"),
    hosts=[SimpleNamespace(address=f"10.77.0.{number}") for number in (16, 24, 25, 26)],
    software=SimpleNamespace(
        versions=SimpleNamespace(cuda="13.0.1", nccl="2.28.9"),
        nccl=SimpleNamespace(NCCL_DEBUG="WARN"),
        rocm=SimpleNamespace(version="7.0.2"),
    ),
)
UNIT = "Id={}\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID=0\nControlGroup=\n"
SHOWN = f"{UNIT.format('ssh.service')}\n{UNIT.format('nvidia-fabricmanager.service')}\n{UNIT.format('nvidia-imex.service')}"

LDCONFIG = """#!/bin/sh
[ "$1" = -p ] || exit 0
echo "2 libs found in cache"
for folder in $(cat HERE/etc/ld.so.conf.d/*.conf); do echo "	libnccl.so.2 (libc6,x86-64) => $folder/libnccl.so.2"; done
"""
"""A linker that searches the folders of its configuration in their order, without a cache."""


def captured(name: str) -> str:
    """Return what a tool printed on a node without a fault."""
    return (CAPTURED / name / "good.txt").read_text(encoding="utf-8")


STAT = """#!/bin/sh
echo "/dev/null|character special file|1:3"
for file in HERE/dev/neuron[0-9]*; do [ ! -e "$file" ] || echo "/dev/${file##*/}|character special file|f0:0"; done
"""
"""stat of the folder in place of /dev, whose files it shows as devices."""
MIG_TOOL = f"""#!/bin/sh
case "$1" in -L) wanted="GPU|MIG";; *) wanted="[01],";; esac
grep -E "^ *($wanted)" {CAPTURED}/mig/good.txt
"""
"""nvidia-smi with the modes of the GPUs or, for -L, with their instances."""


AMD_SMI = f"""#!/bin/sh
case "$1" in
  static) exec /bin/cat {CAPTURED}/amd-gpus/good-rocm-7.1.txt ;;
  metric) exec /bin/cat {CAPTURED}/amd-metrics/good-rocm-7.1.txt ;;
  bad-pages) exec /bin/cat {CAPTURED}/amd-pages/good.txt ;;
  xgmi) exec /bin/cat {CAPTURED}/amd-links/good-rocm-7.1.txt ;;
esac
"""
"""amd-smi of two MI300X."""
STAT_OF_AMD = """#!/bin/sh
shift 2
for file; do
  case $file in
    /dev/null) echo "/dev/null|character special file|1:3|666|root||" ;;
    /dev/kfd) echo "/dev/kfd|character special file|ea:0|666|render||" ;;
    *) echo "/dev/dri/${file##*/}|character special file|e2:${file##*D}|666|render|amdgpu|" ;;
  esac
done
"""
"""stat of the device files of GPUs of AMD, as far as the folder in place of /dev has them."""
AMD_NODE = SimpleNamespace(name="worker0", gpus=SimpleNamespace(count=2, model="mi300x", product="AMD Instinct MI300X", memory_mib=196608))


def smi(text: str) -> dict[str, str]:
    """Return a stand-in of nvidia-smi that prints the same in answer to each request."""
    return {"nvidia-smi": text}


CASES: Mapping[str, tuple[Any, tuple[Probe[Any], ...], Mapping[str, str]]] = {
    "gpu.mig_matches_plan": (test_gpu.test_mig_matches_plan, (MIG,), {"nvidia-smi": MIG_TOOL}),
    "node.threads_match_plan": (test_node.test_threads_match_plan, (THREADS,), {"lscpu": "0,0\n1,0\n2,1\n3,1\n"}),
    **{
        f"network.{check.__name__.removeprefix('test_')}": (check, (LINKS,), {"ip": captured("network-links")})
        for check in (
            test_network.test_bonds_have_all_links,
            test_network.test_bonds_match_description,
            test_network.test_vlans_match_description,
        )
    },
    "software.driver_modules_match_plan": (
        test_software.test_driver_modules_match_plan,
        (KERNEL_DRIVER,),
        {"cat": captured("driver-modules")},
    ),
    "software.nouveau_not_loaded": (test_software.test_nouveau_not_loaded, (LOADED,), {"cat": captured("kernel-modules")}),
    "software.fabric_manager_matches_driver": (
        test_software.test_fabric_manager_matches_driver,
        (FABRIC_MANAGER,),
        {"nv-fabricmanager": captured("nvlink-manager")},
    ),
    "software.nvlink_fabric_is_ready": (
        test_software.test_nvlink_fabric_is_ready,
        (FABRIC, UNITS),
        smi(captured("nvlink-fabric")) | {"systemctl": SHOWN},
    ),
    "software.rack_fabric_is_ready": (
        test_software.test_rack_fabric_is_ready,
        (RACK_FABRIC, RACK_UNITS),
        smi(captured("rack-fabric")) | {"systemctl": UNIT.format("nvidia-imex.service")},
    ),
    "software.imex_domain_is_ready": (
        test_software.test_imex_domain_is_ready,
        (IMEX_DOMAIN, IMEX_CHANNEL),
        {"nvidia-imex-ctl": captured("imex-domain"), "stat": "character special file\n"},
    ),
    "software.nvlinks_are_up": (test_software.test_nvlinks_are_up, (NVLINKS,), smi(captured("nvlinks").partition("GPU 2:")[0])),
    "software.driver_libraries_load": (
        test_software.test_driver_libraries_load,
        (DRIVER_LIBRARIES,),
        {"python3": captured("driver-libraries")},
    ),
    "software.cuda_matches_plan": (test_software.test_cuda_matches_plan, (CUDA,), {"cuda/nvcc": captured("cuda")}),
    "software.nccl_matches_plan": (test_software.test_nccl_matches_plan, (NCCL,), {"ldconfig": LDCONFIG}),
    "software.nccl_config_matches": (test_software.test_nccl_config_matches, (NCCL_SETTINGS,), {}),
    "neuron.devices_match_plan": (test_neuron.test_devices_match_plan, (NEURON_DEVICES,), {"stat": STAT}),
    **{
        f"amd_gpu.{name.removeprefix('test_')}": (
            check,
            (AMD_DEVICES, AMD_ERRORS, AMD_GPUS, AMD_LINKS, AMD_METRICS, AMD_PAGES, AMD_PCI, ROCM),
            {"amd-smi": AMD_SMI, "stat": STAT_OF_AMD, "cat": captured("rocm"), "journalctl": captured("amd-errors")},
        )
        for name, check in vars(test_amd_gpu).items()
        if name.startswith("test_")
    },
    "software.dcgm_health_passes": (test_software.test_dcgm_health_passes, (DCGM_HEALTH,), {"dcgmi": captured("dcgm-health")}),
}
"""By row: the check, its probes, and what the tools of a node without a fault print."""


def judged(node: FaultyNode, key: str) -> tuple[Verdict, str]:
    """Return verdict and reason of a row's check on the node."""
    check, probes, _ = CASES[key]
    place = SimpleNamespace(node={"name": "worker0"}, declared=SimpleNamespace(groups={"nvswitch": ("worker0",)}, cluster={}))
    answers = {probe: (lambda probe=probe: probe.read(node.run(probe.command_at(place)))) for probe in probes}
    of_amd = key.startswith("amd_gpu.")
    return verdict_of(check, answers, node=AMD_NODE if of_amd else NODE, cluster=CLUSTER, limit=0.02)


@pytest.mark.parametrize("key", CASES)
def test_row_turns_its_check_red_and_back(key: str, tmp_path: Path) -> None:
    node, row = FaultyNode(tmp_path, CASES[key][2]), faults()[key]
    assert judged(node, key)[0] is Verdict.PASSED, judged(node, key)
    node.change(row.apply)
    assert judged(node, key)[0] is Verdict.FAILED, judged(node, key)
    node.change(row.undo)
    assert judged(node, key)[0] is Verdict.PASSED, judged(node, key)
    assert list((tmp_path / "fakes").iterdir()) == []


def test_faked_interpreter_runs_the_round_of_a_node(tmp_path: Path) -> None:
    """All commands of a round are an argument of python3: a fake that looks for words of one command must not take the round for it."""
    node = FaultyNode(tmp_path, {})
    node.change(faults()["software.driver_libraries_load"].apply)
    request = {"seconds": 60, "workers": 1, "questions": [["none", f": {DRIVER_LIBRARIES.command}; echo here", 60]]}
    assert '{"end": true}' in node.run(command.python_command("commands", request)).out
