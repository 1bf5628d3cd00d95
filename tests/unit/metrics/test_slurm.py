"""The collector of Slurm on outputs of scontrol, squeue and sdiag: in order, with faults, and of other releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.checks.cluster.probes.slurm_states import STATES, SUFFIXES

from .conftest import Collect, module, success

NODES = (Path(__file__).parents[1] / "captured" / "slurm-nodes" / "good.txt").read_text()
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
        pytest.param("IDLE^+DRAIN", {"idle", "drain"}, id="reboot-issued"),
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
        pytest.param({"squeue": "slurm_load_jobs error: Invalid user id\n"}, "queue", id="queue-unreadable"),
        pytest.param({"sdiag": "status 1"}, "sdiag", id="sdiag-refused"),
    ],
)
def test_slurm_without_answer_writes_no_counts(collect: Collect, answers: dict[str, str], why: str) -> None:
    found = collect("slurm", {**{key: value for key, value in SLURM.items() if not any(key.startswith(one) for one in answers)}, **answers})
    assert found[success("slurm")] == 0, why
    assert "slurm_nodes" not in found


@pytest.mark.parametrize(
    "state",
    ["?", "INVALID+DRAIN", "ERROR", "N/A", "", "idle", "IDL", "+DRAIN", "IDLE+DRA", "IDLE+?", "IDLE&", "DOWN+NEW_FLAG", "IDLE+\ufffd"],
)
def test_unread_state_costs_its_own_node_alone(collect: Collect, state: str) -> None:
    """Also a flag that no release of Slurm has yet: whether the node accepts jobs is unknown."""
    other = NODE.format("DOWN+DRAIN", "", "").replace("w0", "w1")
    found = collect("slurm", {**SLURM, "scontrol": NODE.format(state, "", "") + other})
    assert found[success("slurm")] == 1
    assert [found[f'rackwright_slurm_node_unread{{node="{name}"}}'] for name in ("w0", "w1")] == [1, 0]
    assert found['rackwright_slurm_node_state{node="w1",state="drain"}'] == 1
    assert found['slurm_node_gpus_alloc{node="w0"}'] == 4 and found["slurm_nodes"] == 2 and found["slurm_jobs"] == 4
    assert found['slurm_partition_nodes_idle{partition="gpu"}'] == 0
    idle = found.get('rackwright_slurm_node_state{node="w0",state="idle"}')
    assert idle == (1 if state.startswith("IDLE") else 0 if state.startswith("DOWN") else None)


def test_row_without_a_name_and_damaged_job_are_counted(collect: Collect) -> None:
    row = NODE.format("IDLE", "", "")
    found = collect(
        "slurm", {**SLURM, "scontrol": f"{row}{row.partition(' ')[2]}{row.replace('w0', '')}", "squeue": f"{QUEUE}RUNNING|gp\n"}
    )
    assert found[success("slurm")] == 1 and (found["slurm_nodes"], found["slurm_jobs"]) == (1, 4)
    assert found['rackwright_slurm_rows_unread{command="scontrol"}'] == 2
    assert found['rackwright_slurm_rows_unread{command="squeue"}'] == 1
    assert set(collect("slurm", SLURM).items()) >= {
        (f'rackwright_slurm_rows_unread{{command="{name}"}}', 0.0) for name in ("scontrol", "squeue")
    }


def test_state_in_a_comment_is_not_that_of_the_node(collect: Collect) -> None:
    found = collect("slurm", {**SLURM, "scontrol": NODE.format("DOWN", "Comment=was State=IDLE ", "")})
    assert found['rackwright_slurm_node_state{node="w0",state="down"}'] == 1


def test_states_are_those_of_the_checks() -> None:
    slurm = module("slurm")
    assert slurm.SUFFIXES == SUFFIXES
    known = {*slurm.BASE, *slurm.FLAGS, *slurm.ORIGINS, *slurm.OTHERS}
    assert {slurm.SYNONYMS.get(name, name) for name in STATES} - known == {"ERROR"}  # a base state that Slurm does not use


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
