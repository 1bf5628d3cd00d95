"""A round to a node that does not respond, or sends invalid output: an end in time, and a reason for every probe.

On a slow node, probes without a result are repeated.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS, try_with_longer_limits

from rackwright.checks.cluster.harness import probe_runner
from rackwright.checks.cluster.harness.probe import PROBES, Probe, ProbeStage
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.cluster.harness.transport import SHELL_STARTED, BoundedSsh, UnitWatch, ask_node, ask_node_in_rounds
from rackwright.inventory.reader import load
from rackwright.processes import start_time
from rackwright.time_limits import MAX_SLOWNESS

from . import standin

QUESTIONS = [("one", "true", 1.0), ("two", "true", 1.0)]
INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


@pytest.fixture(autouse=True)
def usual_speed(monkeypatch):
    """Set the usual speed: the load of this machine must not change the limits."""
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    monkeypatch.setattr("rackwright.checks.cluster.harness.transport.local_slowness", lambda: 1)
    monkeypatch.setattr("rackwright.checks.cluster.harness.transport.ROUND_LIMIT", HANG_SECONDS)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Run a round over an ssh with a given behaviour; one that ends on its own has unlimited time."""

    def _ask(script, seconds=HANG_SECONDS, overhead=0.0):
        monkeypatch.setenv("PATH", standin.install(tmp_path, script))
        monkeypatch.setattr("rackwright.checks.cluster.harness.transport._OVERHEAD", overhead)
        return ask_node(BoundedSsh("worker0", tmp_path / "ssh_config"), QUESTIONS, seconds)

    return _ask


def test_dead_node_is_not_waited_for_as_long_as_long_commands(ask, monkeypatch):
    monkeypatch.setattr("rackwright.checks.cluster.harness.transport.ROUND_LIMIT", 0.1)
    started = time.monotonic()
    found = ask(standin.SILENT, seconds=HANG_SECONDS, overhead=0.1)
    assert time.monotonic() - started < HANG_SECONDS / 2
    assert all("is unreachable: no end after 0 s" in answer.error for answer in found.values())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (standin.UNREACHABLE, "worker0 is unreachable: ssh: connect to host 10.77.0.16 port 22: Connection timed out"),
        (standin.OTHER_KEY, "worker0 presented a host key that is not the pinned one"),
        (standin.NOISE, "worker0 stopped responding: the connection ended"),
        ("echo 'sh: 1: exec: python3: not found' >&2; exit 127", "worker0 has no python3 to run the probes"),
    ],
)
def test_every_probe_has_reason(ask, script, words):
    assert {name: answer.error for name, answer in ask(script).items()} == {"one": words, "two": words}


def test_unresponsive_node_ends_in_time(ask):
    started = time.monotonic()
    found = ask(standin.SILENT, seconds=0.1, overhead=0.1)
    assert time.monotonic() - started < ENDLESS_SECONDS / 2
    assert all("no end after 0 s" in answer.error for answer in found.values())


def test_results_before_broken_connection_count(ask):
    answer = '{"name": "one", "rc": 0, "out": "here", "err": "", "error": "", "seconds": 0.1}'
    found = ask(f"echo '{answer}'; echo 'Connection to worker0 closed by remote host.' >&2; exit 255")
    assert found["one"].out == "here"
    assert found["two"].error == "worker0 stopped responding: Connection to worker0 closed by remote host."


class Master:
    """A process that outlives the client that started it, with the client's output."""

    def __init__(self, folder):
        self.note = folder / "master"
        self.client = f"sleep {ENDLESS_SECONDS} & echo $! > {self.note}; exec sleep {ENDLESS_SECONDS}"

    def lives(self):
        """Return whether it was started and still runs; end it."""
        text = self.note.read_text() if self.note.exists() else ""
        self.note.unlink(missing_ok=True)
        if not text.endswith("\n") or start_time(int(text)) is None:
            return False
        os.kill(int(text), signal.SIGKILL)
        return True


def test_ssh_master_with_open_pipe_does_not_block(ask, tmp_path):
    """A client with a persistent connection passes its output to the master, which for a paused node runs for half a minute more."""
    master = Master(tmp_path)

    def scene(factor):
        found = ask(master.client, seconds=0.2 * factor)
        assert master.lives()
        assert all("no end after" in answer.error for answer in found.values())

    try_with_longer_limits(scene)


