"""Metrics and alerts of a lab: targets are up, users read nothing, faults and results arrive at a receiver, a rolling update does not."""

from __future__ import annotations

import base64
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import yaml
from support import step_ranks
from support.alert_receiver import PATIENCE, PORT, await_alert, received, start_receiver
from support.board_browser import BoardPage, chromium
from support.project import Project, clone
from support.prometheus import query

from rackwright.catalog.alerts import alerts
from rackwright.catalog.boards import boards
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.monitor.connection import connect
from rackwright.operations.monitor.query import query as ask_prometheus
from rackwright.yaml_loader import load_yaml

ASK_WITHOUT = "import ssl, sys, urllib.request; urllib.request.urlopen(sys.argv[1], context=ssl._create_unverified_context(), timeout=10)"


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a lab with monitoring, up and verified, whose alerts go to a receiver on the monitoring node."""
    project = clone(tmp_path_factory.mktemp("monitoring") / "checkout", like="lab-monitoring")
    url = project.folder / "receiver-url"
    url.write_text(f"http://127.0.0.1:{PORT}/")
    described = load_yaml(project.stack_file.read_text())
    described["config"]["rackwright:cluster"]["chaos"] = "allowed"
    described["config"]["rackwright:cluster"]["monitoring"] |= {
        "scrape_interval": "5s",
        "receivers": {"test": {"kind": "webhook", "url_file": str(url)}},
        "deadman": {"url_file": str(url), "interval": "1m"},
    }
    project.stack_file.write_text(yaml.safe_dump(described, sort_keys=False))
    try:
        project.run_checked("up", timeout=2400)
        start_receiver(project)
        yield project
    finally:
        project.remove()
    assert project.leftovers() == []


def test_every_planned_target_is_up(monitored: Project) -> None:
    targets = query(monitored, "/api/v1/targets")["data"]["activeTargets"]
    assert {(one["labels"]["job"], one["labels"]["instance"]): one["health"] for one in targets} == {
        **{("node", name): "up" for name in ("login0", "worker0", "worker1", "storage0")},
        ("prometheus", "login0"): "up",
        ("alertmanager", "login0"): "up",
    }


def test_every_rule_has_data_and_only_watchdog_fires(monitored: Project) -> None:
    rules = [rule for group in query(monitored, "/api/v1/rules")["data"]["groups"] for rule in group["rules"]]
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} <= set(alerts())
    assert {one["labels"]["alertname"] for one in query(monitored, "/api/v1/alerts")["data"]["alerts"] if one["state"] == "firing"} == {
        "Watchdog"
    }


@pytest.mark.parametrize("subject", ["units", "slurm", "gpu", "ranks", "jobs", "fabric", "storage"])
def test_collector_reads_its_subject(monitored: Project, subject: str) -> None:
    found = query(monitored, "/api/v1/query?query=rackwright_collector_success")
    of_subject = [one for one in found["data"]["result"] if one["metric"]["collector"] == subject]
    values = {one["metric"]["instance"]: one["value"][1] for one in of_subject}
    assert values and set(values.values()) == {"1"}


@pytest.mark.parametrize("port", [9090, 9093, 9100])
def test_user_of_a_worker_reads_nothing(monitored: Project, port: int) -> None:
    """Neither without a certificate nor with that of the node, which the user cannot read."""
    said = monitored.ssh("worker0", f"runuser -u alice -- python3 -c '{ASK_WITHOUT}' https://login0:{port}/metrics 2>&1; true")
    assert "CERTIFICATE_REQUIRED" in said.output.upper().replace(" ", "_"), said.output
    keys = monitored.ssh("worker0", "runuser -u alice -- find /etc/rackwright/node_exporter /var/lib/rackwright/metrics -type f 2>&1; true")
    assert "server.key" not in keys.output and ".prom" not in keys.output


FAULTS = {
    "SlurmNodeNotResponding": ("worker1", "systemctl stop slurmd", "systemctl start slurmd"),
    "UnitDown": ("worker1", "systemctl stop slurmd", "systemctl start slurmd"),
    "GpuXid": ("worker0", "rackwright-gpu-fault xid 2 79", "rackwright-gpu-fault clear"),
    "NvswitchSxidNonFatal": ("worker0", "rackwright-gpu-fault sxid 3", "rackwright-gpu-fault clear"),
    "GpuMissing": ("worker0", "rackwright-gpu-fault missing 7", "rackwright-gpu-fault clear"),
    "FabricCableMissing": ("worker1", "rackwright-fabric-fault unplug worker1/mlx5_3", "rackwright-fabric-fault plug worker1/mlx5_3"),
    "SharedFsMissing": ("worker0", "umount --lazy /mnt/sharedfs", "systemctl restart mnt-sharedfs.mount"),
    "TargetDown": ("storage0", "systemctl stop prometheus-node-exporter", "systemctl start prometheus-node-exporter"),
}
"""By alert: the node, the fault, and what ends it."""
OBSERVER = {"FabricCableMissing": "login0"}
"""Node on which a fault is injected, if it is another one than that of the alert."""


def test_faults_arrive_with_the_right_node(monitored: Project) -> None:
    """All at once: each is on a part of its own."""
    for name, (node, fault, _) in FAULTS.items():
        monitored.ssh(OBSERVER.get(name, node), fault)
    try:
        await_alert(monitored, *(("firing", name, node) for name, (node, *_) in FAULTS.items()))
    finally:
        for name, (node, _, end) in FAULTS.items():
            monitored.ssh(OBSERVER.get(name, node), end)
    monitored.run_checked("up", "--refresh")
    await_alert(monitored, *(("resolved", name, node) for name, (node, *_) in FAULTS.items()))


RANKS = f"""#!/bin/sh
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive --time=30 --output=/dev/null
FIRST=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export FIRST PROGRAM={shlex.quote(step_ranks.PROGRAM)}
srun sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=2 exec python3 -c "$PROGRAM" $SLURM_PROCID $FIRST 29511 $((SLURM_PROCID * SLOW))'
"""
"""A job of two ranks on two nodes that wait for each other in each step. SLOW: seconds that rank 1 sleeps in each step."""


@pytest.mark.parametrize(("slow", "alert"), [("0", "JobRankStopped"), ("1", "JobRankSlow")])
def test_guilty_rank_is_named_by_an_alert(monitored: Project, slow: str, alert: str) -> None:
    """A stopped and a slowed rank, in four samples and a hold of five minutes."""
    text = base64.b64encode(RANKS.encode()).decode()
    said = monitored.as_user(f"echo {text} | base64 -d > /tmp/ranks.sh && sbatch --parsable --export=ALL,SLOW={slow} /tmp/ranks.sh")
    assert said.ok, said.end
    job = said.output.strip().splitlines()[-1]
    try:
        if alert == "JobRankStopped":
            time.sleep(30)
            assert monitored.ssh("worker1", "pkill -STOP -u alice python3").ok
        await_alert(monitored, ("firing", alert, "worker1"), patience=PATIENCE + 480)
        found = query(monitored, f"/api/v1/query?query=ALERTS%7Balertname=%22{alert}%22%7D")["data"]["result"]
        assert [(one["metric"]["jobid"], one["metric"]["rank"]) for one in found] == [(job, "1")]
    finally:
        monitored.ssh("worker1", "pkill -CONT -u alice python3")
        monitored.as_user(f"scancel {job}")
    await_alert(monitored, ("resolved", alert, "worker1"), patience=PATIENCE + 480)


def results(project: Project, outcome: str) -> int:
    """Return the number of results of the last verification with an outcome."""
    found = query(project, f"/api/v1/query?query=sum(rackwright_verify_results%7Boutcome=%22{outcome}%22%7D)")["data"]["result"]
    return int(found[0]["value"][1]) if found else -1


def await_results(project: Project, outcome: str, wanted: int) -> None:
    """Wait until Prometheus has read the results of the last run."""
    until = time.monotonic() + PATIENCE
    while (found := results(project, outcome)) != wanted:
        assert time.monotonic() < until, f"{found} results are {outcome}, expected {wanted}"
        time.sleep(2)


def test_results_of_verification_are_metrics_and_alerts(monitored: Project) -> None:
    """A failed verification raises an alert; the next one passes although the alert still fires."""
    await_results(monitored, "passed", monitored.report()["totals"]["passed"])
    monitored.ssh("worker0", "chmod 0777 /var/tmp")
    try:
        assert monitored.rackwright("verify", monitored.stack).status == 1
        await_results(monitored, "failed", monitored.report()["totals"]["failed"])
        await_alert(monitored, ("firing", "VerifyFailed", "login0"))
    finally:
        monitored.ssh("worker0", "chmod 1777 /var/tmp")
    assert monitored.rackwright("verify", monitored.stack).status == 0
    await_alert(monitored, ("resolved", "VerifyFailed", "login0"))


def test_failure_to_write_metrics_changes_no_verdict(monitored: Project) -> None:
    folder = "/var/lib/rackwright/metrics"
    monitored.ssh("login0", "systemctl stop 'rackwright-metrics-*.timer'")
    monitored.ssh("login0", f"mv {folder} {folder}.away")
    try:
        said = monitored.rackwright("verify", monitored.stack, "--node", "storage0")
        assert "cannot write the metrics" not in said.output, "results of one node are not published"
        said = monitored.rackwright("verify", monitored.stack)
        assert f"login0: cannot write the metrics of this run (verify): {folder} does not exist" in said.output
        assert said.status == {"passed": 0, "failed": 1, "unknown": 3}[monitored.report()["verdict"]]
    finally:
        monitored.ssh("login0", f"mv {folder}.away {folder}; cd /etc/systemd/system && systemctl start rackwright-metrics-*.timer")


def silences(project: Project) -> set[tuple[str, str]]:
    """Return creator and nodes of every silence that lasts."""
    found = query(project, "/api/v2/silences", port=9093)
    return {(one["createdBy"], one["matchers"][0]["value"]) for one in found if one["status"]["state"] == "active"}


def test_rolling_update_is_silenced(monitored: Project) -> None:
    running = monitored.start(["rackwright", "rolling-update", monitored.stack, "--nodes", "worker1"])
    seen: set[tuple[str, str]] = set()
    while running.poll() is None:
        seen |= silences(monitored)
        time.sleep(1)
    assert running.returncode == 0
    assert seen == {("rackwright rolling-update", "worker1")}
    until = time.monotonic() + 60  # Two scrape intervals and 10 s.
    while silences(monitored):
        assert time.monotonic() < until, "the silence outlasts the rolling update"
        time.sleep(2)


def test_lost_node_sends_one_alert(monitored: Project) -> None:
    before = len(received(monitored))
    subprocess.run(["podman", "kill", f"{monitored.stack}-worker1"], check=True, capture_output=True)
    try:
        await_alert(monitored, ("firing", "TargetDown", "worker1"))
        time.sleep(130)  # FabricCableMissing and SlurmNodeNotResponding fire after two minutes.
        new = {name for status, name, _ in received(monitored)[before:] if status == "firing"}
        assert new - {"Watchdog"} == {"TargetDown"}
    finally:
        monitored.run_checked("up", "--refresh")


def test_injected_failure_is_detected_by_an_alert_and_published(monitored: Project) -> None:
    """TargetDown fires a minute after the first missed scrape."""
    said = monitored.rackwright("chaos", monitored.stack, "--mode", "node_kill", "--target", "worker1", "--hold", "2m", "--json")
    assert said.ok, said.end
    (record,) = (monitored.home / monitored.stack / "chaos").glob("chaos-*.json")
    found = json.loads(record.read_text())
    (event,) = found["events"]
    seconds = {one["by"]: one["seconds"] for one in event["detected_by"]}
    assert 60 <= seconds["alert TargetDown"] < 120 and found["alerts"]["problem"] is None
    assert event["undone"] - event["injected"] >= 120 and event["clean"]
    series = query(monitored, "/api/v1/query?query=max_over_time(rackwright_chaos_failure[10m])")["data"]["result"]
    assert [(one["metric"]["mode"], one["metric"]["node"]) for one in series] == [("node_kill", "worker1")]
    (last,) = query(monitored, "/api/v1/query?query=rackwright_chaos_last_injection_timestamp_seconds")["data"]["result"]
    assert float(last["value"][1]) == pytest.approx(event["injected"], abs=1)


def test_watchdog_arrives_at_the_deadman_switch(monitored: Project) -> None:
    await_alert(monitored, ("firing", "Watchdog", ""))


RESULTS = """
import os, sys
path = "/var/lib/rackwright/metrics/results-test.prom"
with open(path, "w") as stream:
    stream.write(sys.stdin.read())
