"""The program in place of PyTorch: ranks that meet over real sockets, and ranks that do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from rackwright.remote import command
from rackwright.remote.programs import job_rendezvous


@pytest.fixture
def port():
    """Return a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def given(rank, port, size=3):
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "RANK": str(rank)}


def test_ranks_meet_also_if_a_worker_comes_first(port, monkeypatch):
    monkeypatch.setattr(job_rendezvous.time, "sleep", lambda _: None)
    found = {}
    threads = [
        threading.Thread(target=lambda rank=rank: found.update({rank: job_rendezvous.run(given(rank, port), 20)})) for rank in (1, 2, 0)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rank: one["met"] for rank, one in found.items()} == {0: ["1", "2"], 1: ["0"], 2: ["0"]}
    assert all(one["complete"] for one in found.values())


def test_worker_without_a_master_has_the_error(port):
    found = job_rendezvous.run(given(1, port), 0)
    assert (found["met"], found["complete"]) == ([], False) and f"127.0.0.1:{port}: " in found["said"] and "refused" in found["said"]


def test_master_without_its_workers_is_incomplete(port):
    found = job_rendezvous.run(given(0, port), 0.2)
    assert (found["met"], found["complete"]) == ([], False)


def test_missing_variables_are_named():
    found = job_rendezvous.run({"RANK": "0", "MASTER_PORT": "1"}, 0)
    assert found["said"] == "the container was not given MASTER_ADDR, WORLD_SIZE" and not found["complete"]


@pytest.mark.parametrize(("size", "code"), [(1, 0), (2, 1)], ids=["complete", "incomplete"])
def test_program_prints_one_document_and_exits_with_its_verdict(port, size, code):
    words = [sys.executable, "-I", "-c", command.source("job_rendezvous"), "0.2"]
    done = subprocess.run(words, env={**os.environ, **given(0, port, size), "PET_NNODES": "2"}, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == code and document["given"] == {**given(0, port, size), "PET_NNODES": "2"}
