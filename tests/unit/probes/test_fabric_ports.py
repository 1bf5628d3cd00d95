"""Checks of a node's ports on the output of `ibstat`: an adapter that was not read hides no other, and never passes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows import each_row
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_fabric as checks
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.adapters import ADAPTERS, parse_adapters
from rackwright.checks.cluster.probes.fabric import PORTS, parse_ports
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
IB = (Path(__file__).parents[1] / "captured" / "fabric-ports" / "real-form.txt").read_text(encoding="utf-8")
CARD = {
    "node": SimpleNamespace(name="worker0", rails=["mlx5_0", "mlx5_1"]),
    "fabric": {"rate_gbps": 400, "simulated": False, "link_layer": "InfiniBand"},
}


OF_PORTS = ("ports_are_active", "link_layer_matches_plan", "rate_matches_plan")


def card(name, guid, **cells):
    """Return ibstat's block of an adapter, with these cells instead: `State="Down"`; None leaves the row out."""
    text = IB.replace("mlx5_0", name).replace("0x946dae0300f01234", f"{guid:#018x}")
    for key, cell in cells.items():
        row = next(line for line in text.splitlines(True) if line.strip().startswith(f"{key.replace('_', ' ')}:"))
        text = text.replace(row, "" if cell is None else f"{row.partition(':')[0]}: {cell}\n")
    return text


def node_verdicts(text):
    """Return the verdicts of presence, activity, link layer and rate; only that of presence if no planned port is listed."""
    found = []
    ports = parse_ports(text)
    planned = [port for port in ports if port.adapter in ("mlx5_0", "mlx5_1")]
    for name in ("adapters_are_present", *(OF_PORTS if planned else ())):
        check, given = getattr(checks, f"test_{name}"), dict(CARD)
        given |= {"planned_ports": planned, "members": None}
        given |= {"up": [port for port in planned if port.up or isinstance(port.status, UnreadableValue)]}
        found.append(verdict_of(check, {PORTS: lambda: ports}, **given)[0].value[0])
    return "".join(found)


GOOD = card("mlx5_0", 0xB94)
NODES = {
    "down, and its physical state has no name": (GOOD + card("mlx5_1", 0xB95, State="Down", Physical_state="???"), "pfpp"),
    "active, and its physical state has no name": (GOOD + card("mlx5_1", 0xB95, Physical_state="???"), "pupu"),
    "both as planned": (GOOD + card("mlx5_1", 0xB95), "pppp"),
    "a storage adapter is down": (GOOD + card("mlx5_1", 0xB95) + card("mlx5_2", 0xB96, State="Down", Physical_state="Disabled"), "pppp"),
    "FDR10 and effective speed": (
        GOOD.replace("Rate: 400", "Rate: 400 (FDR10)\n\t\tEffective speed: 400") + card("mlx5_1", 0xB95),
        "pppp",
    ),
    "CRLF and a warning": ("Warning: deprecated\n" + (GOOD + card("mlx5_1", 0xB95)).replace("\n", "\r\n"), "pppp"),
    "warning of ib_umad": (
        "ibwarn: [7] get_abi_version: can't read ABI version from /sys/class/infiniband_mad: is ib_umad module loaded?\n"
        + GOOD
        + card("mlx5_1", 0xB95),
        "pppp",
    ),
    "the second is not read": (f"{GOOD}ibpanic: [2817] main: stat of IB device 'mlx5_1' failed: Invalid argument\n", "puuu"),
    "the second is not read, newer": (f"ibwarn: [2817] main: stat of IB device 'mlx5_1' failed\n{GOOD}", "puuu"),
    "another one is not read": (
        f"{GOOD}{card('mlx5_1', 0xB95)}ibpanic: [9] main: stat of IB device 'mlx5_an0' failed: No such file or directory\n",
        "pppp",
    ),
    "the second is missing": (GOOD, "fppp"),
    "the second is missing, one is not read": (f"{GOOD}ibpanic: [9] main: stat of IB device 'mlx5_an0' failed: No such file\n", "fppp"),
    "no adapter": ("ibpanic: [7] main: stat of IB device 'mthca0' failed: No such file or directory\n", "f"),
    "title of the second is lost": (GOOD + card("mlx5_1", 0xB95).partition("\n")[2], "uppp"),
    "title of the port is lost": (GOOD + card("mlx5_1", 0xB95).replace("\tPort 1:\n", ""), "puuu"),
    "down": (GOOD + card("mlx5_1", 0xB95, State="Down", Physical_state="Polling", Rate="10"), "pfpp"),
    "disabled": (GOOD + card("mlx5_1", 0xB95, State="Down", Physical_state="Disabled", Rate="2.5"), "pfpp"),
    "without subnet manager": (GOOD + card("mlx5_1", 0xB95, State="Initializing", SM_lid="0"), "pfpp"),
    "recovering": (GOOD + card("mlx5_1", 0xB95, Physical_state="LinkErrorRecovery"), "pfpp"),
    "Ethernet": (GOOD + card("mlx5_1", 0xB95, Link_layer="Ethernet", SM_lid="0"), "ppfp"),
    "one lane": (GOOD + card("mlx5_1", 0xB95, Rate="100"), "pppf"),
    "SDR": (GOOD + card("mlx5_1", 0xB95, Rate="10"), "pppf"),
    "XDR": (GOOD + card("mlx5_1", 0xB95, Rate="800"), "pppf"),
    "unknown state": (GOOD + card("mlx5_1", 0xB95, State="???"), "pupu"),
    "no rate": (GOOD + card("mlx5_1", 0xB95, Rate=None), "pppu"),
    "damaged rate": (GOOD + card("mlx5_1", 0xB95, Rate="[N/A]"), "pppu"),
    "one down, one not read": (card("mlx5_0", 0xB94, State="Down", Physical_state="Polling") + card("mlx5_1", 0xB95, State=None), "pfpu"),
}


