"""A missing answer follows from a daemon only if the daemon is known to be down and the answer is the one that its absence causes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cluster.harness.compare import Expect
from cluster.harness.judge import Judge, judge
from cluster.harness.probe import Raw
from cluster.probes.causes import cause_of
from cluster.probes.slurm import CONFIGURATION, PING
from cluster.probes.units import UNITS
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason, Verdict

NO_SOURCE = Raw(
    rc=1, err="scontrol: error: fetch_config: DNS SRV lookup failed\nscontrol: fatal: Could not establish a configuration source\n"
)
NO_FILES = Raw(rc=0, out="")
REPORTED = {("slurm.node_daemon_runs", "worker1")}


class Answers:
    """Answers of worker1 as a run has them."""

    def __init__(self, state="inactive", **changed):
        units = f"Id=slurmd.service\nLoadState=loaded\nActiveState={state}\nUnitFileState=enabled\n"
        self.raws = {UNITS: Raw(out=units), PING: NO_SOURCE, CONFIGURATION: NO_FILES}
        self.raws |= {{"units": UNITS, "ping": PING, "files": CONFIGURATION}[name]: raw for name, raw in changed.items()}

    def raw(self, probe, node):
        assert node == "worker1"
        return self.raws[probe]

    def answer(self, probe, node):
        return probe.read(self.raw(probe, node))


def found(probe, answers, reported=REPORTED):
    with pytest.raises(UndeterminedError):  # without an answer in the first place
        answers.answer(probe, "worker1")
    return cause_of(probe, "worker1", answers, lambda key, node: (key, node) in reported)


@pytest.mark.parametrize("probe", [PING, CONFIGURATION], ids=lambda probe: probe.name)
@pytest.mark.parametrize("state", ["inactive", "failed", "activating"])
def test_missing_configuration_follows_from_stopped_slurmd(probe, state):
    cause = found(probe, Answers(state))
    assert str(cause) == f"slurmd.service is {state} on worker1, which slurm.node_daemon_runs reports"
    assert judge(cause, Expect()) == (Verdict.SKIPPED, SkipReason.DAEMON_DOWN)


def test_ping_that_searches_dns_too_long_follows():
    assert found(PING, Answers(ping=Raw(trouble="slurm-ping: no answer within 8 s", lacked=0.0)))


@pytest.mark.parametrize(
    ("probe", "answers"),
    [
        (PING, Answers("active")),
        (CONFIGURATION, Answers("active")),
        (PING, Answers(ping=Raw(rc=127, err="sh: 1: scontrol: not found"))),
        (PING, Answers(ping=Raw(rc=1, err="scontrol: error: Munge encode failed: Failed to access munge.socket"))),
        (PING, Answers(files=Raw(out=f"{'0' * 64}  /etc/slurm/slurm.conf\n"))),
        (PING, Answers(files=Raw(trouble="worker1 stopped answering: the connection ended"))),
        (PING, Answers(ping=Raw(trouble="worker1 is unreachable: Connection timed out"))),
        (CONFIGURATION, Answers(files=Raw(trouble="worker1 is unreachable: Connection timed out"))),
        (CONFIGURATION, Answers(files=Raw(out=f"{'0' * 64}  /run/slurm/conf/gres.conf\n"))),
        (CONFIGURATION, Answers(files=Raw(rc=127, err="sh: 1: sha256sum: not found"))),
        (PING, Answers(units=Raw(trouble="units: no answer within 8 s", lacked=0.0))),
        (PING, Answers(units=Raw(out="Id=munge.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"))),
        (PING, Answers("")),
    ],
)
def test_other_causes_stay_unknown(probe, answers):
    assert found(probe, answers) is None


@pytest.mark.parametrize("reported", [set(), {("slurm.node_daemon_runs", "worker0")}, {("slurm.node_is_usable", "worker1")}])
def test_without_the_check_that_names_it_it_stays_unknown(reported):
    assert found(PING, Answers(), reported) is None


def test_judge_reports_what_the_run_owes():
    owed = SimpleNamespace(
        expected={"slurm.node_daemon_runs[worker1]": SimpleNamespace(spec=SimpleNamespace(key="slurm.node_daemon_runs"), node="worker1")},
        not_run=(),
        empty_groups={},
    )
    run = Judge(None, owed, None, None, None, None)
    assert run.reports("slurm.node_daemon_runs", "worker1")
    assert not run.reports("slurm.node_daemon_runs", "worker0") and not run.reports("munge.service_runs", "worker1")
