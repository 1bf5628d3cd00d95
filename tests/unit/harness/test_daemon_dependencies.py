"""A missing answer is attributed to a daemon only if the daemon is known to be down and the answer is the one that its absence causes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.rows import each_row

from rackwright.catalog.checks import checks
from rackwright.checks.cluster import probes
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.daemon_dependencies import (
    CHECKS,
    ELSEWHERE,
    REQUESTS,
    SuspendedUnits,
    cause_of,
    cause_of_failed_request,
)
from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput
from rackwright.checks.cluster.harness.pytest_plugin import CheckPlugin, verdict_of
from rackwright.checks.cluster.probes.munge import CREDENTIAL
from rackwright.checks.cluster.probes.slurm import CONFIGURATION, PING
from rackwright.checks.cluster.probes.sshd import OFFER
from rackwright.checks.cluster.probes.storage import ROOTS
from rackwright.checks.cluster.probes.units import UNITS
from rackwright.errors import UndeterminedError
from rackwright.report.verdict import SkipReason, Verdict

NO_SOURCE = CommandOutput(
    rc=1, err="scontrol: error: fetch_config: DNS SRV lookup failed\nscontrol: fatal: Could not establish a configuration source\n"
)
NO_FILES = CommandOutput(rc=0, out="")
ON_LOGIN0 = ("role_controller", "role_accounting", "kube_control_plane")
STORAGE = {"kind": "moosefs", "clients": ["worker1"], "servers": ["login0"]}
DECLARED = SimpleNamespace(members=lambda group: ("login0",) if group in ON_LOGIN0 else (), cluster={"storage": [STORAGE]})
REPORTED = {("slurm.node_daemon_runs", "worker1"), ("munge.service_runs", "worker1"), ("slurm.controller_runs", "login0")}
LATE = CommandOutput(error="slurm-ping: no answer within 8 s", starved_seconds=0.0)


def unit(name, state="active", process="S", freezer="running"):
    """Return a block of the answer to the question on units."""
    shown = f"Id={name}\nLoadState=loaded\nActiveState={state}\nUnitFileState=enabled\nFreezerState={freezer}\nMainPID=7\n"
    return f"{shown}ProcessState={process}\n"


class Answers:
    """Answers of worker1, and of login0 to the question on units, as in a run."""

    def __init__(self, state="inactive", login0="", **changed):
        self.raws = {UNITS: CommandOutput(out=unit("slurmd.service", state)), PING: NO_SOURCE, CONFIGURATION: NO_FILES}
        self.raws |= {
            {"units": UNITS, "ping": PING, "files": CONFIGURATION, "credential": CREDENTIAL, "roots": ROOTS, "offer": OFFER}[name]: raw
            for name, raw in changed.items()
        }
        self.login0 = CommandOutput(out=login0) if login0 else CommandOutput(error="login0 is unreachable")

    def raw(self, probe, node):
        if node == "login0":
            assert probe is UNITS
            return self.login0
        assert node == "worker1"
        return self.raws[probe]

    def answer(self, probe, node):
        return probe.read(self.raw(probe, node))


def found(probe, answers, reported=REPORTED):
    with pytest.raises(UndeterminedError):  # no answer at all
        answers.answer(probe, "worker1")
    return cause_of(probe, "worker1", answers, DECLARED, lambda key, node: (key, node) in reported)


@pytest.mark.parametrize("probe", [PING, CONFIGURATION], ids=lambda probe: probe.name)
@pytest.mark.parametrize("state", ["inactive", "failed", "activating"])
def test_missing_configuration_follows_from_stopped_slurmd(probe, state):
    cause = found(probe, Answers(state))
    assert str(cause) == f"slurmd.service is {state} on worker1: slurm.node_daemon_runs[worker1]"
    assert verdict_of(cause, Expect()) == (Verdict.SKIPPED, SkipReason.DAEMON_DOWN)


def test_slow_dns_search_explains_failed_ping():
    assert found(PING, Answers(ping=CommandOutput(error="slurm-ping: no answer within 8 s", starved_seconds=0.0)))


@each_row(
    ("probe", "answers"),
    [
        (PING, Answers("active")),
        (CONFIGURATION, Answers("active")),
        (PING, Answers(ping=CommandOutput(rc=127, err="sh: 1: scontrol: not found"))),
        (PING, Answers(ping=CommandOutput(rc=1, err="scontrol: error: Munge encode failed: Failed to access munge.socket"))),
        (PING, Answers(files=CommandOutput(out=f"{'0' * 64}  /etc/slurm/slurm.conf\n"))),
        (PING, Answers(files=CommandOutput(error="worker1 stopped responding: the connection ended"))),
        (PING, Answers(ping=CommandOutput(error="worker1 is unreachable: Connection timed out"))),
        (CONFIGURATION, Answers(files=CommandOutput(error="worker1 is unreachable: Connection timed out"))),
        (CONFIGURATION, Answers(files=CommandOutput(out=f"{'0' * 64}  /run/slurm/conf/gres.conf\n"))),
        (CONFIGURATION, Answers(files=CommandOutput(rc=127, err="sh: 1: sha256sum: not found"))),
        (PING, Answers(units=CommandOutput(error="units: no answer within 8 s", starved_seconds=0.0))),
        (PING, Answers(units=CommandOutput(out="Id=munge.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"))),
        (PING, Answers("")),
        (PING, Answers("active", unit("slurmctld.service"), ping=LATE)),
        (PING, Answers("active", unit("slurmctld.service", "inactive", process=""), ping=LATE)),
        (PING, Answers("active", unit("slurmctld.service", process="T"), ping=CommandOutput(rc=127, err="sh: 1: scontrol: not found"))),
        (PING, Answers("active", unit("slurmctld.service", process="T"), ping=CommandOutput(error="worker1 stopped responding: no end"))),
        (PING, Answers("active", unit("munge.service", process="T"), ping=LATE)),
        (CONFIGURATION, Answers("active", unit("slurmctld.service", process="T"), files=LATE)),
        (CREDENTIAL, Answers(units=CommandOutput(out=unit("munge.service")), credential=LATE)),
        (CREDENTIAL, Answers(units=CommandOutput(out=unit("munge.service", "inactive", process="")), credential=LATE)),
        (
            CREDENTIAL,
            Answers(units=CommandOutput(out=unit("munge.service", "activating")), credential=CommandOutput(rc=6, err="munge: Error")),
        ),
        (ROOTS, Answers("active", unit("moosefs-master.service"), roots=LATE)),
    ],
)
def test_other_causes_stay_unknown(probe, answers):
    assert found(probe, answers) is None


@pytest.mark.parametrize(
    "raw", [LATE, CommandOutput(error="not asked", waits_for="x"), CommandOutput(rc=1, err="Unable to contact slurm controller")]
)
@pytest.mark.parametrize(
    ("process", "freezer", "words"),
    [("T", "running", "suspended by a signal"), ("t", "running", "by a debugger"), ("S", "frozen", "frozen")],
)
def test_missing_answers_follow_from_suspended_daemons(process, freezer, words, raw):
    raw = replace(raw, rc=2) if raw.rc else raw  # status 1 is a valid answer of `scontrol ping`
    own = Answers(units=CommandOutput(out=unit("munge.service", process=process, freezer=freezer)), credential=raw)
    assert words in str(found(CREDENTIAL, own)) and "munge.service_runs[worker1]" in str(found(CREDENTIAL, own))
    other = Answers("active", unit("slurmctld.service", process=process, freezer=freezer), ping=raw)
    assert str(found(PING, other)).endswith("on login0: slurm.controller_runs[login0]")


def test_missing_answer_follows_from_stopped_daemon():
    own = Answers(
        units=CommandOutput(out=unit("munge.service", "failed", process="")), credential=CommandOutput(rc=6, err="munge: Error: no socket")
    )
    assert str(found(CREDENTIAL, own)) == "munge.service is failed on worker1: munge.service_runs[worker1]"


def test_missing_methods_follow_from_suspended_sshd_only():
    """The other name of its unit is never found, which explains nothing."""
    reported = {("sshd.daemon_responds", "worker1")}
    not_asked = CommandOutput(error="not run", waits_for="ssh.service")
    suspended = Answers(units=CommandOutput(out=unit("ssh.service", process="T")), offer=not_asked)
    assert str(found(OFFER, suspended, reported)) == "ssh.service is suspended by a signal on worker1: sshd.daemon_responds[worker1]"
    one_name = CommandOutput(out=unit("ssh.service") + "\n" + unit("sshd.service", "not-found", process=""))
    assert found(OFFER, Answers(units=one_name, offer=CommandOutput(rc=1, err="exec request failed")), reported) is None


@pytest.mark.parametrize("name", ["munge.service", "slurmctld.service"])
def test_ping_follows_from_daemons_of_the_controller(name):
    reported = {*REPORTED, ("munge.service_runs", "login0")}
    assert f"{name} is suspended by a signal on login0" in str(found(PING, Answers("active", unit(name, process="T"), ping=LATE), reported))


def test_missing_files_follow_from_suspended_metadata_server():
    answers = Answers("active", unit("moosefs-master.service", process="T"), roots=LATE)
    assert str(found(ROOTS, answers, {("storage.servers_run", "login0")})).endswith("on login0: storage.servers_run[login0]")


class TestFailedRequests:
    LATE = UndeterminedError("kubelet: no answer within 2 s")
    REPORTED = {("kubelet.runs", "worker1"), ("control_plane.static_pods_run", "login0")}

    def cause(self, key, error, own, login0=""):
        answers = Answers(login0=login0, units=CommandOutput(out=own))
        return cause_of_failed_request(key, "worker1", error, answers, DECLARED, lambda check, node: (check, node) in self.REPORTED)

    def test_suspended_kubelet_explains_its_time_out(self):
        cause = self.cause("kubelet.healthy", self.LATE, unit("kubelet.service", process="T"))
        assert str(cause) == "kubelet.service is suspended by a signal on worker1: kubelet.runs[worker1]"

    @pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
    def test_suspended_static_pod_explains_time_outs_of_the_api(self, name):
        cause = self.cause("kubernetes.api_reachable", self.LATE, unit("kubelet.service"), unit(f"{name}.pod", process="T"))
        assert str(cause) == f"static pod {name} is suspended by a signal on login0: control_plane.static_pods_run[login0]"

    @pytest.mark.parametrize("failure", ["status 500", "[Errno 104] Connection reset by peer", "TLS: UNEXPECTED_EOF_WHILE_READING"])
    @pytest.mark.parametrize("name", ["etcd", "kube-apiserver"])
    def test_suspended_static_pod_explains_failures_of_the_api(self, name, failure):
        for found, planned in ((failure, "status 200"), ({"10.245.0.1": failure}, {"10.245.0.1": "status 200"}), ({"nodes": failure}, {})):
            with pytest.raises(Mismatch) as differs:
                Expect()(found, planned)
            own, other = unit("kubelet.service"), unit(f"{name}.pod", process="T")
            cause = self.cause("kubernetes.api_reachable", differs.value, own, other)
            assert str(cause) == f"static pod {name} is suspended by a signal on login0: control_plane.static_pods_run[login0]"
            assert self.cause("kubernetes.api_reachable", differs.value, own, unit(f"{name}.pod")) is None

    def test_suspended_static_pod_does_not_explain_a_failure_without_a_value(self):
        with pytest.raises(Mismatch) as differs:
            Expect()({}, {}, holds=False)
        assert self.cause("kubernetes.api_reachable", differs.value, unit("kubelet.service"), unit("etcd.pod", process="T")) is None

    @each_row("found", [{"nodes": "status 500", "secrets": "status 200"}, "status 403", "refused", {"pods": 500}, "TLS: expired"])
    def test_suspended_static_pod_does_not_explain_an_admitted_client(self, found):
        with pytest.raises(Mismatch) as differs:
            Expect()(found, {})
        assert self.cause("kubernetes.api_reachable", differs.value, unit("kubelet.service"), unit("etcd.pod", process="T")) is None

    @pytest.mark.parametrize(
        ("key", "error", "process"),
        [
            ("kubelet.healthy", LATE, "S"),
            ("kubelet.healthy", UndeterminedError("kubelet-answers: the command is not installed: no output"), "T"),
            ("kubelet.disk_space", LATE, "T"),
        ],
        ids=["it runs", "another error", "a check that does not ask it"],
    )
    def test_other_results_stay(self, key, error, process):
        assert self.cause(key, error, unit("kubelet.service", process=process)) is None

    EXPIRED = UndeterminedError("PIDPressure is Unknown (NodeStatusUnknown: Kubelet stopped posting node status.)")

    @pytest.mark.parametrize(("state", "process", "explains"), [("active", "T", True), ("inactive", "", True), ("active", "S", False)])
    def test_kubelet_that_does_not_run_explains_expired_conditions(self, state, process, explains):
        cause = self.cause("kubernetes.no_node_pressure", self.EXPIRED, unit("kubelet.service", state, process=process))
        assert (cause is not None) is explains
        other = UndeterminedError("PIDPressure is not reported")
        assert self.cause("kubernetes.no_node_pressure", other, unit("kubelet.service", state, process=process)) is None

    @pytest.mark.parametrize(("state", "process", "explains"), [("inactive", "", True), ("active", "T", False), ("active", "S", False)])
    def test_stopped_kubelet_explains_refused_connections(self, state, process, explains):
        text = "/api/v1/nodes/worker1/proxy/configz: status 503: dial tcp 10.77.0.20:10250: connect: connection refused"
        error = UndeterminedError(f"the kubelet does not report its configuration: {text}")
        own = unit("kubelet.service", state, process=process)
        assert (self.cause("kubelet.runs_its_configuration", error, own) is not None) is explains
        with pytest.raises(Mismatch) as refused:
            Expect()({"pods": "refused"}, {})
        assert (self.cause("kubelet.anonymous_requests_refused", refused.value, own) is not None) is explains
        with pytest.raises(Mismatch) as admitted:
            Expect()({"pods": "refused", "read-only port": "status 200"}, {})
        assert self.cause("kubelet.anonymous_requests_refused", admitted.value, own) is None

    def test_kubelet_that_no_check_reports_explains_nothing(self):
        answers = Answers(units=CommandOutput(out=unit("kubelet.service", process="T")))
        assert cause_of_failed_request("kubelet.healthy", "worker1", self.LATE, answers, DECLARED, lambda *_: False) is None

    def test_every_check_and_daemon_is_known(self):
        assert set(REQUESTS) <= set(checks())
        assert {unit for units in REQUESTS.values() for unit in units} <= set(CHECKS)


def test_suspended_units_hold_dependent_questions():
    probes.load()
    units = SuspendedUnits(DECLARED)
    units.record("login0", "units", CommandOutput(out=unit("slurmctld.service", process="T") + "\n" + unit("munge.service")))
    assert units.blocking_unit("worker1", "slurm-ping") == units.blocking_unit("login0", "slurm-nodes") == "slurmctld.service on login0"
    assert [units.blocking_unit("worker1", name) for name in ("munge-credential", "slurm-configuration", "not-a-question")] == ["", "", ""]
    units.record("login0", "units", CommandOutput(out=unit("moosefs-master.service", process="T") + "\n" + unit("etcd.pod", process="T")))
    assert (
        units.blocking_unit("worker1", "storage-roots") == units.blocking_unit("worker1", "accounts") == "moosefs-master.service on login0"
    )
    assert (
        units.blocking_unit("login0", "kubernetes-nodes")
        == units.blocking_unit("login0", "kubernetes-audit")
        == "static pod etcd on login0"
    )
    units.record("worker2", "units", CommandOutput(out=unit("containerd.service", process="T")))
    assert units.blocking_unit("worker2", "containerd-images") == "containerd.service on worker2"
    assert units.blocking_unit("worker2", "storage-roots") == ""
    units.record("worker1", "units", CommandOutput(error="worker1 is unreachable"))
    units.record("worker1", "clock", CommandOutput(out=unit("munge.service", process="T")))
    assert units.blocking_unit("worker1", "munge-credential") == ""


def test_every_needed_unit_has_a_check():
    probes.load()
    needed = {unit for probe in PROBES.values() for unit in probe.needs} | {unit for units in ELSEWHERE.values() for unit in units}
    assert needed <= set(CHECKS) and set(CHECKS.values()) <= set(checks())


@pytest.mark.parametrize("reported", [set(), {("slurm.node_daemon_runs", "worker0")}, {("slurm.node_is_usable", "worker1")}])
def test_missing_unit_check_leaves_result_unknown(reported):
    assert found(PING, Answers(), reported) is None


def test_judge_reports_what_the_run_owes():
    check_plan = SimpleNamespace(
        expected={"slurm.node_daemon_runs[worker1]": SimpleNamespace(spec=SimpleNamespace(key="slurm.node_daemon_runs"), node="worker1")},
        not_run=(),
        empty_groups={},
    )
    run = CheckPlugin(None, check_plan, None, None, None, None)
    assert run.reports("slurm.node_daemon_runs", "worker1")
    assert not run.reports("slurm.node_daemon_runs", "worker0") and not run.reports("munge.service_runs", "worker1")
