"""The smoke run's program: what it reads of sinfo, sbatch and sacct."""

from __future__ import annotations

import pytest

from rackwright.remote.programs import smoke_jobs


@pytest.fixture
def tools(monkeypatch):
    """Return outputs by tool, and the calls that were made."""
    outputs, calls = {}, []

    def run(argv, _limit, _stdin=None):
        calls.append(list(argv))
        return 0, outputs.get(argv[0], ""), ""

    monkeypatch.setattr(smoke_jobs, "run", run)
    monkeypatch.setattr(smoke_jobs.time, "sleep", lambda _: None)
    return outputs, calls


def test_states_are_read_beside_short_lines(tools):
    tools[0]["sinfo"] = "w0 idle none\r\n\nw1\nw2 down* Not responding\n"
    assert smoke_jobs.states(["w0", "w1", "w2"]) == {"w0": "idle none", "w2": "down* Not responding"}


def test_silent_or_rebooting_node_gets_no_job():
    states = {"w0": "idle none", "w1": "idle* Not responding", "w2": "idle~ none", "w3": "idle@ kernel", "w4": "idle$ none"}
    request = {"parts": [{"partition": "gpu", "nodes": ["w0", "w1", "w2", "w3", "w4", "w5"]}]}
    assert smoke_jobs.idle_parts(request, states) == [{"partition": "gpu", "nodes": ["w0", "w2"]}]


def test_job_id_is_read_without_the_cluster(tools, tmp_path):
    outputs, calls = tools
    outputs["sbatch"], outputs["squeue"] = "71;lab\n", "PENDING\n"
    told = smoke_jobs.batch({"partition": "gpu", "nodes": ["w0"]}, str(tmp_path), {"seconds": 0.01})
    assert (told["job"], told["state"]) == ("71", "PENDING")
    assert ["scancel", "71"] in calls


def test_records_are_read_beside_warnings(tools):
    tools[0]["sacct"] = "sacct: warning: slow database\n\n71|COMPLETED|alice|1|cpu=1|0:0\n72|CANCELLED by 2001|alice|1||0:15\n"
    assert [row["State"] for row in smoke_jobs.accounts(["71", "72"], 0)["jobs"]] == ["COMPLETED", "CANCELLED by 2001"]
