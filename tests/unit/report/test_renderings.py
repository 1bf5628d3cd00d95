"""Renderings for terminal, JUnit and HTML; and content that they must never contain."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from rackwright.masking import MASK
from rackwright.report import store
from rackwright.report.html import as_html
from rackwright.report.junit import as_junit
from rackwright.report.redact import Redactor, redactor
from rackwright.report.result import result
from rackwright.report.terminal import show
from rackwright.report.verdict import SkipReason, Verdict

LOST = "gpu.count_matches_plan[worker1]"
SILENT = "munge.service_runs[worker0]"


@pytest.fixture
def sick(report, green):
    """Return a report with one lost GPU and one node whose munge is unknown."""
    lost = replace(
        green[LOST], verdict=Verdict.FAILED, expected="8", found="7", reason="expected 8, found 7", remedy="drain worker1; <look>"
    )
    silent = replace(green[SILENT], verdict=Verdict.UNKNOWN, reason="units: no answer within 8 s", remedy="journalctl -u munge")
    return report({**green, LOST: lost, SILENT: silent})


@pytest.fixture
def unheard(green):
    """Return the number of checks on worker1."""
    return sum(one.node == "worker1" for one in green.values())


@pytest.fixture
def silent(report, green):
    """Return a report in which worker1 does not respond."""
    own = {id_: one for id_, one in green.items() if one.node == "worker1"}
    missing = {id_: replace(one, verdict=Verdict.UNKNOWN, reason="worker1 is unreachable: timed out") for id_, one in own.items()}
    return report({**green, **missing})


def printed(report, **how):
    """Return the terminal's text at 80 columns."""
    console = Console(width=80, file=io.StringIO(), color_system=None)
    show(report, console, **how)
    return console.file.getvalue()


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202etxt\udcff\x9b31m\r"


def test_control_characters_of_users_are_escaped(check_plan, report, green):
    """Users choose job names, comments and reasons; an unpaired surrogate stops a writer of UTF-8."""
    item = check_plan.expected[LOST]
    lost = result(item, Verdict.FAILED, reason=f"is {HOSTILE}", expected="8", found=HOSTILE)
    found = report({**green, LOST: lost})
    for text in (
        printed(found),
        printed(found, every=True),
        as_html(found),
        as_junit(found),
        json.dumps(found.as_dict(), ensure_ascii=False),
    ):
        assert text.encode("utf-8")
        assert not set(text) & set("\x1b\x07\x9b\r\u202e\udcff")
    assert "\\x1b]0;owned" in "".join(printed(found).split())


class TestTerminal:
    def test_missing_parts_are_named_with_reason(self, report, green):
        left_out = [{"id": f"jobs.{part}_are_confined", "reason": "not-in-plan", "detail": "cgroup v1"} for part in ("cores", "gpus")]
        others = [{"id": "kubelet.runs", "reason": "not-in-plan", "detail": ""}]
        text = printed(replace(report(green), not_run=(*left_out, *others)))
        assert "not run: jobs.cores_are_confined, jobs.gpus_are_confined: cgroup v1" in text and "kubelet" not in text

    def test_failures_come_first_with_remedy(self, sick):
        text = printed(sick)
        assert text.index("gpu.count_matches_plan") < text.index("munge.service_runs") < text.index("subject")
        for words in ("worker1", "expected 8", "found    7", "drain worker1", "simulated", "no answer within 8 s"):
            assert words in text

    def test_output_fits_eighty_columns(self, sick):
        assert max(len(line.rstrip()) for line in printed(sick).splitlines()) <= 80
        assert max(len(line.rstrip()) for line in printed(sick, every=True).splitlines()) <= 80

    def test_last_lines_have_verdict_level_and_figures(self, report, green):
        last = printed(report(green)).rstrip().splitlines()[-2:]
        assert last[0] == "✓ lab: passed, 4 nodes at level smoke"
        assert last[1].strip() == f"{len(green)} passed; {len(green)} results in 2.5 s"

    def test_skips_are_printed_with_reason_and_node(self, report, green):
        busy = {id_: one for id_, one in green.items() if one.kind == "job" and one.node == "worker1"}
        assert busy
        left = {id_: replace(one, verdict=Verdict.SKIPPED, reason=SkipReason.NODE_BUSY) for id_, one in busy.items()}
        text = printed(report({**green, **left}))
        assert f"skipped: {len(busy)} (node-busy) on worker1" in text and "✓ lab: passed" in text

    def test_unresponsive_node_is_printed_once(self, silent, unheard):
        text = printed(silent)
        assert text.count("worker1 is unreachable") == 1
        assert f"worker1  {unheard} checks unknown" in text

    def test_every_result_can_be_listed(self, report, green):
        text = printed(report(green), every=True)
        assert all(id_.split(".")[0] in text for id_ in green)
        assert text.count("✓") == len(green) + 1

    def test_simulated_evidence_is_never_shown_as_real(self, report, green):
        rows = {line.split()[0]: line for line in printed(report(green)).splitlines() if line.strip()}
        assert rows["gpu"].split()[-1] == "simulated"
        assert rows["munge"].split()[-1] == "real"
        assert "real + simulated" in rows["jobs"]