os.chown(path, -1, os.stat(os.path.dirname(path)).st_gid)
os.chmod(path, 0o640)
"""
"""Results of runs that the simulated hardware does not have."""
MADE = """rackwright_acceptance_results{stack="t",outcome="passed",evidence="real"} 40
rackwright_acceptance_last_completion_timestamp_seconds{stack="t"} 1795784783
rackwright_nccl_busbw_bytes_per_second{stack="t",node="worker0",operation="all_reduce",ranks="16"} 4.8e10
rackwright_nccl_busbw_bytes_per_second{stack="t",node="worker1",operation="all_reduce",ranks="16"} 4.7e10
rackwright_rdma_median_bandwidth_bytes_per_second{stack="t",node="worker0",rail="rail0"} 4.8e10
rackwright_rdma_median_bandwidth_bytes_per_second{stack="t",node="worker1",rail="rail0"} 4.8e10
"""


@pytest.fixture(scope="module")
def with_results(monitored: Project) -> Iterator[Project]:
    """Yield the lab with results of every kind, which Prometheus has read: of a verification, of a scan, and made ones."""
    for command in ("verify", "drift"):
        ended = monitored.rackwright(command, monitored.stack)
        assert ended.status in (0, 1), ended.end
    written = monitored.ssh("login0", f"python3 -c '{RESULTS}' <<'END'\n{MADE}END\n")
    assert written.ok, written.output
    until = time.monotonic() + PATIENCE
    wanted = ("rackwright_rdma_median_bandwidth_bytes_per_second", "rackwright_verify_results", "rackwright_drift_differences")
    while not all(query(monitored, f"/api/v1/query?query={name}")["data"]["result"] for name in wanted):
        assert time.monotonic() < until, "the results were not read"
        time.sleep(1)
    yield monitored
    monitored.ssh("login0", "rm /var/lib/rackwright/metrics/results-test.prom")


def test_every_panel_returns_named_series(with_results: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session for all queries: `rackwright monitor --query` opens one for each."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(with_results.home))
    unnamed, empty = [], []
    with connect(RunningStack.of(with_results.stack)) as relay:
        for board in boards():
            for panel in board.panels:
                series = ask_prometheus(relay, with_results.stack, panel.query(5)).series
                empty += [] if series else [f"{board.name}: {panel.title}"]
                labels = set(re.findall(r"<(\w+)>", panel.legend)) - {"xid", "jobid", "rank"}
                unnamed += [f"{board.name}: {panel.title}: {labels}" for one in series if not labels <= set(one.labels)]
    assert (empty, unnamed) == ([], [])


def test_every_board_is_drawn_until_the_interrupt(with_results: Project) -> None:
    child = with_results.start([sys.executable, "-m", "rackwright.cli.main", "monitor", with_results.stack])
    try:
        assert child.stdout is not None
        address = child.stdout.readline().split()[-1]
        with chromium() as browser:
            page = BoardPage(browser, address)
            for board in boards():
                assert page.open(board.name) == {panel.title: "data" for panel in board.panels}, board.name
            assert page.open("alerts") == {"Alerts": "data", "Targets": "data"} and page.messages == []
    finally:
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=60)
    assert child.returncode == 0 and "the tunnel to login0 is closed" in output
    left = with_results.ssh("login0", "pgrep --full --count '^python3 -I -S' ; true").output.strip()
    assert left == "0", "the program on the node is still running"


def test_query_is_answered_in_the_terminal(monitored: Project) -> None:
    found = monitored.rackwright("monitor", monitored.stack, "--query", 'sum(up{job="node"})', "--json")
    assert found.ok and json.loads(found.output)["series"][0]["samples"][0][1] == "4"
    refused = monitored.rackwright("monitor", monitored.stack, "--query", "sum(")
    assert refused.status == 2 and "parse error" in refused.output


def test_second_up_changes_nothing(monitored: Project) -> None:
    said = monitored.run_checked("refresh")
    assert "would change" not in said.output, said.output
    said = monitored.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output
    assert monitored.report()["verdict"] == "passed"
