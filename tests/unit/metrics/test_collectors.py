"""Each collector on outputs of its tools: in order, with faults, and of other releases."""

from __future__ import annotations

import doctest
import importlib
import json
from pathlib import Path

import pytest

from rackwright.checks.cluster.probes import identity
from rackwright.checks.cluster.probes.nvidia_smi import ENDS

from .conftest import Collect, module

SUBJECTS = ("units", "slurm", "gpu", "fabric", "storage")
CAPTURED = Path(__file__).parents[1] / "captured"
NODES = (CAPTURED / "slurm-nodes" / "good.txt").read_text()
QUEUE = "RUNNING|gpu|research|None\nPENDING|gpu,cpu|research|Resources\nPENDING|gpu|research|JobHeldUser\nCOMPLETED|cpu||None\n"
SDIAG = """*******************************************************
sdiag output at Fri Nov 27 10:00:00 2026 (1795773600)
Data since      Fri Nov 27 00:00:00 2026 (1795737600)
*******************************************************
Server thread count:  3
RPC queue enabled:    0
Agent queue size:     2
Agent count:          0
Agent thread count:   0
DBD Agent queue size: 7

Main schedule statistics (microseconds):
\tLast cycle:   144
\tMax cycle:    901
Backfilling stats
\tLast cycle: 9999
"""
SLURM = {"scontrol": NODES, "squeue": QUEUE, "sdiag": SDIAG}


def success(subject: str) -> str:
    return f'rackwright_collector_success{{collector="{subject}"}}'


@pytest.mark.parametrize("subject", SUBJECTS)
def test_examples_in_docstrings(subject: str) -> None:
    assert doctest.testmod(module(subject)).failed == 0


@pytest.mark.parametrize("subject", ["units", "slurm", "gpu", "fabric"])
def test_missing_tool_is_no_success(collect: Collect, subject: str) -> None:
    found = collect(subject, {})
    assert found[success(subject)] == 0
    assert {name.split("{")[0] for name in found} == {"rackwright_collector_success", "rackwright_collector_seconds"}


UNIT = "Id={}\nActiveState={}\nNRestarts={}\n\n"
FAILED_UNITS = (
    "a.service loaded failed failed A\nuser@2001.service loaded failed failed User Manager\n"
    "\u25cf session-3.scope loaded failed failed Session 3\n"
    "systemd-coredump@7-812-0.service loaded failed failed Process Core Dump\n"
)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(UNIT.format("munge.service", "active", 0) + UNIT.format("slurmd.service", "active", 2), (1, 1), id="active"),
        pytest.param(UNIT.format("munge.service", "active", 0) + UNIT.format("slurmd.service", "failed", 5), (1, 0), id="failed"),
        pytest.param(UNIT.format("munge.service", "reloading", 0) + UNIT.format("slurmd.service", "inactive", 0), (1, 0), id="stopped"),
        pytest.param(UNIT.format("munge.service", "activating", 0), (0, 0), id="unit-not-listed"),
        pytest.param("ActiveState=active\nId=munge.service\n\nId=slurmd.service\nActiveState=active\n", (1, 1), id="other-order"),
    ],
)
def test_units(collect: Collect, shown: str, expected: tuple[int, int]) -> None:
    found = collect("units", {"systemctl show": shown, "systemctl list-units": FAILED_UNITS})
    assert found['rackwright_unit_active{name="munge.service"}'] == expected[0]
    assert found['rackwright_unit_active{name="slurmd.service"}'] == expected[1]
    assert found["rackwright_units_failed"] == 1
    assert found['rackwright_certificate_not_after_seconds{name="node_exporter"}'] == 1800000000
    assert found[success("units")] == 1


def test_slurm_in_order(collect: Collect) -> None:
    found = collect("slurm", SLURM)
    assert found[success("slurm")] == 1
    expected = {
        "slurm_nodes": 2,
        "slurm_nodes_idle": 2,
        "slurm_nodes_down": 0,
        "slurm_nodes_noresp": 0,
        'slurm_node_cpus{node="worker0"}': 8,
        'slurm_node_gpus{node="worker1"}': 8,
        'slurm_node_gpus_alloc{node="worker1"}': 0,
        'rackwright_slurm_node_state{node="worker0",state="idle"}': 1,
        'rackwright_slurm_node_state{node="worker0",state="noresp"}': 0,
        "slurm_jobs": 4,
        "slurm_jobs_pending": 2,
        "slurm_jobs_hold": 1,
        "slurm_jobs_running": 1,
        'slurm_partition_jobs_pending{partition="gpu"}': 2,
        'slurm_partition_jobs_pending{partition="cpu"}': 1,
        'slurm_partition_jobs_hold{partition="gpu"}': 1,
        'slurm_partition_nodes_idle{partition="gpu"}': 2,
        'slurm_partition_nodes_idle{partition="cpu"}': 0,
        'slurm_account_jobs_running{account="research"}': 1,
        "slurm_agent_queue_size": 2,
        "slurm_slurmdbd_queue_size": 7,
        "slurm_server_thread_cnt": 3,
        "slurm_schedule_cycle_last": 144,
    }
    assert {name: found.get(name) for name in expected} == expected


