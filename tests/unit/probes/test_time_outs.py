"""A time-out is unknown and names the operation and the seconds; a refusal, an error and a wrong answer fail."""

from __future__ import annotations

import errno
import json
import os
import runpy
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import (
    test_access,
    test_control_plane,
    test_etcd,
    test_firewall,
    test_kubelet,
    test_kubernetes,
    test_munge,
    test_node,
    test_storage,
)
from rackwright.checks.cluster.harness import external_probes
from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.cluster.harness.tool_output import MissingAnswer, UnreadableValue, answer_of
from rackwright.checks.cluster.probes import gpu, mig, nvlink, software
from rackwright.checks.cluster.probes.access import FROM_MACHINE, PUBLISHED
from rackwright.checks.cluster.probes.control import ETCD
from rackwright.checks.cluster.probes.firewall import METADATA_SERVICE
from rackwright.checks.cluster.probes.identity import _LOOK_UP, RESOLVED, SYSTEM
from rackwright.checks.cluster.probes.kubelet import ANSWERS
from rackwright.checks.cluster.probes.kubernetes import HEALTH
from rackwright.checks.cluster.probes.munge import DECODED
from rackwright.checks.cluster.probes.storage import ANSWERING
from rackwright.checks.hardware.commands import HARDWARE_PROBES
from rackwright.errors import UndeterminedError
from rackwright.remote.programs import control_plane, kubernetes_api, tcp_banners
from rackwright.remote.programs import kubelet as kubelet_program
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
LATE = "no answer within 6 s"
PROGRAMS = Path(kubernetes_api.__file__).parent
CAPTURED = Path(__file__).parents[1] / "captured"
CLUSTER = SimpleNamespace(
    scheduler=SimpleNamespace(services="10.208.0.0/16", controllers=["login0"], scheduler=None),
    hosts=[SimpleNamespace(name="w0", address="10.0.0.1")],
    storage=[SimpleNamespace(mount="/home", clients=["w0"])],
    access=SimpleNamespace(jump_hosts=["login0"]),
)
NODE = SimpleNamespace(name="w0")


def said(check, texts, **given):
    """Return the verdict and reason of a check on texts of probes."""
    return verdict_of(check, answers_of(texts), node=NODE, cluster=CLUSTER, **given)


@pytest.mark.parametrize(
    "words",
    [
        "no answer within 2 s",
        "dial tcp 10.0.0.1:10250: i/o timeout",
        "context deadline exceeded",
        "Connection timed out",
        "Failed to receive message header: Timed-out",
        "fork: Resource temporarily unavailable",
        "can't start new thread",
        "[Errno 24] Too many open files",
        "[Errno 105] No buffer space available",
        "Cannot allocate memory",
    ],
)
def test_output_without_answer_is_unknown(words):
    with pytest.raises(UndeterminedError, match="API: "):
        bool(answer_of("API", words))


@pytest.mark.parametrize(
    "words",
    ["refused", "status 500: timeout", "status 504: Gateway Timeout", "No route to host", "Connection reset by peer", "task 0: Killed"],
)
def test_refusals_and_errors_are_answers(words):
    assert answer_of("API", words) == words


GOOD_ANSWERS = json.loads((CAPTURED / "kubelet-answers" / "good.txt").read_text(encoding="utf-8"))
ASKED = {
    "kubelet": test_kubelet.test_healthy,
    "endpoint": test_kubernetes.test_api_reachable,
    "service": test_kubernetes.test_services_reachable,
    "name inside": test_kubernetes.test_names_resolve,
    "name of nothing": test_kubernetes.test_names_resolve,
    "read-only port": test_kubelet.test_anonymous_requests_refused,
    "anonymous request to the kubelet for pods": test_kubelet.test_anonymous_requests_refused,
    "anonymous request to the API for nodes": test_control_plane.test_anonymous_requests_refused,
}


@each_row("asked", ASKED)
class TestKubernetesAnswers:
    def test_time_out_is_unknown_and_names_seconds(self, asked):
        verdict, reason = said(ASKED[asked], {ANSWERS: json.dumps({**GOOD_ANSWERS, asked: LATE})})
        assert (verdict, LATE in reason, asked in reason) == (UNKNOWN, True, True)

    @each_row("words", ["status 200 of another", "status 500", "No route to host"])
    def test_wrong_answer_fails(self, asked, words):
        assert said(ASKED[asked], {ANSWERS: json.dumps({**GOOD_ANSWERS, asked: words})})[0] is FAILED

    def test_unchanged_answer_passes(self, asked):
        assert said(ASKED[asked], {ANSWERS: json.dumps(GOOD_ANSWERS)})[0] is PASSED