@each_row("case", NODES)
def test_ports_are_judged_one_by_one(case):
    text, expected = NODES[case]
    assert node_verdicts(text) == expected


def test_port_without_answer_quotes_its_line():
    ports = parse_ports(NODES["the second is not read"][0])
    found, why = verdict_of(checks.test_ports_are_active, {}, planned_ports=list(ports))
    assert found is UNKNOWN and "stat of IB device 'mlx5_1' failed: Invalid argument" in why


def test_subnet_managers_are_compared_on_rails_alone():
    """The observer's own storage and Ethernet ports have other subnet managers, or none."""
    seen = parse_ports(GOOD + card("mlx5_7", 0xB97, Link_layer="Ethernet", SM_lid="0") + card("mlx5_8", 0xB98, SM_lid="44"))
    given = {"observer": CARD["node"], "fabric_node": "login0"}
    for lid, expected in (("1", PASSED), ("7", FAILED), ("[N/A]", UNKNOWN)):
        up = [parse_ports(card("mlx5_0", 0xB99, SM_lid=lid))[0]]
        assert verdict_of(checks.test_single_subnet_manager, {PORTS: lambda: seen}, up=up, **given)[0] is expected


DECLARED = SimpleNamespace(mlx5_0=SimpleNamespace(port_guid="0x0000000000000b94"), mlx5_1=SimpleNamespace(port_guid=None))


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        (GOOD + card("mlx5_1", 0xB95), PASSED, ""),
        (card("mlx5_0", 0xB95) + card("mlx5_1", 0xB94), FAILED, "expected mlx5_0: 0x0000000000000b94, found mlx5_0: 0x0000000000000b95"),
        (card("mlx5_0", 0xB94, Port_GUID=None) + card("mlx5_1", 0xB95), UNKNOWN, "Port GUID of mlx5_0"),
        (card("mlx5_1", 0xB95), FAILED, "found mlx5_0: missing"),
    ],
    ids=["as declared", "renamed", "GUID not read", "missing"],
)
def test_declared_adapters_have_their_guids(text, expected, said):
    """After a card is lost, the kernel may give its name to another one."""
    node = SimpleNamespace(name="worker0", rails=["mlx5_0", "mlx5_1"], adapters=DECLARED)
    found, why = verdict_of(checks.test_adapters_are_present, {PORTS: lambda: parse_ports(text)}, node=node)
    assert (found, said in why) == (expected, True), why


