"""The collector of GPUs on outputs of nvidia-smi and the kernel log: in order, with faults, and of other drivers."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from .conftest import Collect, module, success

GPU = (
    "{0}, GPU-{0}, 00000000:{1}:00.0, NVIDIA H100, 580.95.05, {2}, 70.00, 700.00, 0, 0, 81559, 1980, 1980, {3}, 0, No, No, 16, 16, "
    "0x{4:016x}\n"
)
HEALTHY = GPU.format(0, "10", 30, 0, 0) + GPU.format(1, "20", 31, 0, 0)
WITH_ECC = GPU.format(0, "10", 30, 0, 0) + GPU.format(1, "20", 31, 3, 0)


def test_gpu_fields_are_those_of_the_stand_in() -> None:
    """The lab has no other nvidia-smi."""
    stand_in = (Path(__file__).parents[3] / "roles" / "gpu" / "files" / "nvidia-smi").read_text()
    gpu = module("gpu")
    assert [name for name in (*gpu.IDENTITY, *gpu.FIELDS) if f'"{name}":' not in stand_in] == []


def of_gpu(found: dict[str, float], metric: str, index: int) -> float | None:
    return next((value for name, value in found.items() if name.startswith(f"{metric}{{") and f'gpu="{index}"' in name), None)


@pytest.mark.parametrize(
    ("smi", "present", "metric", "value"),
    [
        pytest.param(HEALTHY, 2, "DCGM_FI_DEV_GPU_TEMP", 31, id="healthy"),
        pytest.param(HEALTHY.replace(", 31,", ", [N/A],"), 2, "DCGM_FI_DEV_GPU_TEMP", None, id="value-not-available"),
        pytest.param(HEALTHY.replace(", 31,", ", [Unknown Error],"), 2, "DCGM_FI_DEV_GPU_TEMP", None, id="value-unreadable"),
        pytest.param(GPU.format(0, "10", 30, 0, 0), 1, "DCGM_FI_DEV_GPU_TEMP", None, id="gpu-missing"),
        pytest.param("No devices were found\n", 0, "DCGM_FI_DEV_GPU_TEMP", None, id="all-missing"),
        pytest.param(WITH_ECC, 2, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3, id="ecc"),
        pytest.param(
            GPU.format(0, "10", 30, 0, 0) + GPU.format(1, "20", 31, 0, 8), 2, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 8, id="slowed"
        ),
        pytest.param(
            GPU.format(0, "10", 30, 0, 0) + "Unable to determine the device handle for GPU1: 0000:20:00.0: GPU is lost.\n",
            1,
            "DCGM_FI_DEV_GPU_TEMP",
            None,
            id="gpu-lost",
        ),
        pytest.param(HEALTHY.replace(", 31,", ", [GPU is lost],"), 1, "DCGM_FI_DEV_GPU_TEMP", None, id="gpu-lost-in-its-row"),
        pytest.param(
            "Unable to determine the device handle for GPU0000:10:00.0: Unknown Error\n",
            0,
            "DCGM_FI_DEV_GPU_TEMP",
            None,
            id="only-gpu-lost",
        ),
        pytest.param(HEALTHY.replace("00000000:20:00.0", "[Unknown Error]"), 2, "DCGM_FI_DEV_GPU_TEMP", 31, id="address-unreadable"),
        pytest.param(GPU.format(0, "10", 30, 0, 0) * 2, 1, "DCGM_FI_DEV_GPU_TEMP", None, id="row-twice"),
        pytest.param(HEALTHY + "WARNING: infoROM is corrupted at gpu 0000:20:00.0\n", 2, "DCGM_FI_DEV_GPU_TEMP", 31, id="inforom"),
        pytest.param(HEALTHY.replace("\n", "\r\n"), 2, "DCGM_FI_DEV_GPU_TEMP", 31, id="carriage-returns"),
        pytest.param(HEALTHY, 2, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 700, id="power-limit"),
        pytest.param(HEALTHY.replace("No, No", "Yes, No"), 2, "DCGM_FI_DEV_ROW_REMAP_PENDING", 1, id="remap-pending"),
    ],
)
def test_gpus(collect: Collect, smi: str, present: int, metric: str, value: float | None) -> None:
    found = collect("gpu", {"nvidia-smi": smi})
    assert found[success("gpu")] == 1
    assert (found["rackwright_gpus_planned"], found["rackwright_gpus_present"]) == (2, present)
    assert of_gpu(found, metric, 1) == value
    assert all('simulated="true"' in name for name in found if name.startswith("DCGM"))


@pytest.mark.parametrize("said", ["", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "status 9"])
def test_gpu_driver_without_answer(collect: Collect, said: str) -> None:
    found = collect("gpu", {"nvidia-smi": said})
    assert found[success("gpu")] == 0 and "rackwright_gpus_present" not in found


def test_gpu_fields_of_old_drivers(collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, asked = module("gpu"), []

    def answer(command: list[str], statuses: tuple[int, ...] = (0,)) -> str:
        asked.append(command[1])
        return (
            HEALTHY if "clocks_throttle_reasons" in command[1] else 'Field "clocks_event_reasons.active" is not a valid field to query.\n'
        )

    monkeypatch.setattr(gpu, "output_of", answer)
    assert len(gpu.read_gpus()) == 2 and len(asked) == 2


@pytest.mark.parametrize(("rejected", "count"), [(("driver_version", "remapped_rows.failure"), 1), (("uuid",), 0), (("x",), 0)])
def test_gpu_fields_that_the_driver_rejects(monkeypatch: pytest.MonkeyPatch, rejected: tuple[str, ...], count: int) -> None:
    """A field costs its own value alone; a GPU without an identity is none."""
    gpu = module("gpu")

    def answer(command: list[str], statuses: tuple[int, ...] = (0,)) -> str:
        names = command[1].partition("=")[2].split(",")
        wrong = next((name for name in rejected if name in names or name == "x"), "")
        cells = ", ".join("580.95.05" if name == "kmd_version" else "0" for name in names)
        return f'Field "{wrong}" is not a valid field to query.\n' if wrong else f"{cells}\n"

    monkeypatch.setattr(gpu, "output_of", answer)
    if not count:
        with pytest.raises(importlib.import_module("rackwright_metrics").CollectError, match=f'Field "{rejected[0]}"'):
            gpu.read_gpus()
        return
    (row,) = gpu.read_gpus()
    assert (row["driver_version"], row["remapped_rows.pending"], "remapped_rows.failure" in row) == ("580.95.05", "0", False)


XID = "NVRM: Xid (PCI:0000:{}:00): {}, pid='<unknown>', name=<unknown>\n"


def test_gpu_errors_of_kernel_log(collect: Collect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "kernel.log"
    log.write_text(XID.format("20", 79) * 2 + XID.format("70", 94) + "nvidia-nvswitch0: SXid (PCI:0000:20:00.0): 20009, Non-fatal\n")
    monkeypatch.setattr(module("gpu"), "SIMULATED_LOG", str(log))
    found = {name: value for name, value in collect("gpu", {"nvidia-smi": HEALTHY}).items() if "XID" in name}
    (of_row,) = [name for name in found if 'gpu="1"' in name]
    assert 'xid="79"' in of_row and found[of_row] == 2
    (lost,) = [name for name in found if 'pci_bus_id="0000:70:00"' in name]
    assert 'xid="94"' in lost and len(found) == 2


def test_nvswitch_errors_of_kernel_log(collect: Collect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error has three lines; those of the details are no further errors."""
    switch = "[  9.1] nvidia-nvswitch3: SXid (PCI:0000:C4:00.0): "
    details = ("20009, Severity 0 Engine instance 28 Sub-engine instance 00", "20009, Data {0x00000001, 0x00000001, 0x00000000}")
    words = ("20009, Non-fatal, Link 28 RX Short Error Rate (First)", "20034, Fatal, Link 30 LTSSM Fault Up", "99999")
    log = tmp_path / "kernel.log"
    log.write_text("".join(f"{switch}{line}\n" for line in (*words, *details, words[0])))
    monkeypatch.setattr(module("gpu"), "SIMULATED_LOG", str(log))
    found = {name: value for name, value in collect("gpu", {"nvidia-smi": HEALTHY}).items() if "nvswitch" in name}
    place = 'pci_bus_id="0000:c4:00"'
    assert {re.sub(r'.*(sxid="\d+").*', r"\1", name): value for name, value in found.items()} == {
        'sxid="20009"': 2,
        'sxid="20034"': 1,
        'sxid="99999"': 1,
    }
    assert all(place in name and f'fatal="{"no" if "20009" in name else "yes"}"' in name for name in found)
