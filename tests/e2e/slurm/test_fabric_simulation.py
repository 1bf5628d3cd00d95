"""The planned fabrics of 64 and of 256 nodes, simulated port by port: the subnet manager finds exactly the cable list."""

from __future__ import annotations

import pytest
from support.project import Project
from support.simulated_fabric import discover, plan_for

from rackwright.plan.fabric import netlist, wiring
from rackwright.plan.fabric.netlist import port_guids
from rackwright.report.fabric.comparison import compare
from rackwright.report.fabric.ibnetdiscover import guid_text, read_links

pytestmark = pytest.mark.podman
NDR = "4x NDR"


@pytest.fixture(scope="module")
def image(lab: Project) -> str:
    """Return the lab's image, which contains ibsim, OpenSM and the tools."""
    return str(lab.resources()["image"]["outputs"]["image"])


@pytest.mark.parametrize(("nodes", "ports", "switches"), [(64, 512, 24), (256, 2048, 96)])
def test_discovered_subnet_matches_plan(image: str, nodes: int, ports: int, switches: int) -> None:
    plan = plan_for(nodes)
    laid = wiring(plan)
    compared = compare((cable.row() for cable in laid.cables), read_links(discover(image, netlist(plan))), guids=port_guids(plan), rate=NDR)
    live = compared.live
    assert sum(end.node is not None for end in live.far) == ports
    assert len(live.switches) == switches
    assert len(live.far) == 2 * len(laid.cables)
    assert (compared.differences, compared.unknown) == ((), ())
    assert {guid_text(guid) for guid in live.links.kinds} == {guid_text(guid) for guid in port_guids(plan).values()}


def test_fabric_diff_finds_unplugged_and_swapped_cables(image: str) -> None:
    plan = plan_for(64)
    rows = [cable.row() for cable in wiring(plan).cables]
    swapped = [row for row in rows if row.startswith(("worker7/mlx5_2:", "worker7/mlx5_3:"))]
    (one, leaf), (other, other_leaf) = ([ibsim_end(end) for end in row.split()] for row in swapped)
    pulled = next(row for row in rows if row.startswith("worker9/mlx5_4:"))
    unlink = [f"Unlink {end}" for end in (one, other, ibsim_end(pulled.split()[0]))]
    text = discover(image, netlist(plan), *unlink, f"Link {one} {other_leaf}", f"Link {other} {leaf}")
    found = compare(rows, read_links(text), guids=port_guids(plan), rate=NDR).differences
    assert {str(difference.end) for difference in found} == {"worker7/mlx5_2:1", "worker7/mlx5_3:1", "worker9/mlx5_4:1"}
    assert f"{pulled.replace(' ', ' - ')} is missing" in map(str, found)


def ibsim_end(end: str) -> str:
    """Return a cable end in ibsim's notation."""
    device, _, port = end.rpartition(":")
    return f'"{device}"[{port}]'