@pytest.mark.parametrize("late", ["anonymous request to the kubelet for its configuration", "read-only port"])
def test_admission_beside_time_out_fails(late):
    found = {**GOOD_ANSWERS, late: LATE, "anonymous request to the kubelet for pods": "status 200"}
    assert said(test_kubelet.test_anonymous_requests_refused, {ANSWERS: json.dumps(found)})[0] is FAILED


def test_unresponsive_name_server_differs_from_refusing_one(monkeypatch):
    monkeypatch.setattr(kubelet_program, "PATIENCE", 0.1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        assert kubelet_program.resolve("127.0.0.1", "a.b", port) == "no answer within 0.1 s"
    assert kubelet_program.resolve("127.0.0.1", "a.b", port) == "refused"


class TestApiServer:
    def test_error_without_components_is_not_ready(self):
        found = kubernetes_api.health(SimpleNamespace(ask=lambda _: (403, '{"message": "forbidden"}')), ())
        assert said(test_control_plane.test_api_is_ready, {HEALTH: json.dumps(found)})[0] is FAILED

    def test_component_states_are_reported(self):
        assert kubernetes_api.health(SimpleNamespace(ask=lambda _: (500, "[+]ping ok\n[-]etcd failed")), ()) == "[+]ping ok\n[-]etcd failed"


GOOD_ETCD = json.loads((CAPTURED / "etcd" / "good.txt").read_text(encoding="utf-8"))


@pytest.fixture
def etcd(monkeypatch):
    """Return the result of control_plane for an etcd with this status or exception."""

    def look(status):
        def post(_connection, path, **_body):
            if isinstance(status, Exception):
                raise status
            return status if path.endswith("status") else {"members": [{"name": "login0"}]}

        monkeypatch.setattr(control_plane, "etcd_context", ssl._create_unverified_context)
        monkeypatch.setattr(control_plane, "post", post)
        monkeypatch.setattr(control_plane, "query_without_certificate", lambda: "refused")
        monkeypatch.setattr(control_plane.os, "stat", lambda _: SimpleNamespace(st_uid=0, st_mode=0o40700))
        return said(test_etcd.test_answers, {ETCD: json.dumps(control_plane.etcd())})

    return look


class TestEtcd:
    WELL = {"leader": "7", "version": "3.6.4", "dbSize": "9"}

    def test_healthy_member_passes(self, etcd):
        assert etcd(self.WELL)[0] is PASSED

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            ({**WELL, "leader": "0", "errors": ["etcdserver: no leader"]}, "no member leads; etcdserver: no leader"),
            (ConnectionRefusedError(), "refuses connections"),
            (control_plane.WrongAnswer("status 503 of /v3/kv/range: request timed out"), "status 503"),
        ],
    )
    def test_lost_majority_refusal_and_error_fail(self, etcd, status, words):
        verdict, reason = etcd(status)
        assert (verdict, words in reason) == (FAILED, True)

    def test_time_out_is_unknown(self, etcd):
        assert etcd(TimeoutError("timed out")) == (UNKNOWN, "etcd: no answer within 4 s")

    @pytest.mark.parametrize(
        ("error", "verdict"),
        [
            (ssl.SSLError(1, "tlsv13 alert certificate required"), PASSED),
            (ConnectionResetError(), PASSED),
            (TimeoutError("timed out"), UNKNOWN),
            (ConnectionRefusedError(111, "Connection refused"), UNKNOWN),
            (OSError(errno.EMFILE, "Too many open files"), UNKNOWN),
        ],
    )
    def test_unauthenticated_client_needs_explicit_refusal(self, monkeypatch, error, verdict):
        def request(*_):
            raise error

        monkeypatch.setattr(control_plane.http.client.HTTPSConnection, "request", request)
        found = ETCD.parse(json.dumps({**GOOD_ETCD, "unauthenticated": control_plane.query_without_certificate()}))
        assert verdict_of(test_etcd.test_unauthenticated_clients_refused, {}, etcd=found)[0] is verdict

    def test_admitted_unauthenticated_client_fails(self):
        found = ETCD.parse(json.dumps({**GOOD_ETCD, "unauthenticated": "status 200"}))
        assert verdict_of(test_etcd.test_unauthenticated_clients_refused, {}, etcd=found)[0] is FAILED


