"""A round to a node that does not answer, or answers nonsense: an end in time, and a reason for every question.

And to one that is slow: what it had no time for it is asked again.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cluster.harness.gather import Gathering
from cluster.harness.probe import PROBES, Probe, Stage
from cluster.harness.transport import BoundedSsh, ask_node, ask_node_in_rounds
from rackwright.report.declared import load

from . import standin

QUESTIONS = [("one", "true", 1.0), ("two", "true", 1.0)]
INVENTORY = Path(__file__).parents[2] / "golden" / "handover" / "inventory.yml"


@pytest.fixture(autouse=True)
def usual_speed(monkeypatch):
    """What else this machine does now must not change the limits."""
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", "1")
    monkeypatch.setattr("cluster.harness.transport.local_slowness", lambda: 1)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Asks over an ssh that behaves as told."""

    def _ask(script, seconds=0.5):
        monkeypatch.setenv("PATH", standin.install(tmp_path, script))
        monkeypatch.setattr("cluster.harness.transport._OVERHEAD", 0.5)
        return ask_node(BoundedSsh("worker0", tmp_path / "ssh_config"), QUESTIONS, seconds)

    return _ask


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (standin.UNREACHABLE, "worker0 is unreachable: ssh: connect to host 10.77.0.16 port 22: Connection timed out"),
        (standin.OTHER_KEY, "worker0 showed a host key that is not the pinned one"),
        (standin.NOISE, "worker0 stopped answering: the connection ended"),
        ("echo 'sh: 1: exec: python3: not found' >&2; exit 127", "worker0 has no python3 to run the questions"),
    ],
)
def test_every_question_has_a_reason(ask, script, words):
    assert {name: answer.trouble for name, answer in ask(script).items()} == {"one": words, "two": words}


def test_silence_ends(ask):
    started = time.monotonic()
    found = ask(standin.SILENT)
    assert time.monotonic() - started < 10
    assert all("no end after 1 s" in answer.trouble for answer in found.values())


def test_answers_before_a_break_count(ask):
    answer = '{"name": "one", "rc": 0, "out": "here", "err": "", "trouble": "", "seconds": 0.1}'
    found = ask(f"echo '{answer}'; echo 'Connection to worker0 closed by remote host.' >&2; exit 255")
    assert found["one"].out == "here"
    assert found["two"].trouble == "worker0 stopped answering: Connection to worker0 closed by remote host."


def test_a_master_that_holds_the_pipe_holds_up_nobody(ask):
    """A client over a kept connection hands its output to the master; of a paused node that one lives on for half a minute."""
    started = time.monotonic()
    found = ask("sleep 8 & exec sleep 8")
    assert time.monotonic() - started < 5
    assert all("no end after 1 s" in answer.trouble for answer in found.values())


def test_a_plain_command_ends_in_time_as_well(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", standin.install(tmp_path, "sleep 8 & exec sleep 8"))
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="no end after 0 s"):
        BoundedSsh("worker0", tmp_path / "ssh_config", limit=0.5).run("true")
    assert time.monotonic() - started < 5


@pytest.fixture
def slow_node(tmp_path, monkeypatch):
    """Asks this machine as if it were a node, one question at a time."""
    monkeypatch.setenv("PATH", standin.install(tmp_path, standin.HERE))
    monkeypatch.setattr("cluster.harness.transport._HANDS", 1)

    def _ask(*questions, seconds=2.0, rounds=3):
        return ask_node_in_rounds(BoundedSsh("worker0", tmp_path / "ssh_config"), questions, seconds, rounds=rounds)

    return _ask


def slow_once(folder: Path, name: str) -> str:
    """A command that takes a minute the first time; each time it begins leaves a line."""
    return f"echo {name} >> {folder}/begun; mkdir {folder}/{name} 2>/dev/null && sleep 60; echo here"


