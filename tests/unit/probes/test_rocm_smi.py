"""GPUs of AMD on nodes without amd-smi, as rocm-smi describes them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.harness.tool_output import unread_values
from rackwright.checks.cluster.probes.amd_gpu import AMD_GPUS, AMD_PCI, parse_amd_gpus, responding
from rackwright.errors import UndeterminedError

CAPTURED = Path(__file__).parents[1] / "captured"
RELEASES = ["5.7", "6.2"]


def captured(release):
    return (CAPTURED / "amd-gpus" / f"good-rocm-smi-{release}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("release", RELEASES)
def test_gpus_of_rocm_smi_are_read(release):
    found = [(gpu.product, gpu.device, gpu.bus, gpu.memory_mib) for gpu in parse_amd_gpus(captured(release))]
    assert found == [("AMD Instinct MI210", 0x740F, bus, 65520) for bus in ("0000:05:00.0", "0000:26:00.0")]


@pytest.mark.parametrize("release", RELEASES)
def test_gpu_that_rocm_smi_does_not_list_is_missing(release):
    present = AMD_PCI.read(CommandOutput(out=(CAPTURED / "amd-pci" / "good.txt").read_text(encoding="utf-8")))
    listed = parse_amd_gpus(captured(release))
    assert responding(listed, present, 2) == 2
    start, end = captured(release).partition(', "card')[0], "}\n"
    assert responding(parse_amd_gpus(start + end), present, 2) == "1 of 2 GPUs respond; 0000:26:00.0 does not"


UNREAD = {
    "product": ('"AMD Instinct MI210"', '"N/A"', "market_name"),
    "device": ('"0x740f"', '"N/A"', "device_id"),
    "address": ('"0000:05:00.0"', '"?"', "bdf"),
    "memory": ('"68702699520"', '"N/A (Secondary die)"', "vram/size"),
}


@each_row("case", UNREAD)
def test_unread_value_leaves_the_others(case):
    old, new, name = UNREAD[case]
    first, second = parse_amd_gpus(captured("6.2").replace(old, new, 2 if case == "product" else 1))
    unread = [value.why for value in unread_values(list(vars(first).values())) if not re.search("driver|pcie", value.why)]
    assert len(unread) == 1 and name in unread[0]
    assert (second.bus, second.memory_mib) == ("0000:26:00.0", 65520)


@pytest.mark.parametrize(
    "text", ["WARNING: No JSON data to report\n", captured("6.2")[:400], "{}\n", "rocm-smi: error: unrecognized arguments: --json\n"]
)
def test_output_without_gpus_is_refused(text):
    with pytest.raises(UndeterminedError):
        AMD_GPUS.read(CommandOutput(out=text))


@pytest.mark.parametrize(
    "text", ["ERROR: No DRM devices available. Exiting\n", "ERROR:root:Driver not initialized (amdgpu not found in modules)\n"]
)
def test_missing_driver_is_no_gpu(text):
    found = responding(AMD_GPUS.read(CommandOutput(out=text, rc=1)), (), 2)
    assert found == 0 or "Driver not initialized" in str(found)


@pytest.mark.parametrize(
    ("tools", "said", "status"), [(("amd-smi", "rocm-smi"), "amd-smi", 3), (("rocm-smi",), "rocm-smi", 3), ((), "", 127)]
)
def test_rocm_smi_is_asked_without_amd_smi(tmp_path, tools, said, status):
    for name in tools:
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '%s' '{name}\\n'\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    ended = subprocess.run(["/bin/sh", "-c", AMD_GPUS.command], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert ended.returncode == status
    assert ended.stdout.strip() == f"{said}\\n" if said else "not found" in ended.stdout
