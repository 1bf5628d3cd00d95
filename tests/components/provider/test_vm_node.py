"""The resource of a virtual machine, with a stand-in for QEMU: created, lost, brought back in place, deleted."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standins import qemu
from support.killing import kill

from rackwright.drivers.vm import machine, machine_spec, qmp, sweep
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext
from rackwright.provider.vm.node import Node
from rackwright.provider.vm.node_failure import failure_of


async def ignore(line: str) -> None:
    """Drop a progress message."""


OPERATION = RequestContext("urn", "small", "n", preview=False, status=ignore, info=ignore, warn=ignore)


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Properties]:
    """Yield the inputs of a machine; remove what is left of its stack."""
    programs, image = tmp_path / "bin", tmp_path / "image"
    qemu.install(programs)
    image.mkdir()
    for name in ("vmlinuz", "initrd.img", "root.raw"):
        (image / name).touch()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "state"))
    declared = {"stack": "small", "name": "n", "image": str(image), "network": "net", "acceleration": "tcg", "address": "10.0.0.5"}
    own = {"prefix": 24, "mac": "02:00:00:00:00:01", "cpus": 1, "memory_mib": 512, "published": ["127.0.0.1:2299:22"]}
    keys = {"host_key": "PRIVATE", "host_public_key": "ssh-ed25519 A", "authorized_key": "ssh-ed25519 B"}
    yield Node().apply_defaults({**declared, **own, **keys})
    sweep.remove_all(paths.machines("small"))


def recorded(live: LiveResource, inputs: Properties) -> RecordedState:
    """Return what the engine records of a live resource."""
    return RecordedState(live.id, inputs, live.outputs)


def create(inputs: Properties) -> RecordedState:
    """Create the machine."""
    return recorded(asyncio.run(Node().create(OPERATION, inputs)), inputs)


def changes(state: RecordedState, news: Properties) -> dict[str, Any]:
    """Return what an `up` without a refresh would change."""
    node = Node()
    return dict(asyncio.run(node.add_live_changes("small", state, node.diff(state, news))).changes)


def kill_machine(state: RecordedState) -> None:
    """Kill the machine's process."""
    found = machine._process(Path(state.id))
    assert found is not None
    kill(found[0])


def test_running_machine_needs_no_change(inputs: Properties) -> None:
    state = create(inputs)
    assert changes(state, inputs) == {}


def test_changed_memory_replaces_the_machine(inputs: Properties) -> None:
    state = create(inputs)
    assert {path: change.value for path, change in changes(state, {**inputs, "memory_mib": 1024}).items()} == {
        "memory_mib": "update-replace"
    }


def test_new_image_applies_to_new_machines_only(inputs: Properties) -> None:
    assert changes(create(inputs), {**inputs, "image": "/another"}) == {}


def test_killed_machine_is_seen_without_a_refresh_and_brought_back(inputs: Properties) -> None:
    state = create(inputs)
    kill_machine(state)
    assert set(changes(state, inputs)) == {"status"}
    live = asyncio.run(Node().update(OPERATION, state, inputs))
    assert live.outputs["status"] == machine.RUNNING
    assert live.outputs["instance_uid"] != state.outputs["instance_uid"]


def test_start_of_an_ended_machine_warns_with_its_last_messages(inputs: Properties) -> None:
    warned: list[str] = []

    async def note(line: str) -> None:
        warned.append(line)

    state = create(inputs)
    kill_machine(state)
    Path(state.id, "qemu.log").write_text("ERROR:../accel/tcg/tcg-accel-ops.c: assertion failed\n")
    Path(state.id, "console.log").write_text("".join(f"[   {second}.0] line\n" for second in range(20)))
    operation = RequestContext("urn", "small", "n", preview=False, status=ignore, info=ignore, warn=note)
    asyncio.run(Node().update(operation, state, inputs))
    (line,) = warned
    assert line.startswith("n: the virtual machine's process has ended; the last lines of QEMU and its console: ERROR:../accel/tcg/")

    warned.clear()
    asyncio.run(Node().update(operation, state, inputs))
    assert warned == [], "a machine that runs has no failure"


def test_paused_machine_is_seen_without_a_refresh_and_continued(inputs: Properties) -> None:
    state = create(inputs)
    qmp.execute(Path(state.id), "stop")
    assert set(changes(state, inputs)) == {"status"}
    live = asyncio.run(Node().update(OPERATION, state, inputs))
    assert changes(recorded(live, inputs), inputs) == {} and live.outputs["instance_uid"] == state.outputs["instance_uid"]


def test_panicked_machine_is_seen_without_a_refresh_and_started_again(inputs: Properties) -> None:
    state = create(inputs)
    panic = Path(state.id, "panic")
    panic.touch()
    assert set(changes(state, inputs)) == {"status"}
    panic.unlink()
    live = asyncio.run(Node().update(OPERATION, state, inputs))
    assert live.outputs["status"] == machine.RUNNING
    assert live.outputs["instance_uid"] != state.outputs["instance_uid"], "playbooks and checks run again"


OOPS = """\
[  203.7] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[  203.7] RIP: 0010:dequeue_entity+0x86/0x580
[  203.7] Code: 00 00 00 48 89 83 90 00 00 00
[  203.7] Kernel panic - not syncing: Fatal exception in interrupt
[  203.7] ---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---
"""