@pytest.mark.parametrize(("program", "name", "seconds"), [("kubernetes_api", "PATIENCE", 5), ("control_plane", "PATIENCE", 4)])
@pytest.mark.parametrize("slowness", ["", "1", "7"])
def test_limits_grow_on_slow_node(monkeypatch, program, name, seconds, slowness):
    monkeypatch.setenv("RACKWRIGHT_SLOWNESS", slowness)
    assert runpy.run_path(str(PROGRAMS / f"{program}.py"))[name] == seconds * int(slowness or 1)


class TestOutside:
    @pytest.fixture
    def declared(self):
        return SimpleNamespace(cluster={"access": {"listen": "0.0.0.0", "port": 0}})

    def ask(self, declared, port):
        declared.cluster["access"]["port"] = port
        return external_probes.probe_published_port(declared, ["login0"])["login0"]

    def test_unresponsive_published_port_is_unknown(self, monkeypatch, declared):
        monkeypatch.setattr(tcp_banners, "WORDS", 0.02)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            assert isinstance(self.ask(declared, port), UnreadableValue)
        assert self.ask(declared, port) == ""

    @pytest.mark.parametrize("error", [TimeoutError("timed out"), OSError(errno.EMFILE, "Too many open files")])
    def test_failed_connection_is_unknown(self, monkeypatch, declared, error):
        def words(*_, **__):
            raise error

        monkeypatch.setattr(external_probes, "words", words)
        assert isinstance(self.ask(declared, 1), UnreadableValue)

    def test_unread_answer_is_unknown_in_check_and_control(self):
        runner = ProbeRunner(SimpleNamespace(members=lambda _: (), target="lab"), Path("x"), [], [PUBLISHED])
        view = runner._views[PUBLISHED.name]
        view.result = external_probes.ExternalProbeResult({"login0": MissingAnswer("127.0.0.1:2222", LATE)}, 0.1)
        view.done.set()
        with pytest.raises(UndeterminedError, match=r"127\.0\.0\.1:2222: no answer within 6 s"):
            runner.external_answer(PUBLISHED, "login0")

    @pytest.mark.parametrize(("answer", "verdict"), [("", FAILED), ("SSH-2.0-x", PASSED), (tcp_banners.ACCEPTS, FAILED)])
    def test_refusal_and_foreign_banner_fail(self, answer, verdict):
        assert verdict_of(test_access.test_published_port_answers, {PUBLISHED: lambda: answer})[0] is verdict

    @pytest.mark.parametrize("look", [tcp_banners.banner, external_probes.connect_result])
    @pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM])
    def test_failed_request_does_not_prove_isolation(self, monkeypatch, look, number):
        def connect(*_, **__):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(socket, "create_connection", connect)
        with pytest.raises(OSError):
            look("10.0.0.1", 22)

    @pytest.mark.parametrize("error", [TimeoutError(), ConnectionRefusedError(111, ""), OSError(errno.EHOSTUNREACH, "")])
    def test_isolated_client_gets_no_answer(self, monkeypatch, error):
        def connect(*_, **__):
            raise error

        monkeypatch.setattr(socket, "create_connection", connect)
        assert tcp_banners.banner("10.0.0.1", 22) == ""

    def test_outside_checks_match_the_table(self):
        assert FROM_MACHINE.needed_by == ("access.host_is_blocked",)


