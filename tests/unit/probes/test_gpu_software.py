"""Software of real GPUs: the NVLink fabric of a rack, IMEX, DCGM's health monitor, the driver's libraries."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright import catalog
from rackwright.catalog.compatibility import has_nvlink_rack, has_nvswitch
from rackwright.checks.cluster import test_software
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.nvlink import NVLINKS
from rackwright.checks.cluster.probes.software import DCGM_HEALTH, DRIVER_LIBRARIES, RACK_FABRIC, RACK_UNITS
from rackwright.inventory import features
from rackwright.plan.groups import _has_nvlinks
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
DOMAIN = "5c1e0a77-90d2-4f3b-8b1d-2f6e41c09a35"
GPU = """GPU 000{}:01:00.0
    Product Name : NVIDIA GB200
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 1
        ClusterUUID                       : {}
        Health
            Summary                       : Healthy
            Bandwidth                     : Full
            Route Recovery in progress    : False
            Route Unhealthy               : False
            Access Timeout Recovery       : False
            Incorrect Configuration       : None
"""
RACK = "Attached GPUs : 4\n" + "".join(GPU.format(number, DOMAIN) for number in (8, 9, "A", "B"))
UNIT = "Id=nvidia-imex.service\nLoadState={}\nActiveState={}\nUnitFileState={}\n"
RUNS = UNIT.format("loaded", "active", "enabled")


def rack(text=RACK, unit=RUNS, kind="slurm"):
    """Return verdict and reason of the check of a rack's fabric."""
    node = SimpleNamespace(gpus=SimpleNamespace(count=4))
    cluster = SimpleNamespace(scheduler=SimpleNamespace(kind=kind))
    return verdict_of(
        test_software.test_rack_fabric_is_ready, answers_of({RACK_FABRIC: text, RACK_UNITS: unit}), node=node, cluster=cluster
    )


def test_healthy_rack_passes():
    assert rack()[0] is PASSED


@pytest.mark.parametrize(
    ("old", "new", "verdict", "word"),
    [
        ("State                             : Completed", "State : In Progress", FAILED, "In Progress"),
        ("Status                            : Success", "Status : Insufficient Resources", FAILED, "Insufficient Resources"),
        ("Summary                       : Healthy", "Summary : Limited Capacity", FAILED, "Limited Capacity"),
        ("Summary                       : Healthy", "Summary : Unhealthy", FAILED, "Unhealthy"),
        ("Incorrect Configuration       : None", "Incorrect Configuration : Insufficient Nvlinks", FAILED, "Insufficient Nvlinks"),
        (f"ClusterUUID                       : {DOMAIN}", f"ClusterUUID : {'0' * 8}-0000-0000-0000-{'0' * 12}", FAILED, "domain: none"),
        (f"ClusterUUID                       : {DOMAIN}", "ClusterUUID : ERR!", UNKNOWN, "ClusterUUID"),
        (f"        ClusterUUID                       : {DOMAIN}\n", "", PASSED, ""),
        ("State                             : Completed", "State : N/A", UNKNOWN, "Fabric/State"),
    ],
)
def test_fabric_of_a_rack_is_judged(old, new, verdict, word):
    found = rack(RACK.replace(old, new) if verdict is PASSED else RACK.replace(old, new, 1))
    assert (found[0], word in found[1]) == (verdict, True)


def test_rack_whose_gpus_report_no_fabric_fails():
    assert rack(RACK.replace(": Completed", ": N/A").replace(": Success", ": N/A"))[0] is FAILED


@pytest.mark.parametrize(
    ("unit", "kind", "verdict"),
    [
        (UNIT.format("loaded", "inactive", "enabled"), "slurm", FAILED),
        (UNIT.format("loaded", "failed", "enabled"), "slurm", FAILED),
        (UNIT.format("loaded", "failed", "disabled"), "slurm", FAILED),
        (UNIT.format("not-found", "inactive", ""), "slurm", FAILED),
        (UNIT.format("loaded", "inactive", "disabled"), "slurm", UNKNOWN),
        (UNIT.format("masked", "inactive", "masked"), "kubernetes", PASSED),
        (UNIT.format("not-found", "inactive", ""), "kubernetes", PASSED),
    ],
)
def test_imex_runs_where_slurm_starts_jobs(unit, kind, verdict):
    """In a pod NVIDIA's DRA driver starts it; a prolog may start it with each job."""
    assert rack(unit=unit, kind=kind)[0] is verdict


def test_catalogue_knows_which_gpus_have_switch_trays():
    found = {model for model, gpu in catalog.gpus().items() if has_nvlink_rack(gpu)}
    assert found == {"gb200", "gb300"}


HEAD = "Health Monitor Report\n+---------------------------+----------+\n| Overall Health            | {} |\n"
DOWN = "GPU 0's NvLink link {} is currently down Run a field diagnostic on the GPU."
IMEX = (
    "GPU 0 IMEX daemon status is -3 (not READY) Check IMEX installation, configuration, domain and daemon status, and network connectivity."
)