NODE = "NodeName=w0 CPUAlloc=4 CPUTot=8 Gres=gpu:h100:8 State={} Partitions=gpu {}CfgTRES=cpu=8,gres/gpu=8 AllocTRES=cpu=4,gres/gpu=4 {}\n"


@pytest.mark.parametrize(
    ("state", "up"),
    [
        pytest.param("IDLE", {"idle"}, id="idle"),
        pytest.param("DOWN*", {"down", "noresp"}, id="not-responding"),
        pytest.param("DOWN*+DRAIN", {"down", "noresp", "drain"}, id="drained-and-lost"),
        pytest.param("IDLE+DRAIN", {"idle", "drain"}, id="drained"),
        pytest.param("MIXED+DRAIN", {"mixed", "drain"}, id="draining"),
        pytest.param("ALLOCATED+COMPLETING", {"alloc", "completing"}, id="completing"),
        pytest.param("DOWN+NOT_RESPONDING", {"down", "noresp"}, id="flag-by-name"),
        pytest.param("MIXED+PLANNED", {"mixed", "planned"}, id="planned"),
        pytest.param("IDLE+MAINTENANCE+RESERVED", {"idle", "maint", "resv"}, id="maintenance"),
        pytest.param("DOWN+INVALID_REG", {"down", "invalid_reg"}, id="invalid-registration"),
        pytest.param("UNKNOWN*", {"unknown", "noresp"}, id="unknown"),
        pytest.param("FUTURE", {"future"}, id="future"),
        pytest.param("MIXED#+CLOUD", {"mixed", "powering_up"}, id="powering-up-before-21.08"),
        pytest.param("IDLE+CLOUD+POWER", {"idle", "powered_down"}, id="powered-down-before-21.08"),
        pytest.param("ALLOCATED@", {"alloc", "reboot_req"}, id="reboot-by-character"),
        pytest.param("IDLE+MAINT+RESERVED", {"idle", "maint", "resv"}, id="maintenance-before-21.08"),
        pytest.param("MIXED+?+DRAIN", {"mixed", "drain"}, id="flag-of-a-newer-controller"),
    ],
)
def test_slurm_node_states(collect: Collect, state: str, up: set[str]) -> None:
    found = collect("slurm", {**SLURM, "scontrol": NODE.format(state, "", "")})
    live = {name.split('state="')[1].rstrip('"}') for name, value in found.items() if "node_state" in name and value}
    assert live == up
    assert {name for name in up if found[f"slurm_nodes_{name}"] != 1} == set()
    assert found['slurm_node_gpus_alloc{node="w0"}'] == 4


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param({"scontrol": ""}, "nodes", id="no-node"),
        pytest.param({"scontrol": "slurm_load_node error: Unable to contact slurm controller"}, "nodes", id="controller-down"),
        pytest.param({"scontrol": NODE.format("?", "", "")}, "state", id="state-unreadable"),
        pytest.param({"squeue": "slurm_load_jobs error: Invalid user id\n"}, "queue", id="queue-unreadable"),
        pytest.param({"sdiag": "status 1"}, "sdiag", id="sdiag-refused"),
    ],
)
def test_slurm_without_answer_writes_no_counts(collect: Collect, answers: dict[str, str], why: str) -> None:
    found = collect("slurm", {**{key: value for key, value in SLURM.items() if not any(key.startswith(one) for one in answers)}, **answers})
    assert found[success("slurm")] == 0, why
    assert "slurm_nodes" not in found


@pytest.mark.parametrize(("state", "idle"), [("IDLE+CLOUD", 1), ("IDLE+DYNAMIC_NORM", 1), ("IDLE+CLOUD+POWERED_DOWN", 0), ("IDLE~", 0)])
def test_slurm_idle_nodes_of_a_partition(collect: Collect, state: str, idle: int) -> None:
    found = collect("slurm", {**SLURM, "scontrol": NODE.format(state, "", "")})
    assert found['slurm_partition_nodes_idle{partition="gpu"}'] == idle


