"""A round to a node that does not answer, or answers nonsense: an end in time, and a reason for every question."""

from __future__ import annotations

import time

import pytest

from cluster.harness.transport import BoundedSsh, ask_node

from . import standin

QUESTIONS = [("one", "true", 1.0), ("two", "true", 1.0)]


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
