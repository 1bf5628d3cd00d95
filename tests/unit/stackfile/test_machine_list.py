"""A list of machines is read as it comes, and everything wrong with it is said at once, with the line."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.model import Cluster
from rackwright.stackfile.load import load_cluster
from rackwright.stackfile.machine_list import Row, as_nodes, read

KEY = "SHA256:" + "k" * 43
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHaSw601QLuAPAILOu5mzYiHEjI06gxucUPArdc/9DHt"


def cluster(workers: int = 3, machines: dict[str, Any] | None = None) -> Cluster:
    """One login node and some workers."""
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "debian-13", "machines": machines or {}},
            "network": {"cidr": "10.20.0.0/24"},
            "groups": {"login": {"count": 1}, "worker": {"count": workers}},
        }
    )
    assert loaded.cluster is not None
    return loaded.cluster


def said(text: str) -> list[str]:
    """Where and what, for each finding."""
    return [f"{finding.path}: {finding.cause}" for finding in read(text, "m.csv")[1]]


def test_every_column_becomes_a_field_and_empty_cells_none() -> None:
    head = "name,address,ssh_address,port,user,host_key,serial,rack,os\n"
    rows, findings = read(
        f"{head}worker0,10.20.0.3,gate.example.org,2200,admin,{KEY},CZ1,r1,debian-12\n\nworker1, 10.20.0.4,,,,,,,\n", "m.csv"
    )
    assert findings == []
    full = {
        "ssh_address": "gate.example.org",
        "port": 2200,
        "user": "admin",
        "host_key": KEY,
        "serial": "CZ1",
        "rack": "r1",
        "os": "debian-12",
    }
    assert rows == [Row(2, "worker0", {"address": "10.20.0.3", **full}), Row(4, "worker1", {"address": "10.20.0.4"})]


@pytest.mark.parametrize(
    ("cell", "stored"),
    [
        (f"{KEY}", KEY),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHaSw601QLuAPAILOu5mzYiHEjI06gxucUPArdc/9DHt root@w0", PUBLIC),
        ("10.20.0.3 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHaSw601QLuAPAILOu5mzYiHEjI06gxucUPArdc/9DHt", PUBLIC),
    ],
    ids=["fingerprint", "pub-file", "known-hosts"],
)
def test_host_key_is_stored_in_one_form(cell: str, stored: str) -> None:
    """Whatever form the list has, the stack file gets what is compared."""
    rows, findings = read(f"name,address,host_key\nworker0,10.20.0.3,{cell}\n", "m.csv")
    assert (rows, findings) == ([Row(2, "worker0", {"address": "10.20.0.3", "host_key": stored})], [])


def test_a_spreadsheet_s_file_is_read() -> None:
    """A byte order mark, semicolons, capitals, \\r\\n, and a fingerprint as ssh-keygen prints it."""
    rows, findings = read(f"\ufeffName;Address;Fingerprint\r\nworker0;10.20.0.3;256 {KEY} root@node (ED25519)\r\n", "m.csv")
    assert (rows, findings) == ([Row(2, "worker0", {"address": "10.20.0.3", "host_key": KEY})], [])


@pytest.mark.parametrize(
    "text",
    [
        "name,address,rack,,,\r\nnode001,10.20.0.3,r1,,,\r\n,,,,,\r\n",
        "\ufeffname;address;rack;;\nnode001;10.20.0.3;r1;;;;\n",
        "name\taddress\track\t\nnode001\t10.20.0.3\tr1\t\n",
        'Hostname,"IP",Rack\n"node001", 10.20.0.3 ,r1\n',
    ],
    ids=["empty-columns", "semicolons", "tabs", "quotes"],
)
def test_spreadsheet_of_any_form_is_read(text: str) -> None:
    (row,), findings = read(text, "m.csv")
    assert ((row.name, row.fields), findings) == (("node001", {"address": "10.20.0.3", "rack": "r1"}), [])


def test_a_range_is_as_many_machines() -> None:
    rows, findings = read("name,address,rack\nnode[008-010],10.20.0.11,r1\n", "m.csv")
    assert findings == []
    assert [(row.name, row.fields["address"], row.fields["rack"]) for row in rows] == [
        ("node008", "10.20.0.11", "r1"),
        ("node009", "10.20.0.12", "r1"),
        ("node010", "10.20.0.13", "r1"),
    ]


def test_everything_wrong_is_said_at_once_with_its_line() -> None:
    text = (
        "name,address,port,host_key,serial\n"
        "a,10.20.0,,,\n"
        "b,10.20.0.2,ssh,MD5:ab,\n"
        "c,10.20.0.3,,,,more\n"
        ",10.20.0.4,,,\n"
        "d[1-3],10.20.0.5,,,CZ1\n"
        "e[3-1],10.20.0.5,,,\n"
        "f[1-3],255.255.255.254,,,\n"
        "g,10.20.0.9,,,\n"
        "g,10.20.0.9,,,\n"
    )
    assert said(text) == [
        "m.csv:2: address: `10.20.0` is not an IPv4 address",
        "m.csv:3: port: expected a whole number, found `ssh`",
        "m.csv:3: host_key: `MD5:ab` is not an SSH host key",
        "m.csv:4: expected 5 cells, found 6",
        "m.csv:5: name: is missing",
        "m.csv:6: serial: cannot be the same for several machines",
        "m.csv:7: name: `e[3-1]` is not a range",
        "m.csv:8: address: the addresses of the range exceed 255.255.255.255",
        "m.csv:10: name: duplicate g, also in line 9",
        "m.csv:10: address: duplicate 10.20.0.9, also in line 9",
    ]


@pytest.mark.parametrize(
    ("head", "what"),
    [
        ("name,adress", ["m.csv:1: unknown column `adress`", "m.csv:1: column `address` is missing"]),
        ("name,address,fingerprint,host_key", ["m.csv:1: duplicate column `host_key`"]),
        ("", ["m.csv:1: column `name` is missing", "m.csv:1: column `address` is missing"]),
    ],
)
def test_columns_nobody_knows_are_named(head: str, what: list[str]) -> None:
    assert said(f"{head}\nx,10.20.0.1\n") == what


def listed(*names: str) -> list[Row]:
    """Machines of these names."""
    return [Row(line, name, {"address": f"10.20.0.{line}"}) for line, name in enumerate(names, 2)]


def test_machines_named_like_nodes_are_those_nodes() -> None:
    assert as_nodes(listed("worker1", "login0"), cluster(), None, "m.csv") == (
        {"worker1": {"address": "10.20.0.2"}, "login0": {"address": "10.20.0.3"}},
        [],
    )


def test_other_names_become_a_group_s_nodes_in_order_and_stay_as_labels() -> None:
    found, findings = as_nodes(listed("node001", "node002"), cluster(), "worker", "m.csv")
    assert findings == []
    assert found == {"worker0": {"address": "10.20.0.2", "label": "node001"}, "worker1": {"address": "10.20.0.3", "label": "node002"}}


def test_a_machine_that_has_a_node_keeps_it_whatever_the_list_s_order() -> None:
    """A list from which the first machine is gone must not move all others."""
    there = {"worker0": {"address": "10.20.0.2", "label": "node001"}, "worker1": {"address": "10.20.0.3", "label": "node002"}}
    found, findings = as_nodes(listed("node002", "node003"), cluster(machines=there), "worker", "m.csv")
    assert findings == []
    assert {node: fields["label"] for node, fields in found.items()} == {"worker1": "node002", "worker2": "node003"}


def test_a_machine_whose_address_a_node_has_is_that_node() -> None:
    """A range gave the addresses, the list brings names and keys."""
    found, findings = as_nodes(listed("n1", "n2"), cluster(machines={"worker[1-2]": {"address": "10.20.0.3"}}), "worker", "m.csv")
    assert findings == []
    assert {node: fields["label"] for node, fields in found.items()} == {"worker0": "n1", "worker1": "n2"}


def test_more_machines_than_nodes_are_told() -> None:
    (finding,) = as_nodes(listed("a", "b", "c", "d"), cluster(), "worker", "m.csv")[1]
    assert (finding.path, finding.cause) == ("m.csv:5: name", "no free node for d: all 3 nodes of group worker have a machine")


def test_a_name_of_no_node_is_told_with_the_way_out() -> None:
    (finding,) = as_nodes(listed("node001"), cluster(), None, "m.csv")[1]
    assert finding.cause == "no group declares a node node001" and "--group" in finding.hint