def test_start_after_a_panic_warns_with_the_kernels_reason(inputs: Properties) -> None:
    """Seen with Linux 6.12: the console has no line of the oops until the paused guest continues."""
    warned: list[str] = []

    async def note(line: str) -> None:
        warned.append(line)

    state = create(inputs)
    Path(state.id, "panic").write_text(OOPS)
    operation = RequestContext("urn", "small", "n", preview=False, status=ignore, info=ignore, warn=note)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(machine, "start", lambda folder: machine.look(folder))
        asyncio.run(Node().update(operation, state, inputs))
    (line,) = warned
    assert line.startswith("n: the guest's kernel panicked: [  203.7] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI | [  203.7] RIP: 0010:")
    assert "Fatal exception in interrupt" in line and "Code:" not in line


def test_machine_whose_panic_was_reported_is_started_again(inputs: Properties) -> None:
    """The verification reports the reason, and the next `up` restores the machine."""
    state = create(inputs)
    panic = Path(state.id, "panic")
    panic.write_text(OOPS)
    reported = asyncio.run(failure_of("small", "n", last=False))
    assert reported is not None and "Oops: int3" in reported
    panic.unlink()  # QEMU now says that the guest is paused.
    assert machine.look(Path(state.id)).status == machine.PANICKED
    assert asyncio.run(failure_of("small", "n", last=False)) == reported
    live = asyncio.run(Node().update(OPERATION, state, inputs))
    assert live.outputs["instance_uid"] != state.outputs["instance_uid"]
    assert machine.look(Path(state.id)).status == machine.RUNNING
    assert asyncio.run(failure_of("small", "n", last=False)) is None


def test_machine_whose_process_does_not_respond_is_named(inputs: Properties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qmp, "_ANSWER", 0.2)
    state = create(inputs)
    found = machine._process(Path(state.id))
    assert found is not None
    os.kill(found[0], signal.SIGSTOP)
    try:
        assert set(changes(state, inputs)) == {"status"}
        with pytest.raises(UndeterminedError, match="n: QEMU does not respond"):
            asyncio.run(Node().update(OPERATION, state, inputs))
    finally:
        os.kill(found[0], signal.SIGCONT)


def test_machine_that_hangs_at_boot_is_named_with_the_command_that_ends_it(inputs: Properties) -> None:
    folder = Path(create(inputs).id)
    (folder / "console.log").write_text("[    3.5] Oops: int3: 0000\n\n")
    process = machine.process_id(folder)
    assert asyncio.run(failure_of("small", "n", last=False)) is None
    said = asyncio.run(failure_of("small", "n", last=True))
    assert said == (
        f"the virtual machine runs, and its SSH server does not respond (`kill {process}` ends it, and the next `up` starts it again); "
        "the last lines of QEMU and its console: [    3.5] Oops: int3: 0000"
    )
    kill(process)
    assert str(asyncio.run(failure_of("small", "n", last=False))).startswith("the virtual machine's process has ended")


def test_kernel_that_panics_before_qemu_sees_it_reboots(inputs: Properties) -> None:
    folder = Path(create(inputs).id)
    assert "panic=10" in Path(f"/proc/{machine.process_id(folder)}/cmdline").read_text().split("-append")[1].split("\0")[1].split()


def test_refresh_reports_a_stopped_machine(inputs: Properties) -> None:
    state = create(inputs)
    kill_machine(state)
    live = asyncio.run(Node().read(OPERATION, state))
    assert live is not None and live.inputs is not None and live.inputs["status"] == machine.STOPPED


def test_deleted_folder_is_a_deleted_resource(inputs: Properties) -> None:
    state = create(inputs)
    machine.remove(Path(state.id))
    assert asyncio.run(Node().read(OPERATION, state)) is None


def test_deletion_leaves_nothing(inputs: Properties) -> None:
    state = create(inputs)
    asyncio.run(Node().delete(OPERATION, state))
    asyncio.run(Node().delete(OPERATION, state))
    assert not Path(state.id).exists()


def test_sweep_finds_machines_by_the_folder_alone(inputs: Properties) -> None:
    state = create(inputs)
    assert sweep.remove_all(paths.machines("small")) == ["virtual machine n"]
    assert not Path(state.id).exists()


RAILS = [
    {"name": "eth1", "mac": "02:00:00:00:00:11", "address": "198.18.0.24/24", "mtu": 4400.0},
    {"name": "eth2", "mac": "02:00:00:00:00:12", "address": "198.18.1.24/24", "mtu": 4400.0},
]


def test_rails_are_further_cards_with_addresses(inputs: Properties) -> None:
    folder = Path(create({**inputs, "rails": RAILS}).id)
    spec = machine_spec.read(folder)
    assert spec is not None
    assert [(card.name, card.mac, card.mtu, card.peer) for card in spec.interfaces[1:]] == [
        ("eth1", "02:00:00:00:00:11", 4400, "../../network/n.eth1.sock"),
        ("eth2", "02:00:00:00:00:12", 4400, "../../network/n.eth2.sock"),
    ]
    credential = (folder / "credentials" / "network.network.10-eth2").read_bytes().partition(b"=")[2]
    assert "Address=198.18.1.24/24" in base64.b64decode(credential).decode() and "MTUBytes=4400" in base64.b64decode(credential).decode()


def test_other_rails_replace_the_machine_and_no_rails_change_nothing(inputs: Properties) -> None:
    state = create(inputs)
    assert changes(state, inputs) == {}
    assert "replace" in str(next(change.value for path, change in changes(state, {**inputs, "rails": RAILS}).items() if "rails" in path))