POWER = "Detected {} due to power violation in GPU 0. Monitor the power conditions. This GPU can still perform workload."
LINK_ERRORS = "Detected {} NvLink errors on GPU 7's NVLink (should be 0) Run a field diagnostic on the GPU."
XID = "Detected XID {} for GPU 4 Please consult the documentation for details of this XID."


def report(word, *texts):
    """Return the table of `dcgmi health --check` with one incident per text, in rows of 30 characters."""
    rows = ""
    for text in texts:
        rows += f"|    -> NVLINK system       | {word:<30} |\n"
        words, line = text.split(" "), ""
        for one in words:
            if len(line) + len(one) > 29:
                rows, line = rows + f"|                           | {line:<30} |\n", ""
            line += f"{one} "
        rows += f"|                           | {line:<30} |\n"
    return f"{HEAD.format(word)}| GPU |  |\n| -> 0 | {word} |\n{rows}+---------------------------+----------+\n"


def dcgm(text, model="h100"):
    node = SimpleNamespace(gpus=SimpleNamespace(model=model))
    return verdict_of(test_software.test_dcgm_health_passes, answers_of({DCGM_HEALTH: text}), node=node)


@each_row(
    ("text", "model", "verdict"),
    [
        (HEAD.format("Healthy"), "h100", PASSED),
        ("| Overall Health:    Healthy                                 |\n", "h100", PASSED),
        ("| Group 1          | Overall Health: Warning                  |\n", "h100", FAILED),
        (HEAD.format("Failure"), "h100", FAILED),
        (report("Failure", " ".join(DOWN.format(link) for link in range(12))), "a100-pcie", PASSED),
        (report("Failure", " ".join(DOWN.format(link) for link in range(18))), "h100", FAILED),
        (report("Failure", DOWN.format(4)), "a100-pcie", FAILED),
        (report("Warning", IMEX), "h100", PASSED),
        (report("Warning", IMEX), "gb300", PASSED),
        (report("Warning", IMEX, "Detected 13 PCIe replays per minute"), "h100", FAILED),
        (report("Failure", XID.format(31)), "h100", PASSED),
        (report("Failure", XID.format(31) + " " + XID.format(79)), "h100", FAILED),
        (report("Failure", XID.format(94)), "h100", FAILED),
        (report("Warning", POWER.format("clocks event")), "l4", PASSED),
        (report("Warning", POWER.format("clock throttling")), "h100", PASSED),
        (report("Warning", POWER.format("clocks event"), POWER.format("clocks event").replace("power", "thermal", 1)), "h100", FAILED),
        (report("Warning", POWER.format("clocks event") + " GPU 0 requires a reset"), "h100", FAILED),
        (report("Failure", LINK_ERRORS.format("1 datalink layer CRC error counter")), "h100", PASSED),
        (report("Failure", LINK_ERRORS.format("3 datalink layer replay error counter")), "h200", PASSED),
        (report("Failure", LINK_ERRORS.format("1 link recovery failed events counter")), "b200", FAILED),
        (
            report("Failure", "812.4 datalink layer CRC NvLink errors found occuring per second on GPU 7, exceeding the limit"),
            "h100",
            FAILED,
        ),
        (report("Warning", IMEX + " GPU 3 has 7 uncorrectable errors"), "h100", FAILED),
        ("no table\n", "h100", UNKNOWN),
    ],
)
def test_dcgm_incidents_are_judged(text, model, verdict):
    """DCGM reports the missing IMEX daemon of a node without rack, and the links of a card without a bridge.

    It also reports GPUs at their power limit (NVIDIA/DCGM issue 285, an L4 in training) and one CRC error since the driver was loaded
    (aws/eks-node-monitoring-agent pull request 261, healthy H100).
    """
    assert dcgm(text, model)[0] is verdict


@pytest.mark.parametrize(("status", "text", "verdict"), [(205, "Failure", FAILED), (0, "Healthy", PASSED), (127, "Healthy", UNKNOWN)])
def test_report_counts_whatever_the_status(status, text, verdict):
    node = SimpleNamespace(gpus=SimpleNamespace(model="h100"))
    raw = CommandOutput(rc=status, out=HEAD.format(text))
    assert verdict_of(test_software.test_dcgm_health_passes, {DCGM_HEALTH: lambda: DCGM_HEALTH.read(raw)}, node=node)[0] is verdict


def test_dcgm_incident_is_quoted():
    assert "13 PCIe replays per minute" in dcgm(report("Warning", "Detected 13 PCIe replays per minute for GPU 0"))[1]


