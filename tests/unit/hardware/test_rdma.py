"""Ports of many adapters and releases: each cell is read by itself, and an unread one is unknown with its line."""

from __future__ import annotations

import pytest
from support.rows import each_row

from rackwright.checks.hardware.parsers import parse_ibstat, parse_sysfs

FE80 = "fe80:0000:0000:0000:"
PORT = {
    "device": "mlx5_0", "port": "1", "state": "4: ACTIVE", "physical": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "layer": "InfiniBand",
    "node": "0", "firmware": "28.39.1002", "guid": "946d:ae03:00f0:a610", "gid": f"{FE80}946d:ae03:00f0:a610", "bus": "0000:1a:00.0",
}  # fmt: skip


def row(**cells):
    """Return a line of the kernel's folders, as the command prints it, with these cells instead."""
    return "|".join((PORT | cells).values()) + "\n"


OF_KERNEL = {
    "ndr": ({}, ("Active", "LinkUp", 400.0, "InfiniBand")),
    "xdr": ({"rate": "800 Gb/sec (4X XDR)"}, ("Active", "LinkUp", 800.0, "InfiniBand")),
    "hdr100": ({"rate": "100 Gb/sec (2X HDR)"}, ("Active", "LinkUp", 100.0, "InfiniBand")),
    "fdr10": ({"rate": "40 Gb/sec (4X FDR10)"}, ("Active", "LinkUp", 40.0, "InfiniBand")),
    "sdr-one-lane": ({"rate": "2.5 Gb/sec (1X SDR)"}, ("Active", "LinkUp", 2.5, "InfiniBand")),
    "sdr-of-older-kernel": ({"rate": "10 Gb/sec (4X)"}, ("Active", "LinkUp", 10.0, "InfiniBand")),
    "down": ({"state": "1: DOWN", "physical": "3: Disabled", "rate": "10 Gb/sec (4X SDR)"}, ("Down", "Disabled", 10.0, "InfiniBand")),
    "test-of-the-link": ({"physical": "7: Phy Test"}, ("Active", "Phy Test", 400.0, "InfiniBand")),
    "polling": ({"state": "1: DOWN", "physical": "2: Polling"}, ("Down", "Polling", 400.0, "InfiniBand")),
    "without-subnet-manager": ({"state": "2: INIT"}, ("Initializing", "LinkUp", 400.0, "InfiniBand")),
    "armed": ({"state": "3: ARMED"}, ("Armed", "LinkUp", 400.0, "InfiniBand")),
    "deferred": ({"state": "5: ACTIVE_DEFER"}, ("Active_defer", "LinkUp", 400.0, "InfiniBand")),
    "no-rate": ({"rate": ""}, ("Active", "LinkUp", None, "InfiniBand")),
    "efa": (
        {"device": "rdmap16s27", "rate": "100 Gb/sec (4X EDR)", "layer": "Unknown", "guid": "0000:0000:0000:0000"},
        ("Active", "LinkUp", 100.0, "Unknown"),
    ),
    "omni-path": (
        {"device": "hfi1_0", "rate": "100 Gb/sec (4X EDR)", "guid": "0011:7501:0171:b0c2"},
        ("Active", "LinkUp", 100.0, "InfiniBand"),
    ),
    "broadcom": ({"device": "bnxt_re0", "layer": "Ethernet", "firmware": "227.1.111.0"}, ("Active", "LinkUp", 400.0, "Ethernet")),
    "intel-iwarp": (
        {"device": "irdma0", "layer": "Ethernet", "gid": "b49d:6912:3456:0000:0000:0000:0000:0000"},
        ("Active", "LinkUp", 400.0, "Ethernet"),
    ),
    "soft-roce": (
        {"device": "rxe0", "layer": "Ethernet", "node": "", "firmware": "", "bus": "device"},
        ("Active", "LinkUp", 400.0, "Ethernet"),
    ),
    "soft-iwarp": (
        {"device": "siw0", "layer": "Ethernet", "rate": "2.5 Gb/sec (1X SDR)", "bus": "device", "node": ""},
        ("Active", "LinkUp", 2.5, "Ethernet"),
    ),
    "physical-state-without-name": ({"physical": "0: <unknown>"}, ("Active", "<unknown>", 400.0, "InfiniBand")),
    "second-port": ({"port": "2", "device": "mlx4_0"}, ("Active", "LinkUp", 400.0, "InfiniBand")),
    "numa-of-virtual-machine": ({"node": "-1"}, ("Active", "LinkUp", 400.0, "InfiniBand")),
    "line-ends-of-dos": ({"bus": "0000:1a:00.0\r"}, ("Active", "LinkUp", 400.0, "InfiniBand")),
}


@each_row("case", OF_KERNEL)
def test_kernel_folders_are_read(case):
    cells, expected = OF_KERNEL[case]
    found = parse_sysfs(row(**cells))
    ((port,), why) = (found, found.why)
    assert ((port.state, port.physical, port.rate_gbps, port.link_layer), why) == (expected, "")


