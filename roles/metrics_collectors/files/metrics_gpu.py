#!/usr/bin/python3
"""GPUs as nvidia-smi reports them, under the names and labels of NVIDIA's dcgm-exporter; `simulated` labels those of a lab."""

from __future__ import annotations

import re
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rackwright_metrics import CollectError, Samples, output_of, run

FIELDS = {
    "temperature.gpu": ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (C)"),
    "power.draw": ("DCGM_FI_DEV_POWER_USAGE", "Power draw (W)"),
    "enforced.power.limit": ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "Power that the driver allows (W)"),
    "utilization.gpu": ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (%)"),
    "memory.used": ("DCGM_FI_DEV_FB_USED", "Frame buffer memory used (MiB)"),
    "memory.free": ("DCGM_FI_DEV_FB_FREE", "Frame buffer memory free (MiB)"),
    "clocks.sm": ("DCGM_FI_DEV_SM_CLOCK", "SM clock (MHz)"),
    "clocks.max.sm": ("DCGM_FI_DEV_MAX_SM_CLOCK", "Maximum SM clock (MHz)"),
    "ecc.errors.uncorrected.volatile.total": ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Uncorrected ECC errors since the driver was loaded"),
    "ecc.errors.corrected.volatile.total": ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Corrected ECC errors since the driver was loaded"),
    "remapped_rows.pending": ("DCGM_FI_DEV_ROW_REMAP_PENDING", "Whether a row waits for a reset to be remapped"),
    "remapped_rows.failure": ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether the remapping of rows has failed"),
    "pcie.link.width.current": ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe lanes in use"),
    "pcie.link.width.max": ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "PCIe lanes of the slot and the GPU"),
    "clocks_event_reasons.active": (
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        "Bit mask of reasons for a lower clock; 8 is a hardware slowdown",
    ),
}
IDENTITY = ("index", "uuid", "pci.bus_id", "name", "driver_version")
OTHER_NAMES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active", "driver_version": "kmd_version"}
"""Names before driver 535, and of a field that driver 610 calls deprecated (nvidia-smi --help-query-gpu)."""
ENDS = (0, 2, 6, 8, 9, 10, 12, 14, 15, 18, 255)
"""Exit statuses with which nvidia-smi may have listed GPUs: 2 rejects a field, 6 finds no GPU, 14 warns of a corrupted infoROM, and 15 or
255 tells of a GPU that fell off the bus (nvidia-smi(1), RETURN VALUE; nvml.h, nvmlReturn_t)."""
LOST = re.compile(r"unable to (?:determine|detect) the device handle for|\[?gpu is lost", re.IGNORECASE)
"""Words with which nvidia-smi reports a GPU that does not respond: in a line of its own, or in the cells of its row."""
WINDOW = "300000"
"""Milliseconds in which XIDs and SXids count: the default of dcgm-exporter."""
ADDRESS = r"(?:PCI:)?([0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+)"
SIMULATED_LOG = "/var/lib/rackwright/gpu-kernel.log"


def value(cell: str) -> float | None:
    """Return the number of a cell; None where the GPU has none or could not read it, as `[N/A]` or `[Unknown Error]`.

    >>> value("30"), value("0x0000000000000008"), value("Yes"), value("No"), value("[N/A]")
    (30.0, 8.0, 1.0, 0.0, None)
    """
    cell = cell.strip()
    if cell in ("Yes", "No"):
        return float(cell == "Yes")
    if re.fullmatch(r"0x[0-9A-Fa-f]+", cell):
        return float(int(cell, 16))
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def rows(text: str, fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the GPUs of CSV without header and units, each index once, without those that the driver lost."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields) and cells[0].isdigit() and not LOST.search(line):
            found[cells[0]] = dict(zip(fields, cells))  # noqa: B905 - Python 3.9
    return list(found.values())


def slot(address: str) -> str:
    """Return a PCI address without function: nvidia-smi prints a domain of eight digits, the kernel of four. Return other text as it is.

    >>> slot("00000000:1B:00.0"), slot("0000:1b:00"), slot("[Unknown Error]")
    ('0000:1b:00', '0000:1b:00', '[Unknown Error]')
    """
    found = re.fullmatch(r"([0-9a-f]+):([0-9a-f]+):([0-9a-f]+)(?:\.[0-9a-f])?", address.lower())
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}" if found else address


def xids(text: str) -> Counter[tuple[str, str]]:
    """Count XIDs by slot and code.

    >>> xids("NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>'")
    Counter({('0000:10:00', '79'): 1})

    A line of a MIG instance names it after the address; that of some drivers has the number of the GPU before the word.

    >>> xids("NVRM: Xid (PCI:0000:10:00 GPU-I:02): 94, pid=7, x") + xids("NVRM: GPU0 Xid (PCI:0000:10:00): 94, x")
    Counter({('0000:10:00', '94'): 2})
    """
    found = re.findall(rf"NVRM:\s*(?:GPU\s?\d+:?\s*)?Xid \({ADDRESS}\b[^)]*\):\s*(\d+)", text)
    return Counter((slot(address), code) for address, code in found)


