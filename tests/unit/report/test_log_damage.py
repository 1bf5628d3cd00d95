"""Readers of logs and of Slurm's records on damaged output: they return a value, and no line of a user becomes a state."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.damage import damages

from rackwright.remote.programs import container_logs, journal, log_files, slurm_job
from rackwright.report.logs.job_record import read_runs

ENTRY = json.dumps(
    {"__REALTIME_TIMESTAMP": "1795795200000000", "MESSAGE": "x", "PRIORITY": "3", "_SYSTEMD_UNIT": "slurmd.service", "_PID": "7"}
)
CRI = "2026-11-27T16:00:01.123456789Z stdout F one"
SLURM_LOG = "[2026-11-27T16:00:01.250] error: Nodes worker1 not responding"
SACCT = "5\x1f5\x1fFAILED\x1f7:0\x1f1795797384\x1falice\n5.batch\x1f5.batch\x1fFAILED\x1f7:0\x1f1795797384\x1fbatch\n"
SACCT_FIELDS = ["JobID", "JobIDRaw", "State", "ExitCode", "Submit", "JobName"]
SCONTROL = """JobId=5 JobName=train
   UserId=alice(2001) GroupId=alice(2001) MCS_label=N/A
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=7:0
   SubmitTime=1795797384 EligibleTime=1795797384
   NodeList=w0
   StdOut=/home/alice/slurm-5.out
"""


def runs(shown: str = "", rows: str = "") -> Any:
    found = slurm_job.rows_of(rows, len(SACCT_FIELDS))
    return read_runs({"fields": SACCT_FIELDS, "rows": found, "scontrol": shown, "hosts": {"w0": ["w0"]}, "users": {}})


READERS = {
    "journal": (ENTRY, lambda text: [journal.read_entry(line.encode()) for line in text.splitlines()]),
    "containers": (CRI, lambda text: [container_logs.read_line(line) for line in text.splitlines()]),
    "log file": (SLURM_LOG, lambda text: [log_files.microseconds(line) for line in text.splitlines()]),
    "sacct": (SACCT, lambda text: runs(rows=text)),
    "scontrol": (SCONTROL, lambda text: runs(shown=text)),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_output_raises_nothing(name: str) -> None:
    sample, read = READERS[name]
    assert read(sample)
    for damaged in damages(sample, most=200):
        try:
            read(damaged.text)
        except Exception as error:
            raise AssertionError(f"{damaged.what}: {damaged.text!r}: {error!r}") from error


@pytest.mark.parametrize("name", ["sacct", "scontrol"])
def test_damage_makes_no_job_successful(name: str) -> None:
    sample, read = READERS[name]
    for damaged in damages(sample, most=200):
        assert all(run.state != "COMPLETED" for run in read(damaged.text)), damaged.what


@pytest.mark.parametrize("value", [None, 5, [], {}, [1, "a"], [[104, 105]], [-1], [999], True, 1.5], ids=str)
def test_field_of_any_type_is_text(value: Any) -> None:
    line = json.dumps({"__REALTIME_TIMESTAMP": "1", "MESSAGE": value, "PRIORITY": value, "_PID": value, "_SYSTEMD_UNIT": value})
    found = journal.read_entry(line.encode())
    assert found is not None and isinstance(found[4], str) and isinstance(found[2], int) and isinstance(found[1], str)