UNREAD = {
    "state": ({"state": ""}, (None, "LinkUp", 400.0, "InfiniBand"), "the state of mlx5_0 port 1 is empty"),
    "state-unknown-to-kernel": ({"state": "9: UNKNOWN"}, (None, "LinkUp", 400.0, "InfiniBand"), "the state of mlx5_0 port 1"),
    "physical-state": ({"physical": "5:"}, ("Active", None, 400.0, "InfiniBand"), "the physical state of mlx5_0"),
    "rate": ({"rate": "fast"}, ("Active", "LinkUp", None, "InfiniBand"), "the rate of mlx5_0 port 1"),
    "link-layer": ({"layer": "ERR!"}, ("Active", "LinkUp", 400.0, None), "the link layer of mlx5_0 port 1"),
    "node-guid": ({"guid": "[N/A]"}, ("Active", "LinkUp", 400.0, "InfiniBand"), "the node GUID of mlx5_0 port 1"),
    "gid": ({"gid": ""}, ("Active", "LinkUp", 400.0, "InfiniBand"), "the GUID of mlx5_0 port 1"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_unread_cell_leaves_the_others(case):
    cells, expected, why = UNREAD[case]
    found = parse_sysfs(row(**cells) + row(device="mlx5_1"))
    port, other = found
    assert (port.state, port.physical, port.rate_gbps, port.link_layer) == expected
    assert (other.state, other.rate_gbps) == ("Active", 400.0)
    assert why in found.why and "|5:" in found.why


CARD = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0x946dae0300f0a610
\tSystem image GUID: 0x946dae0300f0a610
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 15
\t\tLMC: 0
\t\tSM lid: 1
\t\tCapability mask: 0xa651e848
\t\tPort GUID: 0x946dae0300f0a611
\t\tLink layer: InfiniBand
"""
SECOND = CARD.partition("\tPort 1:")[2].replace("a611", "a612").replace("Active", "Down").replace("LinkUp", "Disabled")
OF_IBSTAT = {
    "connectx-7": (CARD, [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], ""),
    "ofed-name": (CARD.replace("mlx5_0", "HCA-1"), [("HCA-1", 1, "Active", 400.0, "InfiniBand")], ""),
    "kernel-name": (CARD.replace("mlx5_0", "roceP2p1s0f0"), [("roceP2p1s0f0", 1, "Active", 400.0, "InfiniBand")], ""),
    "fdr10": (CARD.replace("Rate: 400", "Rate: 40 (FDR10)"), [("mlx5_0", 1, "Active", 40.0, "InfiniBand")], ""),
    "sdr-one-lane": (CARD.replace("Rate: 400", "Rate: 2.5"), [("mlx5_0", 1, "Active", 2.5, "InfiniBand")], ""),
    "two-ports": (
        CARD.replace("ports: 1", "ports: 2") + "\tPort 2:" + SECOND,
        [("mlx5_0", 1, "Active", 400.0, "InfiniBand"), ("mlx5_0", 2, "Down", 400.0, "InfiniBand")],
        "",
    ),
    "soft-roce-without-type": (
        CARD.replace("MT4129", "").replace("28.39.1002", "").replace("layer: InfiniBand", "layer: Ethernet"),
        [("mlx5_0", 1, "Active", 400.0, "Ethernet")],
        "",
    ),
    "iwarp": (
        CARD.replace("CA '", "iWARP RNIC '").replace("CA type", "iWARP RNIC type"), [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], "",
    ),
    "line-ends-of-dos": (CARD.replace("\n", "\r\n"), [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], ""),
    "blanks-instead-of-tabs": (CARD.replace("\t", "        "), [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], ""),
    "zero-guid": (CARD.replace("0x946dae0300f0a610", f"0x{0:016x}"), [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], ""),
    "without-link-layer": (
        CARD.replace("\t\tLink layer: InfiniBand\n", ""), [("mlx5_0", 1, "Active", 400.0, None)], "the link layer of mlx5_0 port 1",
    ),
    "without-rate": (CARD.replace("\t\tRate: 400\n", ""), [("mlx5_0", 1, "Active", None, "InfiniBand")], "the rate of mlx5_0 port 1"),
    "state-without-name": (
        CARD.replace("State: Active", "State: ") + CARD.replace("mlx5_0", "mlx5_1"),
        [("mlx5_0", 1, None, 400.0, "InfiniBand"), ("mlx5_1", 1, "Active", 400.0, "InfiniBand")],
        "the state of mlx5_0 port 1",
    ),
    "port-missing": (CARD.replace("ports: 1", "ports: 2"), [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], "the number of ports of mlx5_0"),
    "second-adapter-not-read": (
        f"{CARD}ibpanic: [2817] main: stat of IB device 'mlx5_1' failed: Invalid argument\n",
        [("mlx5_0", 1, "Active", 400.0, "InfiniBand")],
        "stat of IB device 'mlx5_1' failed",
    ),
    "title-missing": (
        CARD + CARD.replace("CA 'mlx5_0'\n", ""), [("mlx5_0", 1, "Active", 400.0, "InfiniBand")], 'an adapter\'s title is missing',
    ),
}  # fmt: skip


@each_row("case", OF_IBSTAT)
def test_ibstat_is_read(case):
    text, expected, why = OF_IBSTAT[case]
    found = parse_ibstat(text)
    assert [(one.device, one.port, one.state, one.rate_gbps, one.link_layer) for one in found] == expected
    assert why in found.why and bool(why) == bool(found.why), found.why


@pytest.mark.parametrize("text", [CARD.replace("CA 'mlx5_0'\n", ""), "ibpanic: [1] main: stat of IB device 'mlx5_0' failed: x\n"])
def test_ibstat_without_port_raises(text):
    with pytest.raises(ValueError, match=r"adapter's title|stat of IB device"):
        parse_ibstat(text)
