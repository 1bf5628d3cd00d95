"""GPUs of the catalogue: figures of data sheets, and what follows from them: domains of NVLink, compilers, drivers, kernel modules."""

from __future__ import annotations

import re

import pytest
from support.rows import each_row

from rackwright import catalog
from rackwright.catalog import GpuModel, compatibility
from rackwright.catalog.compatibility import has_nvlink_rack, has_nvswitch
from rackwright.catalog.rocm import rocm_releases
from rackwright.model.node.software import GpuModules

NVIDIA = [gpu for gpu in catalog.gpus().values() if gpu.vendor == catalog.NVIDIA]
CAPABILITIES = {
    "pascal": r"6\.[01]",
    "volta": r"7\.0",
    "turing": r"7\.5",
    "ampere": r"8\.[06]",
    "ada": r"8\.9",
    "hopper": r"9\.0",
    "blackwell": r"1[02]\.\d",
}
"""NVIDIA, CUDA GPU Compute Capability."""
PCIE = {"pascal": 3, "volta": 3, "turing": 3, "ampere": 4, "ada": 4, "hopper": 5, "blackwell": 5}
"""PCIe generation of the architecture's cards (NVIDIA, data sheets)."""


@each_row("gpu", NVIDIA, ids=lambda gpu: gpu.model)
def test_figures_agree_with_the_architecture(gpu: GpuModel) -> None:
    assert re.fullmatch(CAPABILITIES[gpu.architecture], gpu.compute_capability or "")
    assert gpu.pcie is None or int(gpu.pcie[0]) in (PCIE[gpu.architecture], 6 if gpu.model == "b300" else 0)
    assert (gpu.nvlink_domain is not None) == gpu.nvlink
    assert not gpu.nvswitch or gpu.nvlink


@each_row(
    ("model", "product", "memory_mib", "power_watts", "capability"),
    [
        ("a2", "NVIDIA A2", 15356, 60, "8.6"),
        ("a16", "NVIDIA A16", 15356, 62, "8.6"),
        ("l40", "NVIDIA L40", 46068, 300, "8.9"),
        ("l20", "NVIDIA L20", 46068, 275, "8.9"),
        ("h20", "NVIDIA H20", 97871, 500, "9.0"),
        ("h800", "NVIDIA H800", 81559, 700, "9.0"),
        ("a800", "NVIDIA A800-SXM4-80GB", 81920, 400, "8.0"),
        ("gb10", "NVIDIA GB10", None, None, "12.1"),
        ("gh200-144g", "NVIDIA GH200 144G HBM3e", 146831, 900, "9.0"),
        ("rtx5000ada", "NVIDIA RTX 5000 Ada Generation", 32760, 250, "8.9"),
        ("rtx4500ada", "NVIDIA RTX 4500 Ada Generation", 24570, 210, "8.9"),
        ("rtxpro5000", "NVIDIA RTX PRO 5000 Blackwell", 48935, 300, "12.0"),
        ("rtxpro4500-server", "NVIDIA RTX PRO 4500 Blackwell Server Edition", 32623, 165, "12.0"),
        ("mi210", "AMD Instinct MI210", 65536, 300, None),
        ("mi300a", "AMD Instinct MI300A", None, 760, None),
        ("mi250x", "AMD Instinct MI250X", 65536, 280, None),
    ],
)
def test_gpu_is_known(model: str, product: str, memory_mib: int | None, power_watts: int | None, capability: str | None) -> None:
    """As nvidia-smi names it and reports its memory."""
    gpu = catalog.gpus()[model]
    assert (gpu.product, gpu.memory_mib, gpu.power_watts, gpu.compute_capability) == (product, memory_mib, power_watts, capability)


@each_row(
    ("model", "count", "switched", "rack"),
    [
        ("h100", 8, True, False),
        ("h100", 4, False, False),
        ("h200", 8, True, False),
        ("b300", 8, True, False),
        ("h20", 8, True, False),
        ("a800", 8, True, False),
        ("v100-sxm3", 16, True, False),
        ("v100", 8, False, False),
        ("h100-94g", 4, False, False),
        ("a100-64g", 4, False, False),
        ("gb200", 4, False, True),
        ("gb300", 4, False, True),
        ("gb200-nvl4", 4, False, False),
        ("gh200", 1, False, False),
        ("h100-nvl", 2, False, False),
        ("rtx4090", 8, False, False),
        ("gb10", 1, False, False),
    ],
)
def test_nvlink_domain(model: str, count: int, switched: bool, rack: bool) -> None:
    """Fabric Manager belongs to nodes with NVSwitch, IMEX to racks with trays of NVSwitches; boards of four have neither."""
    gpu = catalog.gpus()[model]
    assert (has_nvswitch(gpu, count), has_nvlink_rack(gpu)) == (switched, rack)


@pytest.mark.parametrize(
    ("model", "first"),
    [
        ("a100", "11.0"),
        ("a10g", "11.1"),
        ("l40s", "11.8"),
        ("b200", "12.8"),
        ("b300", "12.9"),
        ("gb300", "12.9"),
        ("rtx5090", "12.8"),
        ("gb10", "12.9"),
    ],
)
def test_first_cuda_release(model: str, first: str) -> None:
    assert compatibility.cuda_first(catalog.gpus()[model]) == first


@pytest.mark.parametrize(
    ("model", "supported"),
    [
        ("v100", (GpuModules.PROPRIETARY,)),
        ("h100", (GpuModules.OPEN, GpuModules.PROPRIETARY)),
        ("gh200", (GpuModules.OPEN,)),
        ("gb10", (GpuModules.OPEN,)),
        ("rtx5090", (GpuModules.OPEN,)),
    ],
)
def test_supported_kernel_modules(model: str, supported: tuple[GpuModules, ...]) -> None:
    assert compatibility.supported_modules(catalog.gpus()[model]) == supported


def test_grace_is_arm64() -> None:
    assert {gpu.model for gpu in NVIDIA if gpu.host == "arm64"} == {
        *("gh200", "gh200-120g", "gh200-144g", "gb200", "gb200-nvl4", "gb300", "gb10", "t4g"),
    }


AMD = [gpu for gpu in catalog.gpus().values() if gpu.vendor == catalog.AMD]


@pytest.mark.parametrize("gpu", AMD, ids=lambda gpu: gpu.model)
def test_gpu_of_amd_has_ids_and_a_release(gpu: GpuModel) -> None:
    """Checks compare the PCI device id with the model; a driver is installed with a release of ROCm."""
    assert [one for one in catalog.amd_devices() if gpu.model in one.models and not one.virtual]
    assert [release for release in rocm_releases().values() if gpu.architecture in release.architectures]
    assert gpu.xgmi == (gpu.architecture in ("cdna3", "cdna4")) and not (gpu.nvlink or gpu.nvswitch)


def test_ids_are_those_of_gpus_of_amd() -> None:
    assert {model for one in catalog.amd_devices() for model in one.models} == {gpu.model for gpu in AMD}