def test_what_a_node_had_no_time_for_is_asked_again(slow_node, tmp_path):
    found = slow_node(*((name, slow_once(tmp_path, name), 30.0) for name in ("one", "two")))
    assert {name: (answer.out, answer.trouble) for name, answer in found.items()} == {"one": ("here\n", ""), "two": ("here\n", "")}
    assert (tmp_path / "begun").read_text().split() == ["one", "one", "two", "two"]


def test_a_node_that_never_has_time_is_left_after_its_rounds(slow_node, tmp_path):
    found = slow_node(("one", f"echo one >> {tmp_path}/begun; sleep 60", 30.0), ("two", "true", 30.0), rounds=2)
    assert (tmp_path / "begun").read_text().split() == ["one", "one"]
    assert found["one"].trouble == "one: no answer within 2 s"
    assert found["two"].trouble == "two: the node had no time left for it"


@pytest.mark.parametrize(("hangs", "rounds", "told"), [("once", 3, "here"), ("always", 3, ""), ("once", 1, "")])
def test_what_hangs_is_asked_once_more(slow_node, tmp_path, hangs, rounds, told):
    command = slow_once(tmp_path, "hangs") if hangs == "once" else f"echo hangs >> {tmp_path}/begun; sleep 60"
    found = slow_node(("hangs", command, 0.5), ("quick", "echo here", 30.0), seconds=9.0, rounds=rounds)
    assert (found["hangs"].out.strip(), found["hangs"].trouble) == (told, "" if told else "hangs: no answer within 0 s")
    assert found["quick"].out == "here\n"
    assert (tmp_path / "begun").read_text().split() == ["hangs"] * min(rounds, 2)


def test_a_node_that_never_began_is_not_asked_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", standin.install(tmp_path, f"echo asked >> {tmp_path}/begun; {standin.UNREACHABLE}"))
    found = ask_node_in_rounds(BoundedSsh("worker0", tmp_path / "ssh_config"), QUESTIONS, 1.0, rounds=3)
    assert (tmp_path / "begun").read_text().split() == ["asked"]
    assert all("unreachable" in answer.trouble for answer in found.values())


@pytest.mark.parametrize(("stage", "told"), [(Stage.LOOK, "here"), (Stage.JOBS, "")])
def test_a_run_asks_again_what_looks_and_begins_no_job_twice(tmp_path, monkeypatch, stage, told):
    monkeypatch.setenv("PATH", standin.install(tmp_path, standin.HERE))
    monkeypatch.setattr("cluster.harness.gather.ROUND_LIMIT", 2.0)
    monkeypatch.setattr("cluster.harness.transport._HANDS", 1)
    first = [Probe("speaks", on="@entry", command="true", parse=str.strip)] if stage is Stage.JOBS else []
    slow = Probe("slow", on="@entry", command="sleep 60", parse=str.strip, timeout=2.0, stage=stage)
    after = Probe("after", on="@entry", command="echo here", parse=str.strip, timeout=2.0, stage=stage)
    try:
        gathering = Gathering(load(INVENTORY), tmp_path / "ssh_config", [*first, slow, after])
        gathering.start()
        answer = gathering.raw(after, "login0")
    finally:
        for probe in (*first, slow, after):
            del PROBES[probe.name]
    assert (answer.out.strip(), bool(answer.trouble)) == (told, not told)


@pytest.mark.parametrize(("first", "answered"), [('{"begun": true, "slowness": 9}', True), ('{"begun": true}', False), ("[1, 2]", False)])
def test_slow_node_is_waited_for(ask, first, answered):
    """Its first line says how much longer its limits are."""
    answer = '{"name": "one", "rc": 0, "out": "here", "err": "", "trouble": "", "seconds": 0.1}'
    found = ask(f"echo '{first}'; sleep 2; echo '{answer}'", seconds=0.3)
    assert (found["one"].out == "here") is answered


def test_slowness_beyond_reason_is_cut(ask):
    started = time.monotonic()
    ask("""echo '{"begun": true, "slowness": 1e9}'; exec sleep 300""", seconds=0.1)
    assert time.monotonic() - started < 20
