"""Error counters of the fabric: a row that was not read, or that is missing, leaves its ports unknown and changes no other."""

from __future__ import annotations

import pytest
from support.fabric_text import adapter, link, switch
from support.rows import each_row

from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.fabric_errors import COUNTERS, parse_errors
from rackwright.errors import UndeterminedError
from rackwright.report.fabric.ibnetdiscover import PortId, read_links

LEAF, SPINE, FIRST, SECOND = 0x8200, 0x9300, 0xB94, 0xB74
LINKS = read_links(
    link(adapter(FIRST, "worker0 HCA-1", 11), 1, switch(LEAF, "leaf-01", 21), 1)
    + link(adapter(SECOND, "worker1 HCA-1", 12), 1, switch(LEAF, "leaf-01", 21), 2)
    + link(switch(LEAF, "leaf-01", 21), 40, switch(SPINE, "spine-01", 22), 1)
)
ALL = frozenset(LINKS.far)
ON_LEAF = frozenset(port for port in ALL if port.guid == LEAF)
TEXT = f"""Errors for {LEAF:#x} "leaf-01"
   GUID {LEAF:#x} port ALL: [SymbolErrorCounter == 9] [LinkDownedCounter == 3] [PortXmitWait == 4294967295]
   GUID {LEAF:#x} port 0: [PortXmitWait == 76959324]
   GUID {LEAF:#x} port 2: [SymbolErrorCounter == 9 (9.000)] [LinkDownedCounter == 3] [PortXmitWait == 4294967295]
   GUID {LEAF:#x} port 40: [LinkDownedCounter == 5] [PortXmitDiscards == 15854 (15.482K)] [VL15Dropped == 2]
Errors for "worker0 HCA-1"
   GUID {FIRST:#x} port 1: [PortXmitWait == 1]

## Summary: 4 nodes checked, 2 bad nodes found
##          7 ports checked, 4 ports have errors beyond threshold
## Thresholds:
## Suppressed:
"""
BAD = {PortId(LEAF, 2): ("SymbolErrorCounter 9",)}


def test_counters_of_load_and_reboots_are_no_errors():
    found = parse_errors(TEXT)
    assert (found.errors, found.unread_ports(LINKS)) == (BAD, {})


def without(words):
    return "".join(line for line in TEXT.splitlines(True) if words not in line)


FIRST_ROW = f"   GUID {FIRST:#x} port 1: [PortXmitWait == 1]\n"
CASES = {
    "a row is missing": (without("port 40"), ALL),
    "the only row of an adapter is missing": (TEXT.replace(FIRST_ROW, ""), ALL),
    "two rows and one title are missing": (TEXT.partition('Errors for "worker0')[0] + TEXT[TEXT.index("\n## Summary") :], ALL),
    "the title of a switch is missing": (without("Errors for 0x"), frozenset()),
    "GUID of a switch's port": (TEXT.replace(f"GUID {LEAF:#x} port 40", "GUID 0x[N/A] port 40"), ON_LEAF),
    "number of a switch's port": (TEXT.replace("port 40:", "port ERR!:"), ON_LEAF),
    "GUID of an adapter's port": (TEXT.replace(f"GUID {FIRST:#x} port 1", "GUID  port 1"), {PortId(FIRST, 1)}),
    "a count": (TEXT.replace("LinkDownedCounter == 5", "LinkDownedCounter == 1,5"), {PortId(LEAF, 40)}),
    "an unknown counter": (TEXT.replace("[LinkDownedCounter == 5]", "[EffectiveErrors == 5]"), {PortId(LEAF, 40)}),
    "cut within a row": (TEXT.replace(" (15.482K)] [VL15Dropped == 2]", ""), {PortId(LEAF, 40)}),
    "a warning within a row": (TEXT.replace("port 40: ", "port 40:\nibwarn: [9] mad_rpc: retry\n"), ON_LEAF),
    "no number of ports": (without("ports checked"), frozenset()),
    "no number of ports, a title is missing": (without("ports checked").replace("Errors for", "Errors"), ALL),
    "number of ports is damaged": (TEXT.replace("checked, 4 ports", "checked, [N/A] ports").replace("2 bad nodes", "ERR! bad nodes"), ALL),
    "the subnet administration fails": (f"Query SA failed: Connection timed out; sa call path_query failed\n{TEXT}", ALL),
    "a subnet fails": (f"{TEXT}== mlx5_4 ended with status 255\n", ALL),
    "a warning about load": (f"ibwarn: [9] _do_madrpc: recv failed: Connection timed out\n{TEXT}", frozenset()),
    "two subnets": (TEXT + TEXT.replace(f"{LEAF:#x}", "0x1").replace(f"{FIRST:#x}", "0x2"), frozenset()),
    "CRLF": (TEXT.replace("\n", "\r\n"), frozenset()),
    "no threshold file": (TEXT.replace("## Thresholds:", "## (null)"), frozenset()),
    "thresholds": (TEXT.replace("## Thresholds:", "## Thresholds: [PortRcvErrors = 10]"), frozenset()),
}