def test_slurm_reason_is_not_read_as_fields(collect: Collect) -> None:
    line = NODE.format("IDLE+DRAIN", "", "Reason=State=IDLE CPUTot=99 AllocTRES=gres/gpu=99 [root@2026-11-27T10:00:00]")
    found = collect("slurm", {**SLURM, "scontrol": line})
    assert found['slurm_node_cpus{node="w0"}'] == 8
    assert found['slurm_node_gpus_alloc{node="w0"}'] == 4
    assert found['rackwright_slurm_node_state{node="w0",state="drain"}'] == 1


def test_slurm_without_jobs_counts_planned_accounts(collect: Collect) -> None:
    found = collect("slurm", {**SLURM, "squeue": ""})
    assert found['slurm_account_jobs_pending{account="research"}'] == 0
    assert found['slurm_partition_jobs_running{partition="cpu"}'] == 0


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


def test_collectors_and_checks_agree() -> None:
    """On exit statuses of nvidia-smi (2 rejects a field), and on units that say nothing about the node."""
    assert set(module("gpu").ENDS) - {2} == set(ENDS)
    assert module("units").OF_USERS.pattern == identity._OF_USERS.pattern


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


LINK = "{} 15 {} 0xa088c20300001301 4x NDR - {} 7 {} 0xfc6a1c0300000700 ( '{}' - '{}' )\n"
CABLES = [
    LINK.format("CA", 1, "SW", 1, "worker0 mlx5_0", "leaf-su1-r0"),
    LINK.format("CA", 1, "SW", 2, "worker1 mlx5_0", "leaf-su1-r0"),
    LINK.format("SW", 9, "SW", 1, "leaf-su1-r0", "spine-01"),
    "SW     7 64 0xfc6a1c0300000700 4x SDR                                    'leaf-su1-r0'\n",
]
MASTER = "sminfo: sm lid 1 sm guid 0xa088c20300001301, activity count 77 priority 0 state 3 SMINFO_MASTER\n"
CLEAN = (CAPTURED / "fabric-errors" / "good.txt").read_text()
FABRIC = {"sminfo": MASTER, "ibnetdiscover": "".join(CABLES), "ibqueryerrors": CLEAN}


def cable(found: dict[str, float], a: str) -> float | None:
    return next((value for name, value in found.items() if name.startswith("rackwright_fabric_cable_up{") and f'a="{a}"' in name), None)


@pytest.mark.parametrize(
    ("links", "up", "unplanned"),
    [
        pytest.param("".join(CABLES), (1, 1, 1), 0, id="as-planned"),
        pytest.param("".join(CABLES[1:]), (0, 1, 1), 0, id="unplugged"),
        pytest.param("".join(CABLES).replace(" 7 1 0x", " 7 3 0x"), (0, 1, 1), 1, id="wrong-port"),
        pytest.param("".join(CABLES).replace("leaf-su1-r0", "MF0;leaf-su1-r0:MQM9700/U1"), (1, 1, 1), 0, id="managed-switch"),
        pytest.param("".join(CABLES).replace(" mlx5_0", ".example.net mlx5_0"), (1, 1, 1), 0, id="names-with-domain"),
        pytest.param("".join(CABLES).replace("\n", "\r\n").replace("\r\n", "\n"), (1, 1, 1), 0, id="carriage-returns"),
    ],
)
def test_fabric_cables(collect: Collect, links: str, up: tuple[int, ...], unplanned: int) -> None:
    links = links.replace(" 7 3 0xfc6a1c0300000700 ( 'leaf-su1-r0' - 'spine-01'", " 7 1 0xfc6a1c0300000700 ( 'leaf-su1-r0' - 'spine-01'")
    found = collect("fabric", {**FABRIC, "ibnetdiscover": links})
    assert (cable(found, "worker0/mlx5_0"), cable(found, "worker1/mlx5_0"), cable(found, "leaf-su1-r0")) == up
    assert found["rackwright_fabric_cables_unplanned"] == unplanned
    assert found[success("fabric")] == 1