def sxids(text: str) -> Counter[tuple[str, str, str]]:
    """Count errors of NVSwitches by slot, SXid, and whether they are fatal. An error without a word for its severity is.

    The driver prints three lines for an error; the second and the third have its severity as a number, and registers.

    >>> sxids("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20009, Non-fatal, Link 04 RX Short Error Rate (First)")
    Counter({('0000:c1:00', '20009', 'no'): 1})
    >>> sxids("SXid (PCI:0000:c1:00.0): 20009, Severity 0 Engine instance 04 Sub-engine instance 00")
    Counter()
    """
    found = re.findall(rf"\bSXid\s*\({ADDRESS}[^)]*\):\s*(\d+)\b(?![,:]?\s*(?:Severity \d|Data\b))[,:]?\s*((?i:non-?fatal)\b)?", text)
    return Counter((slot(address), code, "no" if survived else "yes") for address, code, survived in found)


def read_gpus() -> list[dict[str, str]]:
    """Return the GPUs. A field that the driver rejects is queried by its other name, or left out."""
    asked = {name: name for name in (*IDENTITY, *FIELDS)}
    while True:
        text = output_of(["nvidia-smi", f"--query-gpu={','.join(asked.values())}", "--format=csv,noheader,nounits"], statuses=ENDS)
        rejected = re.search(r'Field "([^"]+)" is not a valid field', text)
        if rejected is None:
            break
        name = next((name for name, used in asked.items() if used == rejected[1]), "")
        if asked.get(name) == name and name in OTHER_NAMES:
            asked[name] = OTHER_NAMES[name]
        elif name in FIELDS:
            del asked[name]
        else:
            raise CollectError(f"nvidia-smi: {rejected[0]}")
    found = rows(text, tuple(asked))
    if not found and "No devices were found" not in text and not LOST.search(text):
        raise CollectError(f"nvidia-smi lists no GPU: {(text.strip().splitlines() or ['no output'])[-1]}")
    return found


def kernel_log(simulated: bool) -> str:
    """Return the driver's lines: of the last five minutes, or all of a simulated log, whose lines have no time."""
    if simulated:
        try:
            with open(SIMULATED_LOG, encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except FileNotFoundError:
            return ""
    return output_of(
        ["journalctl", "--quiet", "--dmesg", "--no-pager", "--output=cat", "--since=-5min", "--grep=NVRM:.*Xid|SXid"], statuses=(0, 1)
    )


def labels_of(gpu: Mapping[str, str], simulated: bool) -> dict[str, str]:
    """Return the labels of dcgm-exporter."""
    return {
        "gpu": gpu["index"],
        "UUID": gpu["uuid"],
        "pci_bus_id": gpu["pci.bus_id"],
        "device": f"nvidia{gpu['index']}",
        "modelName": gpu["name"],
        "Hostname": socket.gethostname(),
        "DCGM_FI_DRIVER_VERSION": gpu["driver_version"],
        **({"simulated": "true"} if simulated else {}),
    }


def set_driver_errors(log: str, gpus: list[dict[str, str]], simulated: bool, samples: Samples) -> None:
    """Set the numbers of XIDs and SXids. A GPU that fell off the bus (XID 79) is in the log and in no row."""
    samples.describe("DCGM_EXP_XID_ERRORS_COUNT", "Count of XID errors in the window")
    samples.describe("rackwright_nvswitch_errors", "Count of SXid errors of NVSwitches in the window")
    known = {slot(gpu["pci.bus_id"]): labels_of(gpu, simulated) for gpu in gpus}
    mark = {"simulated": "true"} if simulated else {}
    for (place, code), count in xids(log).items():
        labels = known.get(place, {"pci_bus_id": place, **mark})
        samples.set("DCGM_EXP_XID_ERRORS_COUNT", count, **labels, xid=code, window_size_in_ms=WINDOW)
    for (place, code, fatal), count in sxids(log).items():
        labels = {"pci_bus_id": place, "sxid": code, "fatal": fatal, "window_size_in_ms": WINDOW}
        samples.set("rackwright_nvswitch_errors", count, **labels, **mark)


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """A GPU that is lost has no row: the number of rows is compared with the plan's."""
    planned: Mapping[str, Any] = configuration["gpu"]
    simulated = bool(planned["simulated"])
    samples.describe("rackwright_gpus_planned", "Number of GPUs in the plan")
    samples.describe("rackwright_gpus_present", "Number of GPUs that the driver lists")
    found, log = read_gpus(), kernel_log(simulated)
    samples.set("rackwright_gpus_planned", planned["count"])
    samples.set("rackwright_gpus_present", len(found))
    for metric, described in FIELDS.values():
        samples.describe(metric, described)
    for gpu in found:
        labels = labels_of(gpu, simulated)
        for field, (metric, _) in FIELDS.items():
            number = value(gpu.get(field, ""))
            if number is not None:
                samples.set(metric, number, **labels)
    set_driver_errors(log, found, simulated, samples)


if __name__ == "__main__":
    sys.exit(run("gpu", collect))
