"""The fabric in ibsim's format (ibsim 0.12: the format of ibnetdiscover, one node per HCA)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rackwright.errors import InputError
from rackwright.model.fabric.switches import MAX_RAILS, FabricKind
from rackwright.plan.fabric.wiring import Cable, Level, Switch, Wiring, wiring

if TYPE_CHECKING:
    from rackwright.plan.fabric.schema import FabricPlan
    from rackwright.plan.schema import Plan

_VENDOR: Final = "0x2c9"
_HCA: Final = "0x1021"
"""ConnectX-7 (pci.ids)."""
_HCA_GUID: Final = 0xA088C20300000000
_SWITCH_GUID: Final = 0xFC6A1C0300000000
"""First GUIDs of a simulated fabric. The upper 24 bits are those of real HCAs and switches of NVIDIA, so that tools that read the vendor
recognise them; the rest is a counter."""
_CORE_GUID: Final = 0xFC6A1C0380000000
"""First GUID of the cores of a fabric with three levels."""
_APART: Final = 0x100
"""ibsim gives a port of an HCA the GUID of its node plus the number of the port, which is 1, and the ports of a switch the switch's."""


def description(device: str) -> str:
    """Return a device's node description in the fabric: `worker0 mlx5_3` for an HCA, the name for a switch."""
    return device.replace("/", " ")


def netlist(plan: Plan) -> str:
    """Return the whole netlist. Raise InputError if the plan has no InfiniBand fabric."""
    fabric = plan.fabric
    if fabric is None or fabric.kind is not FabricKind.INFINIBAND:
        raise InputError(
            "the stack has no InfiniBand fabric", path="fabric", hint="declare `kind: infiniband`: only InfiniBand can be simulated"
        )
    return "\n".join(_blocks(fabric, wiring(plan)))


def _blocks(fabric: FabricPlan, laid: Wiring) -> Iterator[str]:
    ends: dict[str, list[tuple[int, str, int]]] = {}
    for cable in laid.cables:
        ends.setdefault(cable.device, []).append((cable.port, cable.switch, cable.switch_port))
        ends.setdefault(cable.switch, []).append((cable.switch_port, cable.device, cable.port))
    places = {placement.node: placement.place for placement in laid.placements}
    for cable in laid.cables:
        if "/" in cable.device:
            kind = f'Ca 1 "{cable.device}"'
            yield _block(fabric, kind, cable.device, f"devid={_HCA}\ncaguid={_hca_guid(cable, places):#018x}", ends[cable.device])
    for switch in laid.switches:
        kind = f'Switch {fabric.ports} "{switch.name}"'
        yield _block(fabric, kind, switch.name, f"switchguid={_switch_guid(switch):#018x}", ends[switch.name])


def port_guids(plan: Plan) -> dict[str, int]:
    """Return the GUID of each device in the simulated fabric: that of an HCA's port, or of a switch. Empty without a fabric."""
    laid = wiring(plan)
    places = {placement.node: placement.place for placement in laid.placements}
    hcas = {cable.device: _hca_guid(cable, places) + cable.port for cable in laid.cables if "/" in cable.device}
    return hcas | {switch.name: _switch_guid(switch) for switch in laid.switches}


def _hca_guid(cable: Cable, places: Mapping[str, int]) -> int:
    """Return the GUID of an HCA by place and rail, so that it is constant when nodes are added; the subnet manager's is the first."""
    if cable.rail is None:
        return _HCA_GUID + _APART
    return _HCA_GUID + ((places[cable.device.split("/")[0]] + 1) * MAX_RAILS + cable.rail) * _APART


def _switch_guid(switch: Switch) -> int:
    if switch.level is Level.CORE:
        return _CORE_GUID + (switch.number + 1) * _APART
    return _SWITCH_GUID + (2 * switch.number + (switch.level is Level.SPINE) + 1) * _APART


def _block(fabric: FabricPlan, kind: str, device: str, head: str, ends: list[tuple[int, str, int]]) -> str:
    speed = f"{fabric.width}{fabric.speed}"
    lines = [
        f'[{port}] "{other}"[{other_port}]  # "{description(other)}" lid 0 {speed}'
        if "/" in other
        else f'[{port}] "{other}"[{other_port}]  # lid 0 lmc 0 "{description(other)}" lid 0 {speed}'
        for port, other, other_port in sorted(ends)
    ]
    return "\n".join((f"vendid={_VENDOR}", head, f'{kind}  # "{description(device)}"', *lines, ""))
