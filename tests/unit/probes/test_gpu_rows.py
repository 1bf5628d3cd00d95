"""Odd, damaged or missing rows of nvidia-smi: the verdict on each GPU, while all other GPUs are judged as before."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import accepted_gpus, answers_of, verdict_of

from rackwright.checks.cluster import test_gpu
from rackwright.checks.cluster.probes.driver_errors import XIDS
from rackwright.checks.cluster.probes.gpu import GPUS, REPAIRS
from rackwright.checks.cluster.probes.nvidia_smi import lost_gpu
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ROW = "{}, NVIDIA H100 80GB HBM3, 81559, 580.95.05, 0, 1980, 0x0000000000000001, Enabled, 00000000:{}:00.0, No, No, [N/A], 16, 16, 5, 5, P0"
BUSES = ("1A", "2B", "34", "4D", "9E", "AF", "C1", "D2")
ROWS = [ROW.format(index, bus) for index, bus in enumerate(BUSES)]
GOOD = "\n".join(ROWS) + "\n"
REPAIRED = "Attached GPUs : 8\n" + "".join(f"GPU 00000000:{bus}:00.0\n    GPU Recovery Action : None\n" for bus in BUSES)
CHECKS = {
    name.removeprefix("test_"): check
    for name, check in vars(test_gpu).items()
    if name.startswith("test_") and name not in ("test_devices_are_distinct", "test_mig_matches_plan")
}
PLAN = SimpleNamespace(count=8, product="NVIDIA H100 80GB HBM3", memory_mib=81559, driver="580.95.05")


def judged(text=GOOD, repairs=REPAIRED, log="", plan=PLAN):
    """Return verdicts and reasons of all checks on GPUs, without those that pass."""
    answers = answers_of({GPUS: text, REPAIRS: repairs, XIDS: log})
    found = {name: verdict_of(check, answers, node=SimpleNamespace(gpus=plan), limit=0.05) for name, check in CHECKS.items()}
    return {name: told for name, told in found.items() if told[0] is not PASSED}


def verdicts(*args, **more):
    """Return the verdicts of all checks on GPUs, without those that pass."""
    return {name: verdict for name, (verdict, _) in judged(*args, **more).items()}


def changed(number, old, new):
    """Return the good rows with one of them changed."""
    assert old in ROWS[number]
    return "\n".join(row.replace(old, new, 1) if place == number else row for place, row in enumerate(ROWS)) + "\n"


def test_healthy_gpus_pass():
    assert judged() == {}


@each_row("cell", ["[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "", "Fehler", "1.98x", "8,1559e4"])
@each_row(
    ("old", "check"),
    [
        ("81559", "memory_matches_plan"),
        ("580.95.05", "driver_matches_plan"),
        ("1980", "max_clocks_match"),
        ("0x0000000000000001", "not_throttled"),
        ("Enabled", "persistence_mode_enabled"),
    ],
)
def test_only_the_unread_value_is_unknown(old, check, cell):
    """The line is quoted, and every other check still judges all GPUs."""
    found = judged(changed(3, f", {old},", f", {cell},"))
    assert {name: verdict for name, (verdict, _) in found.items()} == {check: UNKNOWN}
    assert "GPU 3" in found[check][1] and f'"{cell}" in the line "3, NVIDIA H100' in found[check][1].replace("is empty in", 'is "" in')


@pytest.mark.parametrize("cell", ["[N/A]", "[Unknown Error]", "ERR!", ""])
def test_counter_missing_on_one_gpu_is_unknown(cell):
    assert verdicts(changed(6, "580.95.05, 0,", f"580.95.05, {cell},")) == {"no_ecc_errors": UNKNOWN}
    assert verdicts(changed(6, "16, 16, 5", f"16, {cell}, 5")) == {"pcie_links_are_full": UNKNOWN}
    assert verdicts(changed(6, "No, No, [N/A]", f"{cell}, No, [N/A]")) == {"no_memory_repair_is_due": UNKNOWN}


def test_counter_missing_on_all_gpus_is_no_fault():
    """A virtual GPU has neither ECC nor lanes nor rows; its highest clock is unknown, and all other values are judged."""
    row = "0, NVIDIA A16-8C, 8192, 580.95.05, [N/A], [N/A], 0x0000000000000000, Enabled, 00000000:02:00.0, [N/A], [N/A], [N/A]"
    plan = SimpleNamespace(count=1, product="NVIDIA A16-8C", memory_mib=8192, driver="580.95.05")
    text = f"{row}, [N/A], [N/A], [N/A], [N/A], [N/A]\n"
    assert verdicts(text, plan=plan) == {"max_clocks_match": UNKNOWN}


GB10 = (
    "0, NVIDIA GB10, {}, 580.95.05, [N/A], 3003, 0x0000000000000000, Enabled, 0000000F:01:00.0, [N/A], [N/A], [N/A], No, No, [N/A], 0, 0\n"
)


@pytest.mark.parametrize(("memory", "verdict"), [("[N/A]", None), ("124610", None), ("[Unknown Error]", UNKNOWN), ("", UNKNOWN)])
def test_gpu_that_shares_the_memory_of_its_cpu(memory, verdict):
    """A GB10 has none of its own; what else nvidia-smi prints in its place is no answer."""
    plan = SimpleNamespace(count=1, product="NVIDIA GB10", memory_mib=None, driver="580.95.05")
    assert judged(GB10.format(memory), plan=plan).get("memory_matches_plan", (None,))[0] is verdict


def test_fault_counts_beside_unread_value():
    blind = changed(3, "580.95.05, 0,", "580.95.05, ERR!,")
    found = judged(blind.replace("5, NVIDIA H100 80GB HBM3, 81559, 580.95.05, 0", "5, NVIDIA H100 80GB HBM3, 81559, 580.95.05, 2"))
    assert found == {"no_ecc_errors": (FAILED, "expected GPU 5: none, found GPU 5: 2")}


@each_row(
    ("line", "where"),
    [
        ("Unable to determine the device handle for GPU2: 0000:34:00.0: Unknown Error", "0000:34:00.0"),
        ("Unable to determine the device handle for GPU 0000:34:00.0: GPU is lost.  Reboot the system to recover this GPU", "0000:34:00.0"),
        ("Unable to determine the device handle for GPU0000:34:00.0: Not Found", "0000:34:00.0"),
        ("Unable to determine the device handle for gpu 00000000:34:00.0: Unknown Error", "00000000:34:00.0"),
        ("Unable to determine the device handle for GPU2: Unknown Error", "GPU 2"),
        ("Unable to detect the device handle for GPU0000:B1:00.0: Unknown Error", "0000:b1:00.0"),
    ],
)
@each_row("place", ["before", "between", "after"])
def test_unresponsive_gpu_is_named_and_others_judged(line, where, place):
    position = {"before": 0, "between": 3, "after": 7}[place]
    rows = [row for row in ROWS if not row.startswith("2,")]
    text = "\n".join([*rows[:position], line, *rows[position:]]) + "\n"
    assert lost_gpu(line) == where
    assert judged(text) == {"count_matches_plan": (FAILED, f"expected 8, found 7 of 8 GPUs respond; {where} does not")}


def test_gpu_with_lost_cells_does_not_respond():
    lost = ", ".join(["2", *["[GPU is lost]"] * 7, "00000000:34:00.0", *["[GPU is lost]"] * 8])
    found = judged("\n".join(lost if row.startswith("2,") else row for row in ROWS) + "\n")
    assert found == {"count_matches_plan": (FAILED, "expected 8, found 7 of 8 GPUs respond; 00000000:34:00.0 does not")}


def test_driver_abort_at_lost_gpu_is_reported():
    found = judged("Unable to determine the device handle for GPU 0000:34:00.0: Unknown Error\n")
    assert found["count_matches_plan"] == (FAILED, "expected 8, found no GPU listed; 0000:34:00.0 does not respond")


def test_localised_number_is_unknown():
    """81.559 MiB may be 81 or 81559."""
    assert verdicts(changed(3, "81559", "81.559")) == {"memory_matches_plan": UNKNOWN}


@pytest.mark.parametrize("warning", ["WARNING: a new driver is available", "Warnung: legacy persistence mode, use a daemon"])
@pytest.mark.parametrize("position", [0, 4, 8])
def test_warning_is_ignored(warning, position):
    assert judged("\n".join([*ROWS[:position], warning, *ROWS[position:]]) + "\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("81559", "81559 MiB").replace("1980", "1980 MHz"),
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        GOOD.replace(", ", ","),
        GOOD.replace("\n", "\n\n"),
    ],
)
def test_line_ends_and_blanks_are_ignored(text):
    assert judged(text) == {}


def test_extra_columns_are_ignored():
    assert judged("".join(f"{row}, 30, [N/A]\n" for row in ROWS)) == {}


def test_titles_define_the_columns():
    titles = (
        "index, name, memory.total [MiB], driver_version, extra, ecc.errors.uncorrected.volatile.total, clocks.max.sm [MHz], "
        "clocks_event_reasons.active, persistence_mode, pci.bus_id, remapped_rows.pending, remapped_rows.failure, retired_pages.pending, "
        "pcie.link.width.current, pcie.link.width.max, pcie.link.gen.current, pcie.link.gen.max, pstate\n"
    )
    assert judged(titles + GOOD.replace("580.95.05, ", "580.95.05, [N/A], ")) == {}


def test_repeated_row_is_one_gpu():
    assert verdicts("\n".join([*ROWS[:7], ROWS[6]]) + "\n") == {"count_matches_plan": FAILED}
    assert judged(GOOD + ROWS[6] + "\n") == {}


def test_conflicting_rows_are_unknown_where_they_differ():
    assert verdicts(GOOD + ROWS[6].replace("1980", "1410") + "\n") == {"max_clocks_match": UNKNOWN}


def test_row_without_index_may_be_a_repetition():
    assert verdicts(changed(4, "4, NVIDIA", "ERR!, NVIDIA")) == {"count_matches_plan": UNKNOWN}
    assert verdicts("\n".join(["ERR!" + ROWS[0][1:], *ROWS[1:7]]) + "\n") == {"count_matches_plan": FAILED}


@pytest.mark.parametrize("end", [len(GOOD) - 60, len(GOOD) - 150, len(GOOD) - 400])
def test_truncated_list_fails_nothing(end):
    assert set(verdicts(GOOD[:end]).values()) == {UNKNOWN}


@pytest.mark.parametrize("position", [0, 4, 8])
def test_corrupted_inforom_is_reported(position):
    line = "WARNING: infoROM is corrupted at gpu 0000:34:00.0"
    found = judged("\n".join([*ROWS[:position], line, line, *ROWS[position:]]) + "\n")
    assert found == {
        "no_memory_repair_is_due": (FAILED, "expected GPU 0000:34:00.0 infoROM: none, found GPU 0000:34:00.0 infoROM: corrupted")
    }
    assert verdicts(f"WARNING: infoROM is corrupted\n{GOOD}") == {"no_memory_repair_is_due": FAILED}


@pytest.mark.parametrize(
    "text",
    [
        "No devices were found\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n",
        "Failed to initialize NVML: Driver Not Loaded\n",
        "Failed to initialize NVML: Unknown Error\n",
        "GPU access blocked by the operating system\nFailed to properly shut down NVML\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the driver is installed.\n\n",
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the driver is properly installed.\n",
    ],
)
def test_driver_without_gpus_fails_the_count(text):
    """No program can use a GPU of the node: that is a fault, and does not describe the state of the GPUs."""
    found = judged(text, repairs=text)
    verdict, reason = found.pop("count_matches_plan")
    assert verdict is FAILED
    assert text.splitlines()[0][:40] in reason or text.startswith("No devices")
    assert {verdict for verdict, _ in found.values()} == {UNKNOWN}
    assert set(found) == set(CHECKS) - {"count_matches_plan", "no_xid_errors", "no_xid_warnings", "no_nvswitch_errors"}
    assert accepted_gpus(text)["count_matches_plan"][0] is FAILED


def test_failed_driver_beside_rows_fails_the_count():
    assert verdicts("\n".join([*ROWS[:7], "Failed to initialize NVML: Unknown Error"]) + "\n") == {"count_matches_plan": FAILED}


@pytest.mark.parametrize("text", ["", "\n", "Failed to initialize NVML: Insufficient Permissions\n", "\x00\x00"])
def test_output_without_gpus_is_unknown(text):
    assert set(verdicts(text, repairs=text).values()) == {UNKNOWN}


OLD_SMI = """#!/bin/sh
echo "$*" >> {folder}/asked
case "$*" in
  *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
  *retired_pages*) echo 'Field "retired_pages.pending" is not a valid field to query.'; exit 2;;
  *driver_version*) echo 'Field "driver_version" is not a valid field to query.'; exit 2;;
  *gen.current*) echo 'Field "pcie.link.gen.current" is not a valid field to query.'; exit 2;;