class TestJunit:
    def test_failures_unknowns_and_counts_are_written(self, sick, green):
        suite = ElementTree.fromstring(as_junit(sick)).find("testsuite")
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (str(len(green)), "1", "1")
        cases = {case.get("name"): case for case in suite.findall("testcase")}
        assert cases[LOST].find("failure").get("message") == "expected 8, found 7"
        assert "no answer" in cases[SILENT].find("error").get("message")
        assert cases[LOST].find("properties/property").attrib == {"name": "evidence", "value": "simulated"}

    def test_empty_report_is_an_error(self, report, green):
        empty = replace(report({}), checks=())
        assert ElementTree.fromstring(as_junit(empty)).find("testsuite").get("errors") == "1"

    def test_control_characters_keep_xml_valid(self, report, green):
        odd = replace(green[LOST], verdict=Verdict.FAILED, found="\x1b[31mred\x00", reason="\x07")
        ElementTree.fromstring(as_junit(report({**green, LOST: odd})))


class TestHtml:
    def test_failures_are_named_and_escaped(self, sick):
        text = as_html(sick)
        assert "drain worker1; &lt;look&gt;" in text
        assert "<look>" not in text
        assert text.index(LOST) < text.index("All checks")

    def test_page_needs_no_other_files(self, sick):
        assert not re.search(r"<script|src=|href=|https?://|@import|url\(", as_html(sick))

    def test_page_contains_fabric_diagram(self, sick, tmp_path):
        """The diagram is stored with the report; the page still needs no other file."""
        (tmp_path / "fabric.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><title>rails</title></svg>')
        text = (store.write(sick, tmp_path).parent / "report.html").read_text()
        assert '<svg viewBox="0 0 1 1"><title>rails</title></svg>' in text
        assert not re.search(r"<script|src=|href=|https?://|@import|url\(", text)
        assert "<svg" not in as_html(sick)

    def test_missing_checks_are_grouped_by_reason(self, sick):
        left_out = [{"id": f"kubelet.{name}", "reason": "not-in-plan", "detail": ""} for name in ("runs", "node_registered")]
        text = as_html(replace(sick, not_run=(*left_out, {"id": "worker1", "reason": "node-out", "detail": "bad DIMM"})))
        assert "<summary><b>not-in-plan</b> <span class=dim>2</span></summary>" in text
        assert "kubelet.node_registered" in text and "bad DIMM" in text

    def test_page_fits_a_phone(self, sick):
        assert "width=device-width" in as_html(sick)

    def test_unresponsive_node_is_one_finding(self, silent, unheard):
        text = as_html(silent)
        assert text.count("worker1 is unreachable") == 1
        assert f"{unheard} checks unknown" in text


class TestRedaction:
    def test_values_of_secrets_files_are_redacted(self, tmp_path):
        (tmp_path / "secrets.yml").write_text("secrets: {munge_key: QUJDREVGRw==, other: [hunter2-hunter2], short: no}\n")
        (tmp_path / "id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n")
        redact = redactor(tmp_path / "secrets.yml", tmp_path / "id_ed25519", tmp_path / "missing.yml")
        assert redact("key QUJDREVGRw== for hunter2-hunter2") == f"key {MASK} for {MASK}"
        assert redact("has b3BlbnNzaC1rZXk in it") == f"has {MASK} in it"
        assert redact("there is no secret here") == "there is no secret here"

    def test_nested_secrets_are_redacted(self):
        assert Redactor(["abcdefgh", "abcdefghijkl"])("abcdefghijkl") == MASK

    def test_key_frames_are_no_secrets(self):
        assert (
            Redactor(["-----BEGIN OPENSSH PRIVATE KEY-----"])("-----BEGIN OPENSSH PRIVATE KEY-----")
            == "-----BEGIN OPENSSH PRIVATE KEY-----"
        )
