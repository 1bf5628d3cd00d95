"""Windows of time, merged entries, gaps, and lines that a terminal does not act on."""

from __future__ import annotations

import doctest
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.rows import each_row

from rackwright.errors import InputError
from rackwright.report.logs import document, job_document, terminal, window
from rackwright.report.logs.document import LogEntry, NodeLogs, merge, node_logs
from rackwright.report.logs.job_cause import JobCause
from rackwright.report.logs.job_document import JobReport, RunReport
from rackwright.report.logs.job_record import JobRun
from rackwright.report.schemas import schema_errors

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=timezone(timedelta(hours=1)))
T = NOW.timestamp()


@pytest.mark.parametrize("module", [document, terminal, window], ids=lambda one: one.__name__.rpartition(".")[2])
def test_examples_in_docstrings(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@each_row(
    ("text", "ago"),
    [
        ("30s", 30),
        ("1h", 3600),
        ("90 min", 5400),
        ("1d12h", 129600),
        ("2w", 1209600),
        ("1.5h", 5400),
        ("1h ago", 3600),
        ("-1h", 3600),
        ("now", 0),
        ("Today", 43200),
        ("yesterday", 129600),
        ("11:30", 1800),
        ("11:30:30", 1770),
        ("2026-11-27", 43200),
        ("2026-11-27 11:00", 3600),
        ("2026-11-27T11:00:00+01:00", 3600),
        ("2026-11-27T10:00:00Z", 3600),
        (f"@{T - 60:.0f}", 60),
    ],
)
def test_time_is_read(text: str, ago: float) -> None:
    assert T - window.read_time(text, NOW, "--since") == ago


@pytest.mark.parametrize(
    "text", ["", "1", "1y", "h", "an hour", "25:00", "2026-13-01", "2026-11-27 99:00", "Nov 27", "@", "--1h", "٣h", "1e9h"]
)
def test_text_that_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InputError, match="is not a time") as refused:
        window.read_time(text, NOW, "--since")
    assert "1h30m" in refused.value.hint


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [("2027-01-01", None, "is in the future"), ("1h", "2h", "is not before"), ("1h", "1h", "is not before")],
)
def test_window_without_content_is_refused(since: str, until: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        window.read_window(since, until, NOW)


def answer(*entries: tuple[float, str, str], **more: Any) -> dict[str, Any]:
    rows = [[round((T + second) * 1e6), unit, 6, 7, message] for second, unit, message in entries]
    empty = {"now": T, "cut": "", "begins": None, "volatile": False, "known": {}, "seen": [], "warnings": [], "notes": []}
    return {**empty, "entries": rows, **more}


def read(name: str, found: dict[str, Any], since: float | None = None, until: float | None = None, mask: Any = str) -> NodeLogs:
    return node_logs(name, found, since=since, until=until, span=(T - 1, T + 1), mask=mask)


def test_entries_of_all_nodes_are_in_the_order_of_time() -> None:
    nodes = [read("n0", answer((-3, "a", "first"), (-1, "a", "third"))), read("n1", answer((-2, "b", "second")))]
    report = merge("lab", None, None, nodes, 10)
    assert [entry.message for entry in report.entries] == ["first", "second", "third"]
    assert (merge("lab", None, None, nodes, 2).limited, report.limited) == (True, False)
    assert [entry.message for entry in merge("lab", None, None, nodes, 2).entries] == ["second", "third"]


def test_times_of_a_clock_that_differs_are_corrected_and_named() -> None:
    ahead = read("n0", answer((299, "a", "x"), now=T + 300))
    assert [entry.time for entry in ahead.entries] == [T - 1]
    assert ahead.notes == ("its clock is 300 s ahead; its times are corrected by that",)
    behind = read("n0", answer((-61, "a", "x"), now=T - 60), since=T - 2)
    assert ([entry.time for entry in behind.entries], behind.clock_offset) == ([T - 1], -60.0)


def test_entries_outside_of_the_window_are_dropped() -> None:
    assert [
        entry.time - T for entry in read("n0", answer((-9, "a", "x"), (-5, "a", "y"), (-1, "a", "z")), since=T - 6, until=T - 2).entries
    ] == [-5]


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"cut": "bytes"}, "its answer is limited: entries before "),
        ({"cut": "time"}, "its log was not read completely within the time limit"),
        ({"begins": T * 1e6}, "its journal begins at "),
        ({"begins": T * 1e6, "volatile": True}, "its journal is kept in memory only and begins at "),
        ({"warnings": ["Journal file corrupted"]}, "journalctl: Journal file corrupted"),
        ({"notes": ["slurmctld writes to x"]}, "slurmctld writes to x"),
    ],
)
def test_gaps_are_named(more: dict[str, Any], note: str) -> None:
    found = read("n0", answer((-1, "a", "x"), **more), since=T - 3600)
    assert [one.startswith(note) for one in found.notes] == [True]


