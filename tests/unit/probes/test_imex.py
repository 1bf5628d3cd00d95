"""An IMEX domain as `nvidia-imex-ctl -N` shows it: JSON of releases 570 to 590, and the table of all releases."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.damage import damages
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_software
from rackwright.checks.cluster.probes.imex import IMEX_CHANNEL, IMEX_DOMAIN, parse_imex_channel, parse_imex_domain
from rackwright.report.verdict import Verdict

FOLDER = Path(__file__).parents[1] / "captured" / "imex-domain"
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
JSON, TABLE = ((FOLDER / name).read_text(encoding="utf-8") for name in ("good.txt", "good-table.txt"))
ADDRESSES = ("10.77.0.24", "10.77.0.25", "10.77.0.26")
DEVICE = "character special file\n"
FORMS = pytest.mark.parametrize("text", [JSON, TABLE], ids=["json", "table"])


def judged(text, channel=DEVICE, *, name="10.77.0.24", present=ADDRESSES, listed=ADDRESSES):
    """Return verdict and reason of the check on a node. `listed`: the nodes of its domain; `present`: nodes that are not out."""
    node = SimpleNamespace(address=name, imex_nodes=list(listed))
    cluster = SimpleNamespace(hosts=[SimpleNamespace(address=one) for one in (*present, "10.77.0.16")])
    answers = answers_of({IMEX_DOMAIN: text, IMEX_CHANNEL: channel})
    return verdict_of(test_software.test_imex_domain_is_ready, answers, node=node, cluster=cluster)


def changed(host=None, peer=None, status=None, **more):
    """Return the JSON document with the status of a node, or of its connection to a peer, and with more keys."""
    document = {**json.loads(JSON), **more}
    for node in document["nodes"].values():
        if node["host"] == host and peer is None:
            node["status"] = status
        for other in node["connections"].values():
            if node["host"] == host and other["host"] == peer:
                other["status"] = status
    return json.dumps(document)


@FORMS
def test_healthy_domain_passes(text):
    assert [judged(text, name=one)[0] for one in ADDRESSES] == [PASSED] * 3
    assert judged(text.replace("\n", "\r\n"))[0] is PASSED


@FORMS
def test_both_forms_are_read_alike(text):
    found = parse_imex_domain(text)
    assert dict(found.nodes) == dict.fromkeys(ADDRESSES, "READY")
    assert dict(found.connections) == {f"{one} {other}": "CONNECTED" for one in ADDRESSES for other in ADDRESSES}


STATES = ("INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU", "SHUTTING_DOWN", "UNAVAILABLE")


@pytest.mark.parametrize("state", STATES)
def test_each_other_state_of_a_node_fails(state):
    table = TABLE.replace("10.77.0.25      - READY ", f"10.77.0.25      - {state} ")
    for text in (changed("10.77.0.25", status=state), table):
        verdict, reason = judged(text)
        assert verdict is FAILED and f"node 10.77.0.25: {state}" in reason


@pytest.mark.parametrize(
    ("letter", "state"),
    [
        ("I", "INVALID"),
        ("N", "NEVER_CONNECTED"),
        ("R", "RECOVERING"),
        ("D", "DISCONNECTED"),
        ("A", "AUTHENTICATING"),
        ("!V!", "VERSION_MISMATCH"),
        ("!M!", "NODE_MAP_MISMATCH"),
    ],
)
def test_each_other_state_of_a_connection_fails_on_its_node(letter, state):
    table = TABLE.replace("       0        C   C   C", f"       0        C   {letter}   C")
    for text in (changed("10.77.0.24", "10.77.0.25", state), table):
        verdict, reason = judged(text)
        assert verdict is FAILED and f"connection to 10.77.0.25: {state}" in reason
        assert judged(text, name="10.77.0.26")[0] is PASSED


def test_node_that_is_out_is_not_expected_to_respond():
    text = changed("10.77.0.26", status="UNAVAILABLE")
    assert judged(text, present=ADDRESSES[:2])[0] is PASSED
    assert judged(text)[0] is FAILED


@pytest.mark.parametrize(
    ("text", "listed", "words"),
    [
        (JSON, (*ADDRESSES, "10.77.0.27"), "node 10.77.0.27: missing"),
        (TABLE, (*ADDRESSES, "10.77.0.27"), "node 10.77.0.27: missing"),
        (JSON, ADDRESSES[:2], "node 10.77.0.26: listed"),
        (TABLE, ADDRESSES[:2], "node 10.77.0.26: listed"),
    ],
    ids=["node-is-missing", "node-is-missing-table", "node-of-another-domain", "node-of-another-domain-table"],
)
def test_other_list_of_nodes_fails(text, listed, words):
    verdict, reason = judged(text, listed=listed, present=listed)
    assert verdict is FAILED and words in reason


def test_table_of_an_old_release_has_no_versions():
    text = "\n".join(line.partition(" - Version")[0] for line in TABLE.split("\n"))
    assert "Version:" not in text and judged(text)[0] is PASSED


def test_marked_node_of_the_table_is_read():
    marked = TABLE.replace("Node #1   - 10.77.0.25      -", "Node #1   * 10.77.0.25 *    -")
    assert marked != TABLE and parse_imex_domain(marked) == parse_imex_domain(TABLE)


def test_words_behind_the_table_are_skipped():
    """Releases from 570 on print the state of a subscription behind it."""
    text = TABLE + "READY stopAtReady: 0\nkeepGoing: 1\nFinishing subscription\nREADY\n"
    assert parse_imex_domain(text).connections.unread == () and judged(text)[0] is PASSED


@pytest.mark.parametrize("count", [1, 2, 18])
def test_domain_of_each_size_is_read(count):
    names = [f"192.0.2.{number}" for number in range(1, count + 1)]
    lines = [f"Node #{number:<3} - {name:<15} - {'READY':<20} - Version: 570.172" for number, name in enumerate(names)]
    lines += ["", " Nodes From\\To  " + "".join(f"{number:<4}" for number in range(count))]
    lines += [f"{number:>8}        " + "C   " * count for number in range(count)] + ["", "Domain State: UP", ""]
    found = parse_imex_domain("\n".join(lines))
    assert (len(found.nodes), len(found.connections), set(found.connections.values())) == (count, count**2, {"CONNECTED"})


def test_warning_before_the_answer_is_skipped():
    for text in (JSON, TABLE):
        assert judged("[Nov 27 2026 06:08:10] [WARNING] GSSAPI is not configured\n" + text)[0] is PASSED


@pytest.mark.parametrize("cell", ["", "[N/A]", "ERR!", None, 5, {"a": 1}])
def test_unreadable_state_is_unknown_for_that_node(cell):
    verdict, reason = judged(changed("10.77.0.25", status=cell))
    assert verdict is UNKNOWN and "IMEX state of 10.77.0.25" in reason
    sick = json.loads(changed("10.77.0.25", status=cell))
    sick["nodes"]["2"]["status"] = "UNAVAILABLE"
    verdict, reason = judged(json.dumps(sick))
    assert verdict is FAILED and "node 10.77.0.26: UNAVAILABLE" in reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Node #1   - 10.77.0.25      - READY ", "Node #1   - 10.77.0.25      - ?? "),
        ("Node #1   - 10.77.0.25 ", "Node #x   - 10.77.0.25 "),
        ("       0        C   C   C", "       0        C   C"),
        ("       0        C   C   C", "       0        C   X   C"),
        ("From\\To  0   1   2", "From\\To  0   1"),
    ],
    ids=["state", "number", "short-row", "letter", "short-title"],
)
def test_unreadable_line_of_the_table_is_unknown(before, after):
    assert before in TABLE
    assert judged(TABLE.replace(before, after))[0] is UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"nodes": []}',
        '{"nodes": {}, "status": "DOWN"}',
        "IMEX is not running\n",
        "Usage: nvidia-imex-ctl [-i <IP> <PORT>]\n",
        JSON[: len(JSON) // 2],
    ],
)
def test_other_answer_is_unknown(text):
    assert judged(text)[0] is UNKNOWN


@pytest.mark.parametrize(
    ("channel", "verdict"), [("missing\n", FAILED), ("regular file\n", FAILED), ("", UNKNOWN), ("stat: Permission denied\n", UNKNOWN)]
)
def test_missing_channel_never_passes(channel, verdict):
    assert judged(JSON, channel)[0] is verdict


def test_channel_is_read():
    assert parse_imex_channel(DEVICE) == "character special file"


SICK = TABLE.replace("10.77.0.25      - READY ", "10.77.0.25      - INIT_GPU ").replace("  0        C   C   C", "  0        C   C   D")


@pytest.mark.parametrize("text", [SICK, changed("10.77.0.25", status="INIT_GPU")], ids=["table", "json"])
def test_fault_never_passes_through_damage(text):
    assert judged(text)[0] is FAILED
    for damaged in damages(text, most=200):
        assert judged(damaged.text)[0] in (FAILED, UNKNOWN), damaged.what


@FORMS
def test_damage_never_fails_a_healthy_domain_elsewhere(text):
    """A damaged address is another node's. A warning and line ends change nothing."""
    for damaged in damages(text, most=120):
        verdict, reason = judged(damaged.text)
        if not damaged.line and "warning" not in damaged.what:
            assert verdict is PASSED, damaged.what
        elif verdict is FAILED:
            assert any(one in damaged.line for one in ADDRESSES) or "without line" in damaged.what, (damaged.what, reason)
