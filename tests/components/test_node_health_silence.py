"""A compute node's health check while tools give no answer: what drains the node, and what does not."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from health_check_node import BUDGETS, GPU_WITHOUT_MEMORY, Node
from support.hang import ENDLESS_SECONDS

COUNT = {"check": "gpu.count_matches_plan", "limit": None}
MEMORY = {"check": "gpu.memory_matches_plan", "limit": 0.05}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_hanging_tool_drains_at_the_third_check_in_a_row(node: Node) -> None:
    node.expect([COUNT])
    node.hang()
    assert [node.look().returncode for _ in range(2)] == [3, 3]
    assert node.updates() == []
    assert node.look().returncode == 1
    assert node.updates() == ["State=DRAIN Reason=rackwright: gpu.count_matches_plan: gpus: no answer within 0 s"]
    assert node.look().returncode == 1  # still, and the drain is not repeated
    assert node.updates() == []


def test_an_answer_between_two_timeouts_starts_again(node: Node) -> None:
    node.expect([COUNT])
    for _ in range(3):
        node.tool("nvidia-smi", "#!/bin/sh\nexit 9\n")
        assert [node.look().returncode for _ in range(2)] == [3, 3]
        node.gpus(8)
        assert node.look().returncode == 0
    assert node.updates() == []


def test_tool_of_three_seconds_is_waited_for(node: Node) -> None:
    """Without persistence mode, nvidia-smi starts the driver for each GPU."""
    node.expect([COUNT])
    node.limit_look()
    node.gpus(8)
    smi = node.folder / "bin/nvidia-smi"
    smi.write_text(smi.read_text().replace("#!/bin/sh\n", "#!/bin/sh\nsleep 3\n"))
    assert node.look().returncode == 0


def test_job_waits_two_seconds_for_a_hanging_tool(node: Node) -> None:
    """However often jobs start: a short look counts for nothing."""
    node.expect([COUNT])
    node.tool("nvidia-smi", f"#!/bin/sh\nexec sleep {ENDLESS_SECONDS}\n")
    node.limit_look()
    for _ in range(4):  # They return: `look` waits for half of the tool's duration.
        node.set_clock(node.now + 5)
        assert node.look(name="rackwright-node-health-prolog").returncode == 0
    assert node.updates() == []


def test_job_on_a_slow_node_waits_no_longer_than_slurmd_allows(node: Node) -> None:
    """slurmd reports a hung prolog to the job's user after 8 s, however slow the node is."""
    node.expect([COUNT])
    node.tool("nvidia-smi", f"#!/bin/sh\nexec sleep {ENDLESS_SECONDS}\n")
    long = BUDGETS["LONGEST_BEFORE_JOB = 5.0\n"]
    node.edit(node.folder / "bin/rackwright-node-health-prolog", f"\n{long}", "\nLONGEST_BEFORE_JOB = 0.5\n")
    assert node.look(name="rackwright-node-health-prolog", slowness=15).returncode == 0
    assert node.updates() == []


def test_job_does_not_wait_for_a_check_that_waits(node: Node) -> None:
    node.expect([COUNT])
    node.gpus(7)
    assert node.look().returncode == 1
    node.limit_look()
    node.set_clock(node.now + 60)
    with (node.folder / "run/rackwright-node-health.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert node.look(name="rackwright-node-health-prolog").returncode == 1
        node.record.unlink()
        assert node.look(name="rackwright-node-health-prolog").returncode == 0


@pytest.mark.parametrize("load", ["processors", "memory", "disk", "python"])
def test_overloaded_node_stays_in_service_while_tools_are_silent(node: Node, load: str) -> None:
    """The load may be a job's, for hours: no fault of the GPUs was seen."""
    node.expect([COUNT])
    node.hang()
    if load == "processors":
        node.waited(0.086 * 5.1)
    elif load in ("memory", "disk"):
        node.stalls("io" if load == "disk" else load, 50.0)
    slowness = 15 if load == "python" else 1
    for _ in range(5):
        assert node.look("--now", slowness=slowness).returncode == 3
    assert node.updates() == []
    node.gpus(7)
    assert node.look("--now", slowness=slowness).returncode == 1  # a fault is a fault under any load
    assert len(node.updates()) == 1


def test_ordinary_load_excuses_no_silent_tool(node: Node) -> None:
    node.expect([COUNT])
    node.hang()
    node.waited(0.086 * 4.9)
    node.stalls("memory", 49.9)
    node.stalls("io", 49.9)
    assert [node.look("--now", slowness=14).returncode for _ in range(3)] == [3, 3, 1]


def test_check_of_less_than_30_s_counts_for_nothing(node: Node) -> None:
    """Slurm ends the program after its interval; eight GPUs without persistence mode may need 24 s."""
    node.expect([COUNT])
    node.limit_look()
    node.tool("nvidia-smi", "#!/bin/sh\nexit 9\n")
    node.expects(seconds=39)
    assert [node.look().returncode for _ in range(4)] == [3] * 4
    assert node.updates() == []
    node.expects(seconds=40)
    assert [node.look().returncode for _ in range(3)] == [3, 3, 1]


def test_unknown_format_never_drains(node: Node) -> None:
    """The next driver may print something else, on all nodes at once."""
    node.expect([COUNT])
    node.tool("nvidia-smi", "#!/bin/sh\necho 'GPU 0: H100 (ok)'\n")
    assert [node.look().returncode for _ in range(4)] == [3] * 4
    assert node.updates() == []


@pytest.mark.parametrize("text", ["", "0", "a b c\n", None])
def test_timeout_without_kernel_statistics_drains_as_usual(node: Node, text: str | None) -> None:
    for path in (node.folder / "schedstat", node.folder / "pressure/io"):
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
    node.hang()
    assert [node.look().returncode for _ in range(3)] == [3, 3, 1]


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="this kernel does not count how long programs wait")
def test_schedstat_is_parsed() -> None:
    on, waited, _ = map(int, Path("/proc/thread-self/schedstat").read_text().split())
    assert on > 0 <= waited


def test_answer_without_a_value_lifts_the_drain_of_a_silent_tool(node: Node) -> None:
    node.expect([MEMORY])
    node.tool("nvidia-smi", "#!/bin/sh\nexit 9\n")
    assert [node.look().returncode for _ in range(3)] == [3, 3, 1]
    assert len(node.updates()) == 1
    node.says(GPU_WITHOUT_MEMORY.format(ecc="0"))
    assert node.look().returncode == 3
    assert node.updates() == ["State=RESUME"]


def test_file_system_without_answer_drains(node: Node) -> None:
    """The tool answers, and reports that the mount does not."""
    storage = {"name": "s", "kind": "nfs", "mount": "/mnt/x", "servers": ["s0"], "clients": ["w0"], "folder": None, "mode": "1777"}
    node.expect([{"check": "storage.answers", "limit": None}], storage=[storage])
    probe = node.folder / "usr/local/lib/rackwright/health/rackwright/checks/cluster/test_storage.py"
    node.edit(probe, "    expect(ask(ANSWERING), ", '    from rackwright.checks.cluster.harness.tool_output import MissingAnswer\n\n'
              '    expect({"/mnt/x": MissingAnswer("/mnt/x", "no answer within 6 s")}, ')  # fmt: skip
    assert [node.look().returncode for _ in range(3)] == [3, 3, 1]
    assert node.updates() == ["State=DRAIN Reason=rackwright: storage.answers: /mnt/x: no answer within 6 s"]
