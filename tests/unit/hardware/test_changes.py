"""Two hardware reports compared: devices are joined by identity, never by name, and what was not read is unknown."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace

import pytest
from rich.console import Console

from rackwright.errors import InputError
from rackwright.operations.hardware import read_report
from rackwright.report.hardware import changes
from rackwright.report.hardware.changes import compare
from rackwright.report.hardware.document import CollectedFacts, Section, with_changes
from rackwright.report.hardware.facts import Part
from rackwright.report.hardware.terminal import render

from .conftest import captured
from .test_document import SCHEMA, report


@pytest.fixture
def rack(declared, facts):
    """Return all nodes as planned; each worker has devices of its own."""
    return {name: CollectedFacts(_own(facts, number, gpus=name != "login0")) for number, name in enumerate(declared.nodes)}


def _own(facts, number, *, gpus):
    """Return facts whose identities occur on one node only."""
    mark = f"{number:02x}"
    return replace(
        facts,
        gpus=tuple(replace(one, uuid=f"{one.uuid[:-2]}{mark}") for one in facts.gpus) if gpus else None,
        gpu_links=facts.gpu_links if gpus else None,
        rdma=tuple(replace(one, node_guid=f"{one.node_guid[:-4]}{mark}{one.node_guid[-2:]}") for one in facts.rdma) if gpus else (),
        disks=tuple(replace(one, ids=tuple(f"{name}-{mark}" for name in one.ids)) for one in facts.disks),
        interfaces=tuple(replace(one, mac=f"{one.mac[:-2]}{mark}" if one.mac and one.driver else one.mac) for one in facts.interfaces),
    )


def changed(rack, node, **parts):
    """Return the rack with other devices on one node."""
    return {**rack, node: CollectedFacts(replace(rack[node].facts, **parts))}


def told(found):
    """Return the changes as kind, change, and both places."""
    return [(one.kind, one.change, one.before, one.after) for one in found.changes]


def test_same_devices_have_no_changes(declared, rack):
    found = compare(report(declared, rack), report(declared, rack))
    assert (found.verdict, found.changes, found.unknown, found.not_compared) == ("passed", (), (), ())


def test_new_numbers_of_gpus_and_disks_are_no_change(declared, rack):
    """Drivers number devices again at each start."""
    facts = rack["worker0"].facts
    gpus = tuple(replace(one, index=7 - one.index) for one in facts.gpus)
    disks = tuple(replace(one, name={"nvme0n1": "sda", "sda": "nvme0n1"}[one.name]) for one in facts.disks)
    found = compare(report(declared, rack), report(declared, changed(rack, "worker0", gpus=gpus, disks=disks)))
    assert (found.verdict, found.changes) == ("passed", ())


def test_swapped_adapters_of_equal_name_are_reported(declared, rack):
    """The names are the same as before: a comparison by name would pass."""
    one, two = (rack[name].facts.rdma for name in ("worker0", "worker1"))
    after = changed(changed(rack, "worker0", rdma=(two[0], *one[1:])), "worker1", rdma=(one[0], *two[1:]))
    found = compare(report(declared, rack), report(declared, after))
    assert told(found) == [
        ("adapter", "moved", "worker0 0000:1a:00.0", "worker1 0000:1a:00.0"),
        ("adapter", "moved", "worker1 0000:1a:00.0", "worker0 0000:1a:00.0"),
    ]
    assert found.verdict == "failed"


def test_renamed_adapter_is_reported_by_guid(declared, rack):
    ports = rack["worker0"].facts.rdma
    after = changed(rack, "worker0", rdma=(replace(ports[0], device="ibp26s0"), *ports[1:]))
    (change,) = compare(report(declared, rack), report(declared, after)).changes
    assert (change.identity, change.change, change.before, change.after) == (
        ports[0].node_guid,
        "renamed",
        "worker0 mlx5_0",
        "worker0 ibp26s0",
    )


def test_replaced_and_missing_gpus_are_named(declared, rack):
    gpus = rack["worker0"].facts.gpus
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    after = changed(rack, "worker0", gpus=(replace(gpus[0], uuid=uuid), *gpus[1:7]))
    found = compare(report(declared, rack), report(declared, after))
    assert told(found) == [
        ("GPU", "replaced", "worker0 0000:1b:00.0", f"worker0 0000:1b:00.0 {uuid}"),
        ("GPU", "missing", "worker0 0000:df:00.0", ""),
    ]
    assert [one.identity for one in found.changes] == [gpus[0].uuid, gpus[7].uuid]


def test_disk_keeps_identity_under_new_udev_names(declared, rack):
    """Newer udev adds names; one common name is enough. A disk without a common name is another disk."""
    disks = rack["worker0"].facts.disks
    more = replace(disks[0], ids=(disks[0].ids[-1], "nvme-uuid.5f0a3a52"))
    assert compare(report(declared, rack), report(declared, changed(rack, "worker0", disks=(more, disks[1])))).changes == ()
    other = replace(disks[0], ids=("nvme-eui.0025384500009999",))
    found = compare(report(declared, rack), report(declared, changed(rack, "worker0", disks=(other, disks[1]))))
    assert told(found) == [("disk", "missing", "worker0", ""), ("disk", "new", "", "worker0")]
    assert found.changes[0].identity.startswith("nvme-eui.")


def test_interface_of_infiniband_is_joined_by_port_guid(declared, rack):
    """The first bytes of its address change with each start of the driver."""
    *others, ib0 = rack["worker0"].facts.interfaces
    again = replace(ib0, mac=f"00:00:15:aa{ib0.mac[11:]}")
    assert compare(report(declared, rack), report(declared, changed(rack, "worker0", interfaces=(*others, again)))).changes == ()


def test_virtual_function_beside_its_interface_is_one_device(declared, rack):
    """Azure: hv_netvsc and the virtual function below it have one MAC address."""
    card = next(one for one in rack["worker0"].facts.interfaces if one.driver)
    pair = (replace(card, name="eth0", driver="hv_netvsc", bus=""), replace(card, name="enP1s1"))
    before = changed(rack, "worker0", interfaces=pair)
    found = compare(report(declared, before), report(declared, changed(rack, "worker0", interfaces=pair[::-1])))
    assert (found.verdict, found.changes) == ("passed", ())


def test_unread_part_is_unknown_and_not_missing(declared, rack):
    why = {Part.GPUS: "gpus: the command ended with status 9"}
    after = {
        **rack,
        "worker1": CollectedFacts(replace(rack["worker1"].facts, gpus=None, unknown=why)),
        "worker2": CollectedFacts(unreachable="is unreachable"),
    }
    found = compare(report(declared, rack), report(declared, after))
    assert (found.verdict, found.changes) == ("unknown", ())
    assert any(line.startswith("GPUs of worker1: gpus: the command ended with status 9") for line in found.unknown)
    assert any(line.startswith("adapters of worker2: is unreachable") for line in found.unknown)


def test_identity_on_two_nodes_is_unknown(declared, rack):
    gpus = rack["worker0"].facts.gpus
    twin = changed(rack, "worker1", gpus=(gpus[0], *rack["worker1"].facts.gpus[1:]))
    found = compare(report(declared, twin), report(declared, twin))
    assert found.unknown == (f"GPU {gpus[0].uuid} is on worker0 and worker1",)
    assert found.verdict == "unknown"


def test_device_without_identity_is_listed(declared, rack):
    found = compare(report(declared, rack), report(declared, changed(rack, "worker0", rdma=captured(Part.RDMA, "good-roce"))))
    assert found.not_compared == (
        "worker0: adapter rocep43s0f2 has no identity",
        "worker0: adapter rdmap16s27 has no identity",
    )


def test_simulated_parts_are_not_compared(inventory, rack):
    from rackwright.inventory.reader import from_inventory

    inventory["all"]["vars"]["cluster"]["simulated"] = ["capacity", "gpu", "fabric"]
    lab = from_inventory(inventory)
    after = changed(rack, "worker0", gpus=rack["worker0"].facts.gpus[:7], rdma=(), disks=())
    found = compare(report(lab, rack), report(lab, after))
    assert (found.changes, found.verdict) == ((), "passed")
    found = compare(report(lab, rack, Section.GPU), report(lab, after, Section.GPU))
    assert found.verdict == "unknown"


def test_document_with_changes_is_valid_and_shown(declared, rack):
    after = changed(rack, "worker0", gpus=rack["worker0"].facts.gpus[:7])
    found = with_changes(report(declared, after), compare(report(declared, rack), report(declared, after)))
    SCHEMA.validate(json.loads(json.dumps(found)))
    console = Console(width=110, color_system=None, highlight=False)
    with console.capture() as output:
        console.print(render(found))
    assert f"GPU {rack['worker0'].facts.gpus[7].uuid}  missing: worker0 0000:df:00.0" in " ".join(output.get().split("\n"))
    assert found["verdict"] == "failed"


def test_only_reports_with_identities_are_read(declared, rack, tmp_path):
    file = tmp_path / "before.json"
    found = report(declared, rack)
    file.write_text(json.dumps(found))
    assert read_report("rack", file) == found
    for text, says in (
        ("{", "cannot be read"),
        ("[]", "expected rackwright.hardware/4, found None"),
        (json.dumps({**found, "schema": "rackwright.hardware/3"}), "found rackwright.hardware/3"),
        (json.dumps({**found, "stack": "other"}), "is a report of stack other"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=says):
            read_report("rack", file)


def test_docstring_examples_of_changes_hold():
    failed, tried = doctest.testmod(changes)
    assert (failed, bool(tried)) == (0, True)