def test_plain_command_ends_in_time(tmp_path, monkeypatch):
    master = Master(tmp_path)
    monkeypatch.setenv("PATH", standin.install(tmp_path, master.client))

    def scene(factor):
        with pytest.raises(RuntimeError, match="no end after"):
            BoundedSsh("worker0", tmp_path / "ssh_config", limit=0.2 * factor).run("true")
        assert master.lives()

    try_with_longer_limits(scene)


@pytest.fixture
def slow_node(tmp_path, monkeypatch):
    """Treat this machine as a node that runs one probe at a time."""
    monkeypatch.setenv("PATH", standin.install(tmp_path, standin.HERE))
    monkeypatch.setattr("rackwright.checks.cluster.harness.transport._WORKERS", 1)

    def _ask(*questions, seconds, rounds=3):
        return ask_node_in_rounds(BoundedSsh("worker0", tmp_path / "ssh_config"), questions, seconds, rounds=rounds)

    return _ask


def begin(folder: Path, name: str, then: str = f"sleep {ENDLESS_SECONDS}") -> str:
    """Return a command that writes a line at each start."""
    folder.mkdir(exist_ok=True)
    return f"echo {name} >> {folder}/begun; {then}"


def begin_slowly_once(folder: Path, name: str) -> str:
    """Return the same command, whose first run never ends."""
    return begin(folder, name, f"mkdir {folder}/{name} 2>/dev/null && sleep {ENDLESS_SECONDS}; echo here")


def begun(folder: Path) -> list[str]:
    """Return the started commands, in order; nothing where the machine had no time to begin: then it is tried with longer limits."""
    return (folder / "begun").read_text().split() if (folder / "begun").exists() else []


def test_unstarted_probes_are_repeated(slow_node, tmp_path):
    def scene(factor):
        folder = tmp_path / str(factor)
        questions = [(name, begin_slowly_once(folder, name), HANG_SECONDS) for name in ("one", "two")]
        found = slow_node(*questions, seconds=0.5 * factor)
        assert {name: (answer.out, answer.error) for name, answer in found.items()} == {"one": ("here\n", ""), "two": ("here\n", "")}
        assert begun(folder) == ["one", "one", "two", "two"]

    try_with_longer_limits(scene)


def test_overloaded_node_is_given_up_after_its_rounds(slow_node, tmp_path):
    def scene(factor):
        folder = tmp_path / str(factor)
        found = slow_node(("one", begin(folder, "one"), HANG_SECONDS), ("two", "true", HANG_SECONDS), seconds=0.5 * factor, rounds=2)
        assert begun(folder) == ["one", "one"]
        assert found["one"].error.startswith("one: no answer within ")
        assert found["two"].error == "two: the node had no time left for it"

    try_with_longer_limits(scene)


@pytest.mark.parametrize(("hangs", "rounds", "told"), [("once", 3, "here"), ("always", 3, ""), ("once", 1, "")])
def test_hanging_probe_is_repeated_once(slow_node, tmp_path, hangs, rounds, told):
    def scene(factor):
        folder = tmp_path / str(factor)
        command = begin_slowly_once(folder, "hangs") if hangs == "once" else begin(folder, "hangs")
        questions = (("hangs", command, 0.3 * factor), ("quick", "echo here", HANG_SECONDS))
        found = slow_node(*questions, seconds=HANG_SECONDS, rounds=rounds)
        assert found["hangs"].out.strip() == told
        assert found["hangs"].error.startswith("hangs: no answer within ") is not bool(told)
        assert found["quick"].out == "here\n"
        assert begun(folder) == ["hangs"] * min(rounds, 2)

    try_with_longer_limits(scene)


def test_long_commands_have_time_beside_others_and_are_not_repeated(slow_node, tmp_path, monkeypatch):
    """Each has its whole limit, whatever their number; a shorter one, which comes after them, is not delayed."""

    def scene(factor):
        monkeypatch.setattr("rackwright.checks.cluster.harness.transport.ROUND_LIMIT", 2.0 * factor)
        folder, limit = tmp_path / str(factor), 3.0 * factor
        long = [(name, begin(folder, name), limit) for name in ("long0", "long1", "long2")]
        found = slow_node(("first", "echo here", 1.0 * factor), *long, ("quick", "echo here", 1.0 * factor), seconds=limit)
        assert (found["first"].out, found["quick"].out) == ("here\n", "here\n")
        assert {found[name].error for name, _, _ in long} == {f"{name}: no answer within {limit:.0f} s" for name, _, _ in long}
        assert sorted(begun(folder)) == ["long0", "long1", "long2"]

    try_with_longer_limits(scene)


