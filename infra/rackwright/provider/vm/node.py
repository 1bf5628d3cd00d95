"""A virtual machine: a folder with a disk, and a process of QEMU."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from rackwright.drivers import ssh_connections
from rackwright.drivers.vm import disks, machine
from rackwright.drivers.vm.acceleration import choose
from rackwright.drivers.vm.command_line import FORWARD_ADDRESS, FORWARD_GATEWAY, FORWARD_MAC, FORWARD_RESOLVER
from rackwright.drivers.vm.identity import CardAddress, Identity
from rackwright.drivers.vm.machine_spec import Disk, Forward, Interface, MachineSpec
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource
from rackwright.provider.vm.node_failure import failure_of

_INTERFACE: Final = "eth0"
_OUTSIDE: Final = "nat0"
"""Interface of forwarded connections. Only cloud-init gives it this name."""
_MTU: Final = 1500
"""Bytes of an Ethernet payload (IEEE 802.3), which the user-space network carries."""


class Node(Resource):
    """Inputs: see `required`, `volumes` {mount: file}, `published` ["address:port:22"], and two that only some machines have.

    `rails`, with a fabric: further cards {name, mac, address (10.0.0.1/24), mtu}, in order of the interfaces' numbers.
    `cloud_image`: true where `image` is that of a vendor.

    Outputs: the inputs, with `image` as the image of the machine's disk, `status`, and `instance_uid`, which changes at every start of the
    process. A reboot of the guest keeps it.
    """

    token: ClassVar[str] = "rackwright:vm:Node"
    required: ClassVar[tuple[str, ...]] = (
        "stack",
        "name",
        "image",
        "network",
        "acceleration",
        "address",
        "prefix",
        "mac",
        "cpus",
        "memory_mib",
        "host_key",
        "host_public_key",
        "authorized_key",
    )
    replace_on_changes: ClassVar[frozenset[str]] = frozenset(
        {
            *("stack", "name", "network", "address", "prefix", "mac", "published", "host_public_key", "authorized_key"),
            *("cpus", "memory_mib", "volumes", "rails", "cloud_image"),
        }
    )
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"image", "host_key", "acceleration"})

    def apply_defaults(self, news: Properties) -> Properties:
        """Add the defaults; a declared machine runs."""
        return {"volumes": {}, "published": [], **news, "status": machine.RUNNING}

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add `status` for a machine that has ended, started again, been paused or panicked since the last run.

        A reboot of this machine ends all of them. A machine whose process does not respond is included: its update
        reports the cause.
        """
        recorded: bool = await asyncio.to_thread(_is_as_recorded, state)
        return found if found.changes or recorded else found.with_change("status")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown instance_uid."""
        return {**news, "instance_uid": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Create and start the machine. Replace what a killed run left: its disk may be incomplete."""
        folder = _folder(news)
        await asyncio.to_thread(machine.remove, folder)
        await ssh_connections.close(news["stack"], news["name"])
        await operation.status("starting")
        accelerated = await asyncio.to_thread(choose, str(news["acceleration"]), Path(news["image"]))
        live = await asyncio.to_thread(machine.create, folder, _spec(news, accelerated), _identity(news))
        return LiveResource(str(folder), {**news, "instance_uid": live.instance_uid, "status": live.status})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the machine's state. One that is stopped, paused or panicked differs from its declaration."""
        live = await asyncio.to_thread(machine.look, Path(state.id))
        if live.status == machine.ABSENT:
            return None
        outputs = {**state.outputs, "status": live.status, "instance_uid": live.instance_uid or state.outputs.get("instance_uid")}
        return LiveResource(state.id, outputs, inputs={**state.inputs, "status": live.status})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Bring the machine back: continue it, start it from its disk, also after a panic, or create it again. Warn with the reason."""
        folder = Path(state.id)
        live = await asyncio.to_thread(machine.look, folder)
        if live.status == machine.ABSENT:
            return await self.create(operation, news)
        act: dict[str, Any] = {machine.STOPPED: machine.start, machine.PAUSED: machine.resume, machine.PANICKED: _restart}
        if live.status in act:
            if reason := await failure_of(operation.stack, news["name"], last=False):
                await operation.warn(f"{news['name']}: {reason}")
            await operation.status("starting")
            await asyncio.to_thread(act[live.status], folder)
            await ssh_connections.close(operation.stack, news["name"])
            live = await asyncio.to_thread(machine.look, folder)
        kept = {"image": state.outputs.get("image"), "acceleration": state.outputs.get("acceleration")}
        return LiveResource(state.id, {**news, **kept, "instance_uid": live.instance_uid, "status": live.status})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the machine and its disk, reachable or not. Volumes stay."""
        await asyncio.to_thread(machine.remove, Path(state.id))
        await ssh_connections.close(operation.stack, state.inputs["name"])


def _is_as_recorded(state: RecordedState) -> bool:
    """Return whether the machine runs since its recorded start."""
    folder = Path(state.id)
    try:
        return machine.is_up(folder, str(state.outputs.get("instance_uid"))) and machine.look(folder).status == machine.RUNNING
    except UndeterminedError:
        return False


def _restart(folder: Path) -> machine.LiveMachine:
    """End the process and start another: its new instance_uid makes the playbooks and the checks run again."""
    machine.stop(folder)
    return machine.start(folder)


def _folder(news: Properties) -> Path:
    return paths.machine(news["stack"], str(news["name"]))


def _spec(news: Properties, acceleration: str) -> MachineSpec:
    name = str(news["name"])
    return MachineSpec(
        stack=news["stack"],
        name=name,
        id=str(uuid.uuid4()),
        image=news["image"],
        acceleration=acceleration,
        cpus=int(news["cpus"]),
        memory_mib=int(news["memory_mib"]),
        interfaces=(_card(name, _INTERFACE, news["mac"], _MTU), *(_card(name, **_link_of(rail)) for rail in news.get("rails", ()))),
        forwards=tuple(_forward(one) for one in news["published"]),
        disks=tuple(Disk(file=file, serial=disks.serial(Path(file).stem)) for _, file in sorted(news["volumes"].items())),
        cloud_image=bool(news.get("cloud_image", False)),
    )


def _card(machine_name: str, name: str, mac: str, mtu: int) -> Interface:
    return Interface(name=name, mac=mac, mtu=mtu, peer=f"../../network/{machine_name}.{name}.sock")


def _link_of(rail: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rail without its address. The engine passes numbers as floating-point ones."""
    return {"name": rail["name"], "mac": rail["mac"], "mtu": int(rail["mtu"])}


def _forward(published: str) -> Forward:
    listen, port, _ = published.rsplit(":", 2)
    return Forward(listen=listen, port=int(port))


def _identity(news: Properties) -> Identity:
    cards = [CardAddress(_INTERFACE, news["mac"], f"{news['address']}/{int(news['prefix'])}", _MTU)]
    cards += [CardAddress(rail["name"], rail["mac"], rail["address"], int(rail["mtu"])) for rail in news.get("rails", ())]
    if news.get("cloud_image"):
        cards.append(CardAddress(_OUTSIDE, FORWARD_MAC, FORWARD_ADDRESS, _MTU, FORWARD_GATEWAY, FORWARD_RESOLVER))
    elif news["published"]:
        cards.append(CardAddress(_OUTSIDE, FORWARD_MAC, FORWARD_ADDRESS, _MTU))
    return Identity(
        hostname=news["name"],
        host_key=news["host_key"],
        host_public_key=news["host_public_key"],
        authorized_key=news["authorized_key"],
        cards=tuple(cards),
    )