@each_row("case", CASES)
def test_unread_rows_leave_their_ports_unknown(case):
    """Ports with errors stay listed, so that they fail."""
    text, unknown = CASES[case]
    found = parse_errors(text)
    assert {port: errors for port, errors in found.errors.items() if port.guid in (LEAF, FIRST)} == BAD
    assert found.unread_ports(LINKS).keys() - BAD.keys() == unknown - BAD.keys()


@pytest.mark.parametrize("text", ["", "ibwarn: [9] mad_rpc: timed out\n== mlx5_0 ended with status 255\n", TEXT.partition("\n## ")[0]])
def test_output_without_summary_is_refused(text):
    with pytest.raises(UndeterminedError):
        COUNTERS.read(CommandOutput(out=text))


def test_row_of_unknown_adapter_concerns_every_port():
    """The description that the row has is that of no device of the discovery."""
    text = TEXT.replace('"worker0 HCA-1"', '"worker7 HCA-1"').replace(f"GUID {FIRST:#x} port 1", "GUID  port 1")
    assert parse_errors(text).unread_ports(LINKS).keys() == ALL - BAD.keys()


def since(baseline, text=TEXT):
    found = parse_errors(f"{text}== baseline\n{baseline}")
    return found.errors, found.unread_ports(LINKS)


def count(number):
    return f'Errors for {LEAF:#x} "leaf-01"\n   GUID {LEAF:#x} port 2: [SymbolErrorCounter == {number}]\n'


@pytest.mark.parametrize(
    ("baseline", "errors"),
    [
        (TEXT, {}),
        (count(9), {}),
        (count(4), {PortId(LEAF, 2): ("SymbolErrorCounter 9 (baseline 4)",)}),
        (count(4000), {PortId(LEAF, 2): ("SymbolErrorCounter 9 (baseline 4000)",)}),
        (count("9,0"), BAD),
        (count(9).replace("port 2", "port 3"), BAD),
        ("", BAD),
    ],
    ids=["the same output", "the same count", "more errors", "cleared since", "damaged", "another port", "empty"],
)
def test_errors_of_the_baseline_are_not_reported_again(baseline, errors):
    assert since(baseline) == (errors, {})


def test_counter_at_its_maximum_is_unknown():
    """Also for a baseline that has the maximum: whether more errors followed is not known."""
    text = TEXT.replace("SymbolErrorCounter == 9 (9.000)", "SymbolErrorCounter == 65535")
    assert parse_errors(text).errors == {PortId(LEAF, 2): ("SymbolErrorCounter 65535",)}
    errors, unknown = since(count(65535), text)
    assert (errors, list(unknown)) == ({}, [PortId(LEAF, 2)])


def test_lost_rows_stay_unknown_beside_a_baseline():
    assert since(TEXT, without("port 40"))[1].keys() == ALL