def late(name: str) -> str:
    """Return the line of a node that had no time for a command."""
    error = f"{name}: the node had no time left for it"
    return json.dumps({"name": name, "rc": 0, "out": "", "err": "", "error": error, "starved_seconds": 8.0, "seconds": 0.0})


@pytest.mark.parametrize(
    ("slowness", "number", "reasons"),
    [
        pytest.param(9, 5, 1, id="slow-node-has-one-reason"),
        pytest.param(9, 3, 3, id="few-commands-keep-theirs"),
        pytest.param(1, 5, 5, id="hanging-commands-keep-theirs"),
    ],
)
def test_commands_without_time_on_slow_node(tmp_path, monkeypatch, slowness, number, reasons):
    names = [f"probe{index}" for index in range(number)]
    said = json.dumps({"name": "good", "rc": 0, "out": "here", "err": "", "error": "", "seconds": 0.1})
    lines = [json.dumps({"begun": True, "slowness": slowness}), *map(late, names), said]
    monkeypatch.setenv("PATH", standin.install(tmp_path, "\n".join(f"echo '{line}'" for line in lines)))
    questions = [(name, "true", HANG_SECONDS) for name in (*names, "good")]
    found = ask_node_in_rounds(BoundedSsh("worker0", tmp_path / "ssh_config"), questions, HANG_SECONDS, rounds=2)
    assert len({found[name].error for name in names}) == reasons and found["good"].out == "here"
    assert found["probe0"].error.startswith("worker0 is slow: " if reasons == 1 else "probe0: the node had no time left")


def test_unstarted_node_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", standin.install(tmp_path, f"echo asked >> {tmp_path}/begun; {standin.UNREACHABLE}"))
    found = ask_node_in_rounds(BoundedSsh("worker0", tmp_path / "ssh_config"), QUESTIONS, HANG_SECONDS, rounds=3)
    assert begun(tmp_path) == ["asked"]
    assert all("unreachable" in answer.error for answer in found.values())


@pytest.mark.parametrize(("stage", "told"), [(ProbeStage.FIRST, "here"), (ProbeStage.JOBS, "")])
def test_run_repeats_probes_but_no_jobs(tmp_path, monkeypatch, stage, told):
    monkeypatch.setenv("PATH", standin.install(tmp_path, standin.HERE))
    monkeypatch.setattr("rackwright.checks.cluster.harness.transport._WORKERS", 1)

    def scene(factor):
        seconds, folder = 0.5 * factor, tmp_path / str(factor)
        monkeypatch.setattr("rackwright.checks.cluster.harness.probe_runner.ROUND_LIMIT", seconds)
        first = [Probe("speaks", on="@entry", command="true", parse=str.strip)] if stage is ProbeStage.JOBS else []
        slow = Probe("slow", on="@entry", command=begin(folder, "slow"), parse=str.strip, timeout=seconds, stage=stage)
        limit = HANG_SECONDS if stage is ProbeStage.FIRST else seconds  # The time of a round of jobs is that of its longest probe.
        after = Probe("after", on="@entry", command="echo here", parse=str.strip, timeout=limit, stage=stage)
        try:
            runner = ProbeRunner(load(INVENTORY), tmp_path / "ssh_config", [*first, slow, after])
            runner.start()
            answer = runner.raw(after, "login0")
        finally:
            for probe in (*first, slow, after):
                del PROBES[probe.name]
        assert (answer.out.strip(), bool(answer.error)) == (told, not told)
        assert begun(folder) == ["slow"] * (2 if told else 1)

    try_with_longer_limits(scene)


@pytest.mark.parametrize(("first", "answered"), [('{"begun": true, "slowness": 9}', True), ('{"begun": true}', False), ("[1, 2]", False)])
def test_run_waits_for_slow_node(ask, first, answered):
    """Its first line has the factor of its limits."""
    answer = '{"name": "one", "rc": 0, "out": "here", "err": "", "error": "", "seconds": 0.1}'

    def scene(factor):
        found = ask(f"echo '{first}'; sleep {0.6 * factor}; echo '{answer}'", seconds=0.1 * factor, overhead=0.1 * factor)
        assert (found["one"].out == "here") is answered

    try_with_longer_limits(scene)