@pytest.mark.parametrize(
    ("root", "nobody", "verdict"),
    [("open", "refused", PASSED), ("open", "open", FAILED), ("open", "silent", UNKNOWN), ("silent", "silent", UNKNOWN)],
)
def test_unresponsive_metadata_service_proves_no_refusal(root, nobody, verdict):
    text = f"root {root}\nnobody {nobody}\n"
    assert said(test_firewall.test_metadata_service_restricted, {METADATA_SERVICE: text})[0] is verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("STATUS:           Success (0)\n", PASSED),
        ("STATUS:           Invalid credential (8)\n", FAILED),
        ("STATUS:           Replayed credential (17)\n", UNKNOWN),
        ("unmunge: Error: Failed to receive message header: Timed-out\n", UNKNOWN),
        ('unmunge: Error: Failed to connect to "/run/munge/munge.socket.2": Connection refused\n', FAILED),
    ],
)
def test_credential_verdict_follows_answer(text, verdict):
    place = SimpleNamespace(declared=SimpleNamespace(members=lambda _: ("w0",)), node={"name": "w0"})
    assert (
        said(test_munge.test_credentials_decode_across_nodes, {DECODED: text}, check_plugin=SimpleNamespace(context=lambda _: place))[0]
        is verdict
    )


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("/home|answers\n", PASSED), ("/home|no answer within 5 s\n", UNKNOWN), ("/home|stat: /home: Stale file handle\n", FAILED)],
)
def test_mount_verdict_follows_answer(text, verdict):
    assert said(test_storage.test_answers, {ANSWERING: text})[0] is verdict


@pytest.mark.parametrize(
    ("status", "slowness", "words"), [(124, "", "no answer within 5 s"), (124, "3", "no answer within 15 s"), (0, "", "answers")]
)
def test_mount_time_out_names_seconds(tmp_path, status, slowness, words):
    (tmp_path / "timeout").write_text(f"#!/bin/sh\necho nfs\nexit {status}\n")
    (tmp_path / "timeout").chmod(0o755)
    declared = SimpleNamespace(cluster={"storage": [{"mount": "/home", "clients": ["w0"]}]})
    command = ANSWERING.command_at(SimpleNamespace(node={"name": "w0"}, declared=declared))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RACKWRIGHT_SLOWNESS": slowness or "1"}
    assert subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True).stdout == f"/home|{words}\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("w0 10.0.0.1\n", PASSED),
        ("w0 none\n", FAILED),
        ("w0 late 5\n", UNKNOWN),
        ("w0 10.0.0.2\n", FAILED),
        ("w0 late 5\nw1 none\n", FAILED),
    ],
)
def test_name_verdict_follows_answer(text, verdict):
    assert said(test_node.test_names_resolve, {RESOLVED: text})[0] is verdict


@pytest.mark.parametrize(
    ("error", "seconds", "told"), [("EAI_AGAIN", 5.2, "w0 late 5"), ("EAI_AGAIN", 0.1, "w0 none"), ("EAI_NONAME", 5.2, "w0 none")]
)
def test_refusing_name_server_differs_from_late_one(error, seconds, told):
    before = (
        "import socket, time\nclock = [0.0]\ntime.monotonic = lambda: clock[0]\n"
        f"def look(*_):\n    clock[0] += {seconds}\n    raise socket.gaierror(socket.{error}, 'x')\nsocket.getaddrinfo = look\n"
    )
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", before + _LOOK_UP, "w0"], capture_output=True, text=True)
    assert ended.stdout == f"{told}\n", ended.stderr


@pytest.mark.parametrize(
    ("text", "boot", "units"),
    [("running\n", PASSED, PASSED), ("starting\n", FAILED, PASSED), ("unknown\n", UNKNOWN, PASSED), ("degraded\n", PASSED, UNKNOWN)],
)
def test_system_verdict_follows_answer(text, boot, units):
    assert said(test_node.test_boot_completed, {SYSTEM: text})[0] is boot
    assert said(test_node.test_no_failed_units, {SYSTEM: text})[0] is units


GPU_PROBES = [probe for module in (gpu, mig, nvlink, software) for probe in vars(module).values() if isinstance(probe, Probe)]
GPU_TOOLS = [
    probe for probe in (*GPU_PROBES, *HARDWARE_PROBES.values()) if isinstance(probe.command, str) and "nvidia-smi" in probe.command
]


@pytest.mark.parametrize("probe", GPU_TOOLS, ids=[probe.name for probe in GPU_TOOLS])
def test_gpus_have_time_to_initialize(probe):
    """Eight GPUs without persistence mode need up to 24 s."""
    real, simulated = (SimpleNamespace(node={"gpus": {"simulated": value}}) for value in (False, True))
    assert probe.timeout_at(real) == 30
    if probe.on in ("gpu", "mig"):
        assert probe.timeout_at(simulated) == 8


def test_gpu_tools_are_known():
    assert len(GPU_TOOLS) == 8