def test_copies_of_an_entry_are_one_with_the_worse_priority() -> None:
    found = answer(
        (-5, "slurmd", "error: a"), (-4.999, "slurmd", "error: a\nmore"), (-4.998, "slurmd", "error: b"), (-1, "slurmd", "error: a")
    )
    found["entries"][1][2] = 3
    entries = read("n0", found).entries
    assert [(entry.message, entry.priority) for entry in entries] == [("error: a\nmore", 3), ("error: b", 6), ("error: a", 6)]


def test_secrets_are_masked() -> None:
    found = read("n0", answer((-1, "a", "key=s3cret"), notes=["s3cret"]), mask=lambda text: text.replace("s3cret", "[secret]"))
    assert (found.entries[0].message, found.notes) == ("key=[secret]", ("[secret]",))


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("a\r2026-01-01 forged", r"a\r2026-01-01 forged"),
        ("a\n2026-01-01 00:00:00.000 n0 sshd: forged", r"a\n2026-01-01 00:00:00.000 n0 sshd: forged"),
        ("\u202egnirts", r"\u202egnirts"),
        ("tab\there", "tab here"),
        ("\ud800", r"\ud800"),
        ("", ""),
        ("x" * 2500, "x" * 2000 + " … (500 more characters)"),
    ],
)
def test_message_is_one_line_that_a_terminal_does_not_act_on(message: str, shown: str) -> None:
    text = terminal.line(LogEntry(T, "n0", "a", 6, None, message))
    assert text.split(" n0 a: ", 1)[1] == shown
    assert len(text.splitlines()) == 1


def test_nodes_without_answer_are_named_with_their_reason() -> None:
    lost = [NodeLogs(name, reason="no response over SSH") for name in ("n1", "n2")]
    report = merge("lab", None, None, [read("n0", answer()), *lost, NodeLogs("n3", reason="declared out", is_out=True)], 10)
    assert list(terminal.remarks(report)) == ["n1, n2: not read: no response over SSH", "n3: not read: declared out"]
    assert [(node["node"], node["answered"], node["entries"]) for node in report.as_dict()["nodes"]] == [
        ("n0", True, 0),
        ("n1", False, 0),
        ("n2", False, 0),
        ("n3", False, 0),
    ]


def test_json_follows_its_schema() -> None:
    report = merge("lab", T - 5, None, [read("n0", answer((-1, "a", "x\x1b")))], 10)
    assert schema_errors("logs", report.as_dict()) == []
    job = JobReport(
        "5", (RunReport(JobRun(job="5", raw="5", state="FAILED", started=T), JobCause("x", report.entries)),), (), report, ("y",)
    )
    assert schema_errors("logs", job.as_dict()) == []
    assert json.loads(json.dumps(job.as_dict())) == job.as_dict()
    assert report.as_dict()["entries"][0]["time"] == datetime.fromtimestamp(T - 1, UTC).isoformat(timespec="microseconds")


def test_summary_states_cause_evidence_and_time() -> None:
    proof = LogEntry(T, "login0", "slurmctld", 6, None, "_job_complete: JobId=5 WEXITSTATUS 7")
    values = {"name": "a\x1bb", "user": "alice", "account": "ml", "partition": "gpu", "nodes": ("w0",), "output": "/home/alice/slurm-5.out"}
    run = JobRun(job="5", raw="5", state="FAILED", submitted=T - 70, started=T - 65, ended=T, limit_s=3600.0, **values)  # type: ignore[arg-type]
    report = JobReport(
        "5", (RunReport(run, JobCause("its script ended with exit code 7", (proof,))),), (run,), merge("lab", None, None, [], 9)
    )
    lines = list(job_document.summary(report))
    assert lines[0] == r"job 5 (a\x1bb) of alice, account ml, partition gpu: FAILED"
    assert lines[1] == "  cause     its script ended with exit code 7"
    assert lines[2].endswith("login0 slurmctld: _job_complete: JobId=5 WEXITSTATUS 7")
    assert lines[3].count("after") == 2 and lines[3].endswith("after 1 min 5 s of at most 1 h")
    assert lines[4:] == ["  nodes     w0", "  output    /home/alice/slurm-5.out"]