def test_node_that_starts_python_late_is_waited_for(ask):
    """The shell's line says that the node is alive."""
    begun, answer = '{"begun": true, "slowness": 9}', '{"name": "one", "rc": 0, "out": "here", "err": "", "error": "", "seconds": 0.1}'

    def scene(factor):
        late = f"sleep {0.6 * factor}; echo '{begun}'; echo '{answer}'"
        assert ask(f"echo '{SHELL_STARTED}'; {late}", seconds=0.1 * factor, overhead=0.1 * factor)["one"].out == "here"
        assert "is unreachable: no end" in ask(late, seconds=0.1 * factor, overhead=0.1 * factor)["one"].error

    try_with_longer_limits(scene)


def test_node_that_never_starts_python_is_reported(ask, monkeypatch):
    monkeypatch.setattr("rackwright.checks.cluster.harness.transport._PYTHON_START", 0.3)
    answer = ask(f"echo '{SHELL_STARTED}'; {standin.SILENT}", seconds=0.1, overhead=0.1)["one"]
    assert answer.error == "worker0 stopped responding: no end after 0 s: its shell started, Python did not"
    assert answer.timed_out


def test_shell_reports_its_start_before_python(ask, tmp_path):
    found = ask(f'for command; do :; done; sh -c "$command" | tee {tmp_path}/printed')
    assert [answer.error for answer in found.values()] == ["", ""]
    first, second, *_ = (tmp_path / "printed").read_text().splitlines()
    assert first == SHELL_STARTED and json.loads(second)["begun"]


def test_excessive_slowness_is_capped(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", standin.install(tmp_path, """echo '{"begun": true, "slowness": 1e9}'"""))
    backend = BoundedSsh("worker0", tmp_path / "ssh_config")
    ask_node(backend, QUESTIONS, HANG_SECONDS)
    assert HANG_SECONDS * MAX_SLOWNESS <= backend.limit < HANG_SECONDS * (MAX_SLOWNESS + 1)


def test_question_that_a_suspended_daemon_holds_is_not_waited_for(tmp_path, monkeypatch):
    answer = '{"name": "one", "rc": 0, "out": "here", "err": "", "error": "", "seconds": 0.1}'
    script = f"echo asked >> {tmp_path}/begun; echo '{answer}'; exec sleep {ENDLESS_SECONDS}"
    monkeypatch.setenv("PATH", standin.install(tmp_path, script))
    told = {}
    known = UnitWatch(record=told.__setitem__, blocking_unit=lambda name: "slurmctld.service on login0" if name == "two" and told else "")
    started = time.monotonic()
    found = ask_node_in_rounds(BoundedSsh("worker0", tmp_path / "ssh_config"), QUESTIONS, ENDLESS_SECONDS, known=known, rounds=3)
    assert time.monotonic() - started < ENDLESS_SECONDS / 2 and begun(tmp_path) == ["asked"]
    assert (told["one"].out, found["one"].out, found["two"].waits_for) == ("here", "here", "slurmctld.service on login0")
    assert found["two"].error == "two: not completed, because slurmctld.service on login0 is suspended"


def test_speed_of_slow_node_is_measured_again(tmp_path, monkeypatch):
    """A quicker start counts; a node that no longer responds keeps the speed that it had."""
    monkeypatch.setattr(probe_runner, "_PAUSE", 0.0)
    runner = ProbeRunner(load(INVENTORY), tmp_path / "ssh_config", [])
    for seconds, fastest in ((2.5, 2.5), (0.1, 0.1), (None, 0.1), (1.5, 0.1)):
        speed = {"seconds": seconds, "cpu_seconds": 0.02, "load": 4.4, "processors": 1}
        line = json.dumps({"begun": True, "slowness": 9, "speed": speed})
        script = standin.UNREACHABLE if seconds is None else f"echo '{line}'"
        monkeypatch.setenv("PATH", standin.install(tmp_path, script))
        runner.measure_speed("worker0")
        found = runner.speed("worker0")
        assert found is not None and found.seconds == fastest
