"""The schedules of nightly scans for systemd, cron and GitHub."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import time

from rackwright.drift import schedule
from rackwright.yaml_loader import load_yaml

NIGHTLY = schedule.ScheduledScan(
    "lab", "/opt/rack wright/bin/rackwright", "/home/a/lab/drift.html", time(3, 5), 900, {"RACKWRIGHT_HOME": "/srv/50%/home"}
)


def test_systemd_timer_delays_and_catches_up():
    units = schedule.systemd(NIGHTLY)
    assert set(units) == {f"rackwright-drift-lab{part}.{kind}" for part in ("", "-overdue") for kind in ("service", "timer")}
    for line in ("OnCalendar=*-*-* 03:05:00", "RandomizedDelaySec=900", "Persistent=true"):
        assert line in units["rackwright-drift-lab.timer"].splitlines()


def test_systemd_unit_escapes_blanks_and_percent_signs():
    lines = schedule.systemd(NIGHTLY)["rackwright-drift-lab.service"].splitlines()
    assert 'ExecStart="/opt/rack wright/bin/rackwright" drift lab' in lines
    assert 'Environment="RACKWRIGHT_HOME=/srv/50%%/home"' in lines


def test_systemd_verifies_hourly_that_scans_end():
    units = schedule.systemd(NIGHTLY)
    assert units["rackwright-drift-lab-overdue.service"].count(" drift-history lab --max-age 26h\n") == 1
    assert "OnCalendar=hourly" in units["rackwright-drift-lab-overdue.timer"]


def test_cron_lines_escape_percent_signs():
    line, hourly = schedule.crontab(NIGHTLY).splitlines()
    assert hourly.startswith("35 * * * * ") and hourly.endswith(" drift-history lab --max-age 26h")
    assert line.startswith("5 3 * * * sleep $(shuf -n 1 -i 0-900); ")
    command = line.split("; ", 1)[1].replace(r"\%", "%")
    assert shlex.split(command) == ["RACKWRIGHT_HOME=/srv/50%/home", "/opt/rack wright/bin/rackwright", "drift", "lab"]
    assert r"50\%" in line


def test_github_workflow_runs_alone_and_keeps_page():
    workflow = load_yaml(schedule.github(NIGHTLY))
    job = workflow["jobs"]["drift"]
    assert workflow["on"]["schedule"] == [{"cron": "5 3 * * *"}]
    assert workflow["concurrency"] == {"group": "rackwright-drift-lab"} and workflow["permissions"] == {}
    assert "self-hosted" in job["runs-on"] and job["steps"][1]["if"] == "always()"
    assert shlex.split(job["steps"][0]["run"])[-2:] == ["drift", "lab"]


def test_workflow_of_project_folder_checks_out_stack_files():
    workflow = load_yaml(schedule.github(replace(NIGHTLY, checks_out=True)))
    steps = workflow["jobs"]["drift"]["steps"]
    assert steps[0]["uses"].startswith("actions/checkout@")
    assert [shlex.split(step["run"])[1:] for step in steps[1:3]] == [["validate"], ["drift", "lab"]]
    assert workflow["permissions"] == {"contents": "read"}