KERNEL = """mlx5_0|0000:0000:0000:0b94|0000:1a:00.0|94:6d:ae:f0:20:01 94:6d:ae:f0:20:02
mlx5_1|0000:0000:0000:0b95|0000:2b:00.0|
end|
"""
IDENTITIES = {
    "all as declared": ({"node_guid": "0x0000000000000b94", "pci": "0000:1a:00.0", "mac": "94:6d:ae:f0:20:01"}, KERNEL, PASSED, ""),
    "second interface of the card": ({"mac": "94:6d:ae:f0:20:02"}, KERNEL, PASSED, ""),
    "other MAC address": (
        {"mac": "94:6d:ae:f0:99:99"},
        KERNEL,
        FAILED,
        "expected mlx5_0 MAC address: 94:6d:ae:f0:99:99, found mlx5_0 MAC address: 94:6d:ae:f0:20:01, 94:6d:ae:f0:20:02",
    ),
    "other PCI address": ({"pci": "0000:9a:00.0"}, KERNEL, FAILED, "found mlx5_0 PCI address: 0000:1a:00.0"),
    "other node GUID": ({"node_guid": "0x0000000000000b99"}, KERNEL, FAILED, "found mlx5_0 node GUID: 0x0000000000000b94"),
    "no interface": ({"mac": "94:6d:ae:f0:20:01"}, KERNEL.replace("94:6d:ae:f0:20:01 94:6d:ae:f0:20:02", ""), UNKNOWN, "the MAC address"),
    "IP over InfiniBand": (
        {"mac": "94:6d:ae:f0:20:01"},
        KERNEL.replace("94:6d:ae:f0:20:01 94:6d:ae:f0:20:02", ":".join(["94"] * 20)),
        UNKNOWN,
        "the MAC address of mlx5_0",
    ),
    "damaged MAC address": ({"mac": "94:6d:ae:f0:20:02"}, KERNEL.replace("f0:20:01", "f0:20"), UNKNOWN, "the MAC address of mlx5_0"),
    "not on PCI": ({"pci": "0000:1a:00.0"}, KERNEL.replace("0000:1a:00.0", "device"), UNKNOWN, "the PCI address of mlx5_0"),
    "unknown to the kernel": ({"pci": "0000:1a:00.0"}, "end|\n", UNKNOWN, "the PCI address of mlx5_0"),
    "one value of two not read": (
        {"pci": "0000:9a:00.0", "mac": "94:6d:ae:f0:20:01"},
        KERNEL.replace("94:6d:ae:f0:20:01 94:6d:ae:f0:20:02", ""),
        FAILED,
        "PCI address",
    ),
    "no output": ({"pci": "0000:1a:00.0"}, "", UNKNOWN, "no adapter"),
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_declared_identities_are_compared(case):
    declared, kernel, expected, said = IDENTITIES[case]
    node = SimpleNamespace(name="worker0", rails=["mlx5_0", "mlx5_1"], adapters=SimpleNamespace(mlx5_0=SimpleNamespace(**declared)))
    answers = {PORTS: lambda: parse_ports(GOOD + card("mlx5_1", 0xB95)), ADAPTERS: lambda: ADAPTERS.read(CommandOutput(out=kernel))}
    found, why = verdict_of(checks.test_adapters_are_present, answers, node=node)
    assert (found, said in why) == (expected, True), why


def test_node_without_declared_adapters_runs_no_command():
    assert ADAPTERS.command_at(SimpleNamespace(node={"name": "worker0"}, declared=None)) == "echo 'end|'"


def test_adapter_without_identity_is_unread():
    found = parse_adapters("rxe0|5054:00ff:fe12:3456|device|\nrocep43s0f2|0000:0000:0000:0000|0000:2b:00.2|\nend|\n")
    assert found["rxe0"].node_guid == "0x505400fffe123456" and isinstance(found["rxe0"].pci, UnreadableValue)
    assert found["rocep43s0f2"].pci == "0000:2b:00.2" and isinstance(found["rocep43s0f2"].node_guid, UnreadableValue)


def interface(card, classes, name, **files):
    """Add an interface to a card: files of its folder by path."""
    folder = card / "net" / name
    for path, text in files.items():
        (folder / path.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (folder / path.replace("__", "/")).write_text(f"{text}\n")
    (classes / "net" / name).symlink_to(folder)


def test_command_reads_permanent_addresses_below_a_bond(tmp_path):
    """The members of a bond keep their own addresses; a representor of a virtual function has one drawn at random."""
    card, classes = tmp_path / "0000:1a:00.0", tmp_path / "class"
    (classes / "infiniband" / "mlx5_bond_0").mkdir(parents=True)
    (classes / "net").mkdir()
    (classes / "infiniband" / "mlx5_bond_0" / "device").symlink_to(card)
    (classes / "infiniband" / "mlx5_bond_0" / "node_guid").write_text("946d:ae03:00f0:a610\n")
    interface(card, classes, "ens1", addr_assign_type="3", address="94:6d:ae:f0:20:02", bonding_slave__perm_hwaddr="94:6d:ae:f0:20:01")
    interface(card, classes, "ens1v0", addr_assign_type="1", address="0a:00:00:00:00:01")
    interface(card, classes, "ens2", addr_assign_type="0", address="94:6d:ae:f0:20:03")
    place = SimpleNamespace(node={"adapters": {"mlx5_bond_0": {}}}, declared=None)
    command = ADAPTERS.command_at(place).replace("/sys/class", str(classes))
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    found = ADAPTERS.read(CommandOutput(out=done.stdout))["mlx5_bond_0"]
    assert (found.node_guid, found.pci, found.macs) == ("0x946dae0300f0a610", "0000:1a:00.0", ("94:6d:ae:f0:20:01", "94:6d:ae:f0:20:03"))
