"""GPUs of AMD: what amd-smi prints in its releases and states, row by row, and what the checks make of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_amd_gpu
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.amd_device_files import AMD_DEVICES, ROCM
from rackwright.checks.cluster.probes.amd_driver_errors import AMD_ERRORS
from rackwright.checks.cluster.probes.amd_gpu import (
    AMD_GPUS,
    AMD_LINKS,
    AMD_METRICS,
    AMD_PAGES,
    AMD_PCI,
    parse_amd_gpus,
    parse_amd_metrics,
)
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).parents[1] / "captured"
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
OUTPUTS = {
    AMD_GPUS: "amd-gpus/good-rocm-7.1",
    AMD_METRICS: "amd-metrics/good-rocm-7.1",
    AMD_PAGES: "amd-pages/good",
    AMD_LINKS: "amd-links/good-rocm-7.1",
    AMD_PCI: "amd-pci/good",
    AMD_DEVICES: "amd-devices/good",
    AMD_ERRORS: "amd-errors/good",
    ROCM: "rocm/good",
}
MI210 = {AMD_GPUS: "amd-gpus/good-rocm-6.0", AMD_METRICS: "amd-metrics/good-mi210-rocm-6.0"}
CHECKS = {name.removeprefix("test_"): check for name, check in vars(test_amd_gpu).items() if name.startswith("test_")}


def captured(name):
    return (CAPTURED / f"{name}.txt").read_text(encoding="utf-8")


def judged(check, changes=(), *, model="mi300x", count=2, product="AMD Instinct MI300X", memory=196608, outputs=OUTPUTS, rc=0):
    """Return verdict and reason of a check after changes `probe, old, new` of healthy outputs; `old` is a text or None for all of it."""
    texts = {probe: captured(name) for probe, name in (OUTPUTS | outputs).items()}
    for probe, old, new in changes:
        assert old is None or old in texts[probe], old
        texts[probe] = new if old is None else texts[probe].replace(old, new, 1)
    answers = {probe: (lambda probe=probe, text=text: probe.read(CommandOutput(out=text, rc=rc))) for probe, text in texts.items()}
    node = SimpleNamespace(gpus=SimpleNamespace(count=count, product=product, memory_mib=memory, model=model))
    cluster = SimpleNamespace(software=SimpleNamespace(rocm=SimpleNamespace(version="7.0.2")))
    return verdict_of(CHECKS[check], answers, node=node, cluster=cluster, limit=0.02)


def without_gpu(probe, number):
    """Return the change that leaves a GPU out of an output."""
    document = json.loads("".join(captured(OUTPUTS[probe]).splitlines(keepends=True)[1:]))
    rows = document["gpu_data"] if isinstance(document, dict) else document
    del rows[number]
    return (probe, None, f"{json.dumps(document, indent=4)}\n")


@pytest.mark.parametrize("check", CHECKS)
def test_healthy_node_passes(check):
    assert judged(check) == (PASSED, "")


@pytest.mark.parametrize("check", sorted(set(CHECKS) - {"xgmi_links_are_up"}))
def test_healthy_node_of_rocm_6_passes(check):
    pci = (AMD_PCI, None, captured("amd-pci/good").replace("0x74a1", "0x740f").replace("SPX|NPS1", "N/A|N/A"))
    assert judged(check, [pci], model="mi210", product="AMD Instinct MI210", memory=65536, outputs=MI210) == (PASSED, "")


@pytest.mark.parametrize("name", ["good-rocm-6.2", "good-rocm-7.1"])
def test_static_is_read_of_each_release(name):
    first, second = parse_amd_gpus(captured(f"amd-gpus/{name}"))
    assert (first.bus, first.device, first.memory_mib, first.pcie_width_max, first.pcie_rate_max) == (
        "0000:05:00.0",
        0x74A1,
        196592,
        16,
        32.0,
    )
    assert (second.label, second.driver) == ("GPU 1", "amdgpu")


def value(probe, name, old, new):
    """Return the change of the first value of this name."""
    return (probe, f'"{name}": {old}', f'"{name}": {new}')


NO_PAGES = '"No bad pages found."'
PAGE = '{\n                "page_address": 4096\n            }'
PARTS = """{
                    "xcp_0": [
                        "NOT ACTIVE",
                        "ACTIVE",
                        "N/A"
                    ]
                }"""
MI210_METRICS = captured("amd-metrics/good-mi210-rocm-6.2")
MI210_TOTALS = captured("amd-metrics/good-mi210-rocm-6.0")
SECOND = "/dev/dri/renderD129|"
FAULTS = {
    "count_matches_plan": [
        ([without_gpu(AMD_GPUS, 1)], FAILED, "1 of 2 GPUs respond; 0000:26:00.0 does not"),
        ([without_gpu(AMD_GPUS, 0)], FAILED, "1 of 2 GPUs respond; 0000:05:00.0 does not"),
        ([without_gpu(AMD_GPUS, 1), (AMD_PCI, "0000:26:00.0|0x74a1|amdgpu|SPX|NPS1|\n", "")], FAILED, "found 1"),
        (
            [(AMD_GPUS, None, "ERROR:root:Drivers not loaded (amdgpu and amd_hsmp drivers not found in modules)\n")],
            FAILED,
            "Drivers not loaded",
        ),
        (
            [(AMD_GPUS, None, 'X: {"error": "Can not find a device: GPU", "code": 196}\n')],
            FAILED,
            "0000:05:00.0, 0000:26:00.0 do not respond",
        ),
        ([(AMD_GPUS, None, "Segmentation fault\n")], UNKNOWN, "Segmentation fault"),
        ([value(AMD_GPUS, "gpu", "1", "ERR!")], UNKNOWN, "ERR!"),
        ([value(AMD_GPUS, "bdf", '"0000:26:00.0"', '"N/A"')], PASSED, ""),
        (
            [(AMD_PCI, "0000:26:00.0|0x74a1|amdgpu|SPX|NPS1|\n", "0000:26:00.0|0x74a1|amdgpu|SPX|NPS1|\n0000:46:00.0|0x74a1||N/A|N/A|\n")],
            FAILED,
            "2 of 3 GPUs respond",
        ),
        ([(AMD_PCI, "/sys/bus/pci/devices\n", "ERR!|0x74a1||\n/sys/bus/pci/devices\n")], UNKNOWN, "ERR!"),
    ],
    "driver_is_bound": [
        ([(AMD_PCI, "26:00.0|0x74a1|amdgpu|", "26:00.0|0x74a1||")], FAILED, "PCI device 0000:26:00.0: none"),
        ([(AMD_PCI, "26:00.0|0x74a1|amdgpu|", "26:00.0|0x74a1|vfio-pci|")], FAILED, "vfio-pci"),
        ([(AMD_PCI, None, "/sys/bus/pci/devices\n")], FAILED, "GPUs on the PCI bus: 0"),
        ([(AMD_PCI, "/sys/bus/pci/devices\n", "")], UNKNOWN, "incomplete"),
        ([(AMD_PCI, "26:00.0|0x74a1|amdgpu|", "26:00.0|0x74a1|?|")], UNKNOWN, "driver"),
        ([(AMD_PCI, "26:00.0|0x74a1|amdgpu|SPX|NPS1|", "26:00.0|0x74a1")], UNKNOWN, "driver"),
    ],
    "partition_mode_matches_plan": [
        (
            [(AMD_PCI, "|SPX|NPS1|", "|CPX|NPS1|")],
            FAILED,
            "expected PCI device 0000:05:00.0 compute mode: SPX, found PCI device 0000:05:00.0 ",
        ),
        ([(AMD_PCI, "|SPX|NPS1|", "|CPX|NPS4|")], FAILED, "0000:05:00.0 memory mode: NPS4"),
        ([(AMD_PCI, "|SPX|NPS1|", "|SPX|NPS2|")], FAILED, "0000:05:00.0 memory mode: NPS2"),
        ([(AMD_PCI, "|SPX|NPS1|", "|UNKNOWN|NPS1|")], UNKNOWN, "UNKNOWN"),
        ([(AMD_PCI, "|SPX|NPS1|", "||NPS1|")], UNKNOWN, "compute"),
        ([(AMD_PCI, "|SPX|NPS1|", "|N/A|N/A|")], UNKNOWN, "N/A"),
        ([(AMD_PCI, "amdgpu|SPX|NPS1|", "amdgpu|")], UNKNOWN, "missing"),
        ([(AMD_PCI, "0x74a1|amdgpu|SPX|NPS1|", "0x74b5|amdgpu|DPX|NPS1|")], PASSED, ""),
        ([(AMD_PCI, None, "/sys/bus/pci/devices\n")], UNKNOWN, "no GPU is on the PCI bus"),
    ],
    "product_matches_plan": [
        ([value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74a5"')], FAILED, "AMD Instinct MI325X"),
        ([value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74a2"'), (AMD_GPUS, "MI300X", "MI308X")], FAILED, "AMD Instinct MI308X"),
        ([value(AMD_GPUS, "market_name", '"AMD Instinct MI300X"', '"Aqua Vanjaram [Instinct MI300X"')], PASSED, ""),
        ([value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74b5"')], PASSED, ""),
        ([value(AMD_GPUS, "device_id", '"0x74a1"', '"N/A"')], UNKNOWN, "N/A"),
    ],
    "memory_matches_plan": [
        ([(AMD_GPUS, "196592", "24560")], FAILED, "24560"),
        ([value(AMD_GPUS, "unit", '"MB"', '"GB"')], UNKNOWN, "GB"),
        ([(AMD_GPUS, "196592", '"N/A"')], UNKNOWN, "N/A"),
    ],
    "no_ecc_errors": [
        ([value(AMD_METRICS, "total_uncorrectable_count", "0", "3")], FAILED, "GPU 0: 3"),
        ([value(AMD_METRICS, "total_uncorrectable_count", "0", '"N/A"')], UNKNOWN, "GPU 0 uncorrectable ECC errors"),
        ([(AMD_METRICS, '"total_uncorrectable_count": 0,\n', "")], UNKNOWN, "total_uncorrectable_count"),
        ([value(AMD_METRICS, "total_uncorrectable_count", "0", "-")], UNKNOWN, '"-"'),
        ([value(AMD_METRICS, "total_deferred_count", "0", "4")], PASSED, ""),
        ([value(AMD_METRICS, "total_correctable_count", "2", "9999")], PASSED, ""),
        ([value(AMD_METRICS, "total_uncorrectable_count", "0", '"ERR!"'), (AMD_GPUS, None, "\n")], UNKNOWN, "ERR!"),
    ],
    "corrected_errors_within_limit": [
        ([value(AMD_METRICS, "correctable_count", "2", "99")], PASSED, ""),
        ([value(AMD_METRICS, "correctable_count", "2", "100")], FAILED, "GPU 0: UMC 100 (limit 100)"),
        ([value(AMD_METRICS, "correctable_count", "0", "57")], FAILED, "GPU 0: GFX 57 (limit 50)"),
        (
            [(AMD_METRICS, '"GFX": {', '"XGMI_WAFL": {'), value(AMD_METRICS, "correctable_count", "0", "12")],
            FAILED,
            "XGMI_WAFL 12 (limit 10)",
        ),
        ([(AMD_METRICS, '"GFX": {', '"SDMA": {'), value(AMD_METRICS, "correctable_count", "0", "5000")], PASSED, ""),
        ([value(AMD_METRICS, "correctable_count", "2", '"N/A"')], PASSED, ""),
        ([value(AMD_METRICS, "correctable_count", "2", '"ERR!"')], UNKNOWN, "ERR!"),
        (
            [(AMD_METRICS, None, MI210_TOTALS.replace('"total_correctable": 0', '"total_correctable": 240', 1))],
            FAILED,
            "total 240 (limit 100)",
        ),
        ([(AMD_METRICS, None, MI210_TOTALS.replace('"total_correctable": 0', '"total_correctable": "N/A"', 1))], UNKNOWN, "N/A"),
        (
            [
                (AMD_METRICS, None, MI210_TOTALS.replace('"total_correctable": 0', '"total_correctable": "N/A"', 1)),
                value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74b5"'),
            ],
            PASSED,
            "",
        ),
    ],
    "no_bad_pages_are_due": [
        ([(AMD_PAGES, None, captured("amd-pages/good-retired"))], PASSED, ""),
        ([value(AMD_PAGES, "pending", NO_PAGES, f"[\n            {PAGE}\n        ]")], FAILED, "GPU 0 pages pending: 1"),
        ([value(AMD_PAGES, "un_res", NO_PAGES, PAGE)], FAILED, "GPU 0 pages in use: 1"),
        ([value(AMD_PAGES, "pending", NO_PAGES, '"N/A"')], UNKNOWN, "GPU 0 pending pages"),
        ([value(AMD_PAGES, "pending", NO_PAGES, "[]")], PASSED, ""),
    ],
    "retired_pages_within_limit": [
        ([value(AMD_GPUS, "bad_page_threshold_exceeded", '"False"', '"True"')], FAILED, "more than the threshold"),
        ([value(AMD_GPUS, "bad_page_threshold_exceeded", '"False"', '"?"')], UNKNOWN, "threshold_exceeded"),
    ],
    "no_driver_errors": [([(AMD_ERRORS, None, captured("amd-errors/failed-reset"))], FAILED, "GPU reset(2) failed")],
    "no_driver_warnings": [([(AMD_ERRORS, None, "amdgpu: RAS poison consumption, client id 27\n")], FAILED, "poison")],
    "pcie_links_are_full": [
        ([value(AMD_METRICS, "width", "16", "8")], FAILED, "GPU 0 lanes: x8 of x16"),
        ([value(AMD_METRICS, "value", "32", "2.5")], FAILED, "GPU 0 rate: 2.5 of 32 GT/s"),
        ([value(AMD_METRICS, "width", "16", '"N/A"')], UNKNOWN, "GPU 0 PCIe link"),
        ([value(AMD_METRICS, "width", "16", "0")], UNKNOWN, "width"),
        ([value(AMD_METRICS, "width", "16", '"N/A"'), value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74b5"')], PASSED, ""),
        ([value(AMD_METRICS, "width", "16", "8"), value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74b5"')], FAILED, "x8"),
    ],
    "xgmi_links_are_up": [
        ([(AMD_LINKS, '"U"', '"D"')], FAILED, "GPU 0 link 1: down"),
        ([(AMD_LINKS, '"U"', '"U/D"')], FAILED, "GPU 0 link 1: down"),
        ([(AMD_LINKS, '"U"', '"U/U"')], PASSED, ""),
        ([(AMD_LINKS, '"U"', '"X"')], FAILED, "GPU 0 link 1: disabled"),
        ([(AMD_LINKS, '"U"', '"N/A"')], UNKNOWN, "GPU 0 link 1"),
        ([(AMD_LINKS, '"U"', '"?"')], UNKNOWN, '"?"'),
        ([(AMD_LINKS, '"U"', '"N/A"'), (AMD_LINKS, '"U"', '"D"')], FAILED, "GPU 1 link 0: down"),
        ([(AMD_LINKS, '"U"', '"N/A"'), value(AMD_GPUS, "device_id", '"0x74a1"', '"0x74b5"')], PASSED, ""),
    ],
    "no_xgmi_errors": [
        ([value(AMD_METRICS, "xgmi_err", '"N/A"', '"AMDSMI_XGMI_STATUS_MULTIPLE_ERRORS"')], FAILED, "MULTIPLE_ERRORS"),
        ([value(AMD_METRICS, "xgmi_err", '"N/A"', '"No errors detected"')], PASSED, ""),
        ([value(AMD_METRICS, "xgmi_err", '"N/A"', '""')], UNKNOWN, "xgmi_err"),
    ],
    "not_throttled": [
        ([value(AMD_METRICS, "socket_thermal_violation_status", '"NOT ACTIVE"', '"ACTIVE"')], FAILED, "heat of the socket"),
        ([value(AMD_METRICS, "prochot_violation_status", '"NOT ACTIVE"', '"True"')], FAILED, "processor hot"),
        ([value(AMD_METRICS, "hbm_thermal_violation_status", '"NOT ACTIVE"', PARTS)], FAILED, "heat of the memory"),
        ([value(AMD_METRICS, "vr_thermal_violation_status", '"NOT ACTIVE"', '"ERR!"')], UNKNOWN, "ERR!"),
        ([(AMD_METRICS, '"vr_thermal_violation_status": "NOT ACTIVE",\n', "")], UNKNOWN, "vr_thermal"),
        ([(AMD_METRICS, None, MI210_METRICS)], PASSED, ""),
        ([(AMD_METRICS, None, MI210_METRICS.replace('"UNTHROTTLED"', '"THROTTLED"', 1))], UNKNOWN, "reason for its lower clock"),
        ([(AMD_METRICS, None, MI210_METRICS.replace('"UNTHROTTLED"', '"N/A"', 1))], UNKNOWN, "reasons for its clock"),
    ],
    "devices_match_plan": [
        ([(AMD_DEVICES, "/dev/kfd|character special file|ea:0|666|render||\n", "")], FAILED, "/dev/kfd: missing"),
        (
            [(AMD_DEVICES, f"{SECOND}character special file|e2:81|666|render|amdgpu|\n", "")],
            FAILED,
            "/dev/dri/renderD129: missing",
        ),
        ([(AMD_DEVICES, "e2:81", "e2:80")], FAILED, "under several names"),
        ([(AMD_DEVICES, "e2:81|666|render", "e2:81|660|render")], PASSED, ""),
        ([(AMD_DEVICES, "e2:81|666|render", "e2:81|660|video")], FAILED, "access 660 of group video"),
        ([(AMD_DEVICES, "e2:81|666|render", "e2:81|600|root")], FAILED, "access 600 of group root"),
        ([(AMD_DEVICES, "e2:80|666|render|amdgpu|", "e2:80|666|render|ast|")], FAILED, "driver ast"),
        ([(AMD_DEVICES, "/dev/kfd|character special file", "/dev/kfd|regular empty file")], FAILED, "regular empty file"),
        ([(AMD_DEVICES, "e2:81|666|render", "e2:81||render")], UNKNOWN, "mode"),
        ([(AMD_DEVICES, SECOND, "ERR!|")], UNKNOWN, "ERR!"),
        ([(AMD_DEVICES, f"{SECOND}character", f"{SECOND}ERR!")], UNKNOWN, "ERR!"),
    ],
    "rocm_matches_plan": [
        ([(ROCM, "7.0.2", "7.0.1")], FAILED, "7.0.1"),
        ([(ROCM, "7.0.2-56", "7.0.2")], PASSED, ""),
        ([(ROCM, "7.0.2-56", "")], UNKNOWN, "no release"),
    ],
}


@each_row(
    ("check", "changes", "verdict", "words"),
    [pytest.param(check, *row, id=f"{check}-{number}") for check, rows in FAULTS.items() for number, row in enumerate(rows)],
)
def test_verdict_follows_from_output(check, changes, verdict, words):
    found = judged(check, changes)
    assert found[0] is verdict, found
    assert words in found[1]


def test_every_check_has_a_fault():
    assert {check for check, rows in FAULTS.items() if any(row[1] is FAILED for row in rows)} == set(CHECKS)


LISTS = {
    "count_matches_plan": AMD_GPUS,
    "product_matches_plan": AMD_GPUS,
    "no_ecc_errors": AMD_METRICS,
    "no_bad_pages_are_due": AMD_PAGES,
    "xgmi_links_are_up": AMD_LINKS,
}


@pytest.mark.parametrize("check", LISTS)
def test_list_that_ends_early_is_unknown(check):
    """The GPUs that are missing in it may have faults."""
    probe = LISTS[check]
    text = captured(OUTPUTS[probe])
    verdict, reason = judged(check, [(probe, None, text[: text.index('"gpu": 1')].rpartition("\n")[0] + "\n")])
    assert verdict is UNKNOWN and "the end of the list" in reason


@pytest.mark.parametrize("check", ["product_matches_plan", "no_ecc_errors", "pcie_links_are_full", "not_throttled", "no_bad_pages_are_due"])
def test_missing_driver_leaves_other_checks_unknown(check):
    failed = "ERROR:root:Driver not loaded (amdgpu not found in modules)\n"
    changes = [(probe, None, failed) for probe in (AMD_GPUS, AMD_METRICS, AMD_PAGES)]
    verdict, reason = judged(check, changes, rc=255)
    assert verdict is UNKNOWN and "Driver not loaded" in reason


def test_missing_tool_is_unknown():
    assert judged("count_matches_plan", rc=127)[0] is UNKNOWN


def test_die_of_mi250_is_a_gpu():
    """Two models have one device id."""
    text = captured("amd-gpus/good-rocm-6.0").replace("0x740f", "0x740c")
    for model in ("mi250", "mi250x"):
        product = {"mi250": "AMD Instinct MI250", "mi250x": "AMD Instinct MI250X"}[model]
        changes = [(AMD_GPUS, None, text)]
        assert judged("product_matches_plan", changes, model=model, product=product) == (PASSED, "")
        assert judged("memory_matches_plan", changes, model=model, memory=65536) == (PASSED, "")
    assert "MI250 or AMD Instinct MI250X" in judged("product_matches_plan", changes)[1]


def links(*states):
    """Return the output for GPUs with these states of their links, with a second table as ROCm 6.4 prints it."""
    rows = [{"gpu": number, "bdf": f"0000:{number:02x}:00.0", "link_status": list(row)} for number, row in enumerate(states)]
    metrics = [{"gpu": row["gpu"], "bdf": row["bdf"], "link_metrics": {"bit_rate": "N/A", "links": []}} for row in rows]
    return f"{json.dumps(metrics, indent=4)}\n{json.dumps(rows, indent=4)}\n"


@pytest.mark.parametrize(
    ("states", "count", "verdict", "words"),
    [
        (["UUUUUUUX"] * 8, 8, PASSED, ""),
        (["UUUUUUUX"] * 7 + ["UUUUUUDX"], 8, FAILED, "GPU 7 link 6: down"),
        (["UUUUUUUX"] * 7 + ["UUUUUUXX"], 8, FAILED, "GPU 7 links: 6 of 7 up"),
        (["UUUXXXXX"] * 4, 4, PASSED, ""),
        ([["U"] * 7 + ["N/A"]] * 8, 8, PASSED, ""),
        ([["N/A"] * 8] * 8, 8, UNKNOWN, "GPU 0 link 0"),
        ([["SELF", "U"], ["U", "SELF"]], 8, FAILED, "GPU 0 links: 1 of 7 up"),
    ],
)
def test_links_are_counted(states, count, verdict, words):
    found = judged("xgmi_links_are_up", [(AMD_LINKS, None, links(*states))], count=count)
    assert found[0] is verdict and words in found[1]


def test_shared_memory_has_any_size():
    assert judged("memory_matches_plan", [(AMD_GPUS, "196592", "97000")], model="mi300a", memory=None) == (PASSED, "")


FORMS = {
    "list": json.dumps,
    "object": lambda rows: json.dumps({"gpu_data": rows}),
    "indented-by-two": lambda rows: json.dumps({"gpu_data": rows}, indent=2),
    "cpus-before": lambda rows: json.dumps({"cpu_data": [{"cpu": 0, "smu": {"FW_VERSION": "85.90.0"}}], "gpu_data": rows}, indent=4),
    "warning-before": lambda rows: f"Fail to open libdrm_amdgpu.so.1: cannot open shared object file\n{json.dumps(rows, indent=4)}",
    "warning-after": lambda rows: f"{json.dumps(rows, indent=4)}\nUnable to cleanly shut down amd-smi-lib",
    "crlf": lambda rows: json.dumps(rows, indent=4).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_document_is_read_in_each_form(form):
    rows = [{"gpu": number, "pcie": {"width": 16, "speed": {"value": 16, "unit": "GT/s"}}} for number in range(16)]
    found = parse_amd_metrics(f"{FORMS[form](rows)}\n")
    assert ([gpu.index for gpu in found], {gpu.pcie_width for gpu in found}, {gpu.pcie_rate for gpu in found}) == (
        [*range(16)],
        {16},
        {16.0},
    )
    assert (found.unsure, found.cut) == ((), None)


@pytest.mark.parametrize("rate", [16, "16", "16 GT/s", {"value": 16, "unit": "GT/s"}, {"value": "16", "unit": "GT/s"}, 16.0])
def test_quantity_is_read_in_each_form(rate):
    (gpu,) = parse_amd_metrics(f"{json.dumps([{'gpu': 0, 'pcie': {'width': 8, 'speed': rate}}], indent=4)}\n")
    assert gpu.pcie_rate == 16.0


@pytest.mark.parametrize(
    "rate", ["16 MT/s", {"value": 16, "unit": "MB/s"}, "ERR!", "", None, True, {"value": "?", "unit": "GT/s"}, -1, 0, [16]]
)
def test_odd_quantity_is_unknown_alone(rate):
    (gpu,) = parse_amd_metrics(f"{json.dumps([{'gpu': 0, 'pcie': {'width': 8, 'speed': rate}}], indent=4)}\n")
    assert isinstance(gpu.pcie_rate, UnreadableValue) and gpu.pcie_width == 8


def test_truncated_list_says_that_it_may_be_incomplete():
    text = captured("amd-gpus/good-rocm-6.2").partition('        "gpu": 1')[0]
    verdict, reason = judged("count_matches_plan", [(AMD_GPUS, None, text), (AMD_PCI, None, "/sys/bus/pci/devices\n")])
    assert verdict is UNKNOWN and "the end of the list" in reason