esac
for each in "$@"; do case $each in --query-gpu=*) titles=${{each#--query-gpu=}};; esac; done
case "$*" in *noheader*) ;; *) echo "$titles" | sed 's/,/, /g; s/memory.total/memory.total [MiB]/';; esac
for n in 0 1 2 3 4 5 6 7; do cat {folder}/row | sed "s/^N/$n/"; done
"""


@pytest.mark.parametrize(
    "rejects", [(), ("clocks_event_reasons",), ("clocks_event_reasons", "retired_pages"), ("driver_version", "gen.current")]
)
def test_field_that_the_driver_does_not_know_is_left_out(tmp_path, rejects):
    """Fields come and go with releases of the driver: one that is rejected makes its own value unknown only."""
    script = "\n".join(line for line in OLD_SMI.splitlines() if ") echo 'Field" not in line or any(name in line for name in rejects))
    (tmp_path / "nvidia-smi").write_text(script.format(folder=tmp_path))
    (tmp_path / "nvidia-smi").chmod(0o755)
    row = ROWS[0].replace("0,", "N,", 1).replace("1A", "1N")
    (tmp_path / "row").write_text(f"{row.replace(', [N/A],', ',') if 'retired_pages' in rejects else row}\n")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(["/bin/sh", "-c", GPUS.command], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert len((tmp_path / "asked").read_text().splitlines()) == (1 if not rejects else 2 + len(rejects))
    assert verdicts(ended.stdout) == ({"no_memory_repair_is_due": UNKNOWN} if "retired_pages" in rejects else {})


def test_query_ends_where_the_driver_rejects_any_field(tmp_path):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'Field \"x\" is not a valid field to query.'; exit 2\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["/bin/sh", "-c", GPUS.command], env=environment, capture_output=True, check=False).returncode == 2


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("No, No, [N/A]", "Yes, No, [N/A]", "no_memory_repair_is_due"),
        ("No, No, [N/A]", "No, Yes, [N/A]", "no_memory_repair_is_due"),
        ("No, No, [N/A]", "No, No, Yes", "no_memory_repair_is_due"),
        ("16, 16, 5, 5", "8, 16, 5, 5", "pcie_links_are_full"),
        ("16, 16, 5, 5", "16, 16, 1, 5", "pcie_links_are_full"),
        ("0x0000000000000001", "0x0000000000000040", "not_throttled"),
        ("0x0000000000000001", "0x0000000000000080", "not_throttled"),
        ("0x0000000000000001", "0x0000000000000020", "not_throttled"),
        ("81559, 580", "81559, [GPU requires reset]", None),
    ],
)
def test_gpu_faults_are_reported(old, new, check):
    found = judged(changed(5, old, new) if check else changed(5, "1980", "[GPU requires reset]"))
    if check:
        assert {name: verdict for name, (verdict, _) in found.items()} == {check: FAILED}
        assert "GPU 5" in found[check][1]
    else:
        assert found["no_reset_is_due"] == (FAILED, "expected GPU 5: none, found GPU 5: Reset")


def test_rate_of_idle_link_is_no_fault():
    """Below performance state P0 the driver lowers the rate."""
    assert judged(changed(5, "16, 16, 5, 5, P0", "16, 16, 1, 5, P8")) == {}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("Action : None", "Action : Reset", FAILED),
        ("Action : None", "Action : Drain and Reset", FAILED),
        ("Action : None", "Action : [Unknown Error]", UNKNOWN),
        ("GPU Recovery Action : None\n", "Fan Speed : N/A\n", UNKNOWN),
        ("GPU Recovery Action : None", "GPU Reset Status\n        Reset Required : Yes", FAILED),
        ("GPU Recovery Action : None", "GPU Reset Status\n        Reset Required : No", PASSED),
        ("GPU Recovery Action : None", "GPU Reset Status\n        Reset Required : ERR!", UNKNOWN),
    ],
)
def test_required_reset_is_reported(old, new, verdict):
    """Row `GPU Recovery Action` of drivers 560 and later, section `GPU Reset Status` of older ones."""
    found = verdicts(repairs=REPAIRED.replace(old, new, 1))
    assert found == ({} if verdict is PASSED else {"no_reset_is_due": verdict})


SXID = "nvidia-nvswitch2: SXid (PCI:0000:8a:00.0): {}, Link 7 simulated\n"


def test_nvswitch_errors_are_reported():
    """A fatal error ends jobs; a non-fatal one is reported, and drains no node."""
    assert verdicts(log=SXID.format("20009, Non-fatal")) == {"no_nvswitch_errors": FAILED}
    found = judged(log=SXID.format("23001, Fatal") + "usb 1-1: new device\n")
    assert {name: verdict for name, (verdict, _) in found.items()} == {"no_nvswitch_errors": FAILED, "no_xid_errors": FAILED}
    assert "SXid (PCI:0000:8a:00.0): 23001, Fatal, Link 7" in found["no_xid_errors"][1]
    assert verdicts(log="NVRM: Xid (PCI:0000:1a:00): 79, pid=7, GPU has fallen off the bus.\n") == {"no_xid_errors": FAILED}
    assert verdicts(log="NVRM: Xid (PCI:0000:1a:00): 31, pid=7, name=python\n") == {}