def test_fabric_cable_to_unnamed_device_is_left_out(collect: Collect) -> None:
    """A node whose adapters have no name yet is no missing cable; the others are told, and so is a port without a link."""
    unnamed = "".join(CABLES).replace("worker0 mlx5_0", "MT4129 ConnectX7   Mellanox Technologies")
    found = collect("fabric", {**FABRIC, "ibnetdiscover": unnamed})
    assert (cable(found, "worker0/mlx5_0"), cable(found, "worker1/mlx5_0")) == (None, 1)
    assert found["rackwright_fabric_names_match_plan"] == 1


def test_fabric_chips_of_a_switch_are_apart(collect: Collect) -> None:
    """Two chips with one host name both have a port 1: neither is the planned switch, and no cable is up by their sum."""
    chips = "".join(CABLES).replace("'leaf-su1-r0' - 'spine-01'", "'MF0;leaf-su1-r0:CS8500/L01/U2' - 'spine-01'")
    chips = chips.replace("'leaf-su1-r0'", "'MF0;leaf-su1-r0:CS8500/L01/U1'")
    found = collect("fabric", {**FABRIC, "ibnetdiscover": chips})
    assert [cable(found, end) for end in ("worker0/mlx5_0", "worker1/mlx5_0", "leaf-su1-r0")] == [None, None, None]


def test_fabric_with_other_names_has_no_missing_cables(collect: Collect) -> None:
    found = collect("fabric", {**FABRIC, "ibnetdiscover": "".join(CABLES).replace("mlx5_0", "HCA-1")})
    assert found["rackwright_fabric_names_match_plan"] == 0
    assert cable(found, "worker0/mlx5_0") is None


def test_fabric_without_subnet_manager(collect: Collect) -> None:
    found = collect("fabric", {**FABRIC, "sminfo": "ibwarn: [7] mad_rpc: timeout\nsminfo: iberror: failed: query\n"})
    assert found["rackwright_fabric_subnet_manager_up"] == 0
    assert found[success("fabric")] == 1 and cable(found, "worker0/mlx5_0") is None


def test_fabric_counters(collect: Collect) -> None:
    found = collect("fabric", {**FABRIC, "ibqueryerrors": (CAPTURED / "fabric-errors" / "errors.txt").read_text()})
    assert found['infiniband_port_link_downed_total{device="worker1/mlx5_4",port="1"}'] == 3
    assert found['infiniband_port_symbol_error_total{device="leaf-su1-r2",port="1"}'] == 4242
    assert found['infiniband_port_symbol_error_total{device="worker0/mlx5_0",port="1"}'] == 0


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"ibnetdiscover": ""}, id="no-port"),
        pytest.param({"ibqueryerrors": "Query SA failed: Connection timed out; sa call path_query failed\n"}, id="counters-unread"),
        pytest.param({"sminfo": "status 124"}, id="no-answer"),
    ],
)
def test_fabric_without_answer(collect: Collect, answers: dict[str, str]) -> None:
    found = collect("fabric", {**FABRIC, **answers})
    assert found[success("fabric")] == 0 and cable(found, "worker0/mlx5_0") is None


@pytest.mark.parametrize(
    ("mounted", "answer", "expected"),
    [
        pytest.param(True, (1000, 500), (1, 1, 500), id="mounted"),
        pytest.param(True, None, (1, 0, None), id="hangs"),
        pytest.param(False, (1000, 500), (0, None, None), id="not-mounted"),
    ],
)
def test_storage(
    collect: Collect, monkeypatch: pytest.MonkeyPatch, mounted: bool, answer: tuple[int, int] | None, expected: tuple[float | None, ...]
) -> None:
    storage = module("storage")
    monkeypatch.setattr(storage, "mounted", lambda _: {"/mnt/sharedfs"} if mounted else {"/"})
    monkeypatch.setattr(storage, "space", lambda _: answer)
    found = collect("storage", {})
    names = ("rackwright_mount_present", "rackwright_mount_answers", "rackwright_mount_avail_bytes")
    assert tuple(found.get(f'{name}{{mountpoint="/mnt/sharedfs"}}') for name in names) == expected


def test_space_of_a_file_system(tmp_path: Path) -> None:
    size, available = module("storage").space(str(tmp_path))
    assert 0 < available <= size
    assert module("storage").space(str(tmp_path / "none")) is None


def test_hanging_file_system_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stat").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "stat").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(module("storage"), "ANSWER_LIMIT", 0.2)
    assert module("storage").space("/mnt/sharedfs") is None


def test_configuration_of_tests_is_json() -> None:
    from .conftest import NODE as configuration

    assert json.loads(json.dumps(configuration)) == configuration