NONE_UP = "NVML: Unable to retrieve NVLink information as all links are inActive\n"
IN_MIG_MODE = "Nvlink queries are not supported for Devices in MIG mode\n"
UP = "".join(f"\t Link {number}: 53.125 GB/s\n" for number in range(18))
NVLINK = "".join(f"GPU {gpu}: NVIDIA B200 (UUID: GPU-{gpu})\n{UP}" for gpu in range(8))
ONE = NVLINK.partition("GPU 3")[0], NVLINK[NVLINK.index("GPU 3") : NVLINK.index("GPU 4")], NVLINK[NVLINK.index("GPU 4") :]


@pytest.mark.parametrize(
    ("text", "verdict", "word"),
    [
        (NVLINK, PASSED, ""),
        (NVLINK.replace("\t", "         "), PASSED, ""),
        (f"{ONE[0]}GPU 3: NVIDIA B200 (UUID: GPU-3)\n{NONE_UP}{ONE[2]}", FAILED, "GPU 3: 0 of 18"),
        (f"{ONE[0]}GPU 3: NVIDIA B200 (UUID: GPU-3)\n{IN_MIG_MODE}{ONE[2]}", UNKNOWN, "in MIG mode"),
        (
            f"{ONE[0]}GPU 3: NVIDIA B200 (UUID: GPU-3)\n{IN_MIG_MODE}{ONE[2]}".replace("Link 4: 53.125 GB/s", "Link 4: <inactive>", 1),
            FAILED,
            "17",
        ),
        ("".join(f"GPU {gpu}: NVIDIA H200 (UUID: GPU-{gpu})\n{IN_MIG_MODE}" for gpu in range(8)), UNKNOWN, "in MIG mode"),
        (NVLINK.rstrip("\n"), UNKNOWN, "GPU 7 link 18"),
        (f"{ONE[0]}GPU 3: NVIDIA B200 (UUID: GPU-3)\n\t {NONE_UP[6:]}{ONE[2]}", FAILED, "GPU 3: 0 of 18"),
        (f"{ONE[0]}{ONE[1].replace('Link 17: 53.125 GB/s', 'Link 17: <inactive>')}{ONE[2]}", FAILED, "GPU 3: 17 of 18"),
        (f"{ONE[0]}{ONE[1].replace('Link 17: 53.125 GB/s', 'Link 17: ERR!')}{ONE[2]}", UNKNOWN, "GPU 3 link 17"),
        (f"{ONE[0]}{ONE[2]}", FAILED, "GPUs that list links: 7"),
        (f"Unable to determine the device handle for GPU3: 0000:4d:00.0: Unknown Error\n{ONE[0]}{ONE[2]}", FAILED, "7"),
        ("".join(f"GPU {gpu}: NVIDIA B200 (UUID: GPU-{gpu})\n{NONE_UP}" for gpu in range(8)), FAILED, "0 of 0"),
        (NONE_UP, UNKNOWN, "listed no links"),
    ],
)
def test_links_to_switches_must_be_up(text, verdict, word):
    node = SimpleNamespace(gpus=SimpleNamespace(count=8))
    found = verdict_of(test_software.test_nvlinks_are_up, answers_of({NVLINKS: text}), node=node)
    assert (found[0], word in found[1]) == (verdict, True)


@pytest.mark.parametrize(
    ("model", "count", "mig", "member"),
    [
        ("h100", 8, False, True),
        ("h100", 4, False, False),
        ("a100", 8, False, True),
        ("a100", 8, True, False),
        ("h100", 8, True, False),
        ("gb200", 4, False, True),
        ("v100", 8, False, False),
        ("h100-nvl", 8, False, False),
    ],
)
def test_links_are_checked_where_all_are_in_use(model, count, mig, member):
    known = catalog.gpus()[model]
    declared = SimpleNamespace(
        model=model, architecture=known.architecture, nvswitch=has_nvswitch(known, count), mig=(("1g.10gb",),) if mig else ()
    )
    assert _has_nvlinks(declared) is member
    assert features._has_nvlinks(vars(declared)) is member


def libraries(text):
    return verdict_of(test_software.test_driver_libraries_load, answers_of({DRIVER_LIBRARIES: text}))


def test_empty_library_fails():
    good = "libcuda.so.1|loads\nlibnvidia-ml.so.1|loads\n"
    assert libraries(good)[0] is PASSED
    verdict, reason = libraries(good.replace("libcuda.so.1|loads", "libcuda.so.1|libcuda.so.1: file too short"))
    assert (verdict, "file too short" in reason) == (FAILED, True)
    assert libraries("libcuda.so.1|loads\n")[0] is FAILED
    assert libraries("libcuda.so.1|loads\nlibnvidia-ml.so.1|lo")[0] is UNKNOWN


def test_command_loads_libraries(tmp_path):
    """An empty file is no library, and one that is missing is named."""
    (tmp_path / "libcuda.so.1").touch()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    ended = subprocess.run(["/bin/sh", "-c", DRIVER_LIBRARIES.command], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    verdict, reason = libraries(ended.stdout)
    assert (verdict, "file too short" in reason, "libnvidia-ml.so.1: cannot open shared object file" in reason) == (FAILED, True, True)
