"""An hour of a monitored lab with jobs, a rolling update, a worker added and removed, verifications and scans: no alert is sent."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from support.alert_receiver import PORT, await_alert, received, start_receiver
from support.project import Project, clone
from support.prometheus import query

from rackwright.yaml_loader import load_yaml

MINUTES = int(os.environ.get("RACKWRIGHT_SOAK_QUIET_MINUTES", "60"))
"""Length of the run: only alerts with a shorter `for` could fire in it. That of SlurmNodeDrained is an hour."""
INTERVAL = 15
"""Seconds between two evaluations: `scrape_interval` of the stack."""
WATCHED = 0.9
"""Share of the evaluations that must have taken place; Prometheus is restarted by no event below."""
REMOVED = "worker2"
"""The worker that is added and removed."""
JOBS = "while :; do srun --quiet --immediate=30 --gres=gpu:1 sh -c 'sleep 5; id >/dev/null'; sleep 1; done"


@pytest.fixture
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a lab with monitoring, a receiver of its alerts, and jobs that start and end."""
    project = clone(tmp_path_factory.mktemp("quiet") / "checkout", like="lab-monitoring")
    url = project.folder / "receiver-url"
    url.write_text(f"http://127.0.0.1:{PORT}/")
    described = load_yaml(project.stack_file.read_text())
    described["config"]["rackwright:cluster"]["monitoring"]["receivers"] = {"test": {"kind": "webhook", "url_file": str(url)}}
    project.stack_file.write_text(yaml.safe_dump(described, sort_keys=False))
    try:
        project.run_checked("up", timeout=2400)
        start_receiver(project)
        started = project.ssh("login0", f"systemd-run --quiet --unit=soak --uid=alice sh -c {json.dumps(JOBS)}")
        assert started.ok, started.output
        yield project
    finally:
        project.remove()
    assert project.leftovers() == []


def samples(project: Project, state: str, seconds: int) -> dict[tuple[str, str], int]:
    """Return by name and instance how many evaluations had the alert in a state, within the last seconds."""
    expression = f'sum by(alertname, instance) (count_over_time(ALERTS{{alertstate="{state}"}}[{seconds}s]))'
    found = query(project, f"/api/v1/query?query={quote(expression)}")["data"]["result"]
    return {(one["metric"]["alertname"], one["metric"].get("instance", "")): int(one["value"][1]) for one in found}


def set_workers(project: Project, count: int) -> None:
    """Declare the number of workers and apply it."""

    def change(cluster: dict[str, Any]) -> None:
        cluster["groups"]["worker"]["count"] = count

    project.edit(change)
    project.run_checked("up")


def run_checked(project: Project, *arguments: str) -> None:
    """Run a command of the product, which must end with 0."""
    said = project.rackwright(*arguments)
    assert said.ok, said.end


EVENTS: tuple[tuple[float, str, Callable[[Project], None]], ...] = (
    (0.05, "rolling update", lambda project: run_checked(project, "rolling-update", project.stack)),
    (0.2, "verification", lambda project: run_checked(project, "verify", project.stack)),
    (0.3, "a worker added", lambda project: set_workers(project, 3)),
    (0.45, "drift scan", lambda project: run_checked(project, "drift", project.stack)),
    (0.55, "the worker removed", lambda project: set_workers(project, 2)),
    (0.7, "verification", lambda project: run_checked(project, "verify", project.stack)),
)
"""What an operator does, by the share of the run at which it starts."""


def test_no_alert_is_sent_in_an_hour_of_ordinary_work(monitored: Project, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    for share, name, event in EVENTS:
        time.sleep(max(0.0, began + share * MINUTES * 60 - time.monotonic()))
        at = time.monotonic()
        event(monitored)
        with capsys.disabled():
            print(f"\n{(at - began) / 60:.1f} min: {name}, {time.monotonic() - at:.0f} s", flush=True)
    time.sleep(max(0.0, began + MINUTES * 60 - time.monotonic()))
    span = int(time.monotonic() - began)
    fired, waited = samples(monitored, "firing", span), samples(monitored, "pending", span)
    jobs = monitored.ssh("login0", "sacct --allusers --noheader --parsable2 --format=State --starttime=2020-01-01 | sort | uniq -c").output
    with capsys.disabled():
        print(f"{span} s; evaluations that fired: {fired}, that were pending: {waited}; jobs: {' '.join(jobs.split())}", flush=True)
    assert "COMPLETED" in jobs, "no job ran"
    watched = fired.pop(("Watchdog", ""), 0)
    assert watched >= WATCHED * span / INTERVAL, (
        f"Prometheus evaluated its rules {watched} times only, so that an alert may have been missed"
    )
    # The daemons of a worker that is removed stop before Prometheus loses it, so its alerts are silenced.
    assert {alert: count for alert, count in fired.items() if alert[1] != REMOVED} == {}
    assert received(monitored) == []
    # A receiver that nothing reaches would be as quiet.
    stopped = monitored.ssh("worker1", "systemctl stop slurmd")
    assert stopped.ok, stopped.end
    await_alert(monitored, ("firing", "UnitDown", "worker1"))
