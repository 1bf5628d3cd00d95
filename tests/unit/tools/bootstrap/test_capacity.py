"""Memory, storage and the published port."""

from __future__ import annotations

import errno
import socket

import pytest

from bootstrap.machine_checks import capacity
from bootstrap.machine_checks.capacity import Storage
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.lab_stack import LabStack

STACK = LabStack("lab", 4, False, (2222,), "127.0.0.1")
MEMINFO = "MemTotal:       16384000 kB\nMemFree:          512000 kB\nMemAvailable:    8192000 kB\n"
MOUNTS = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 22 0:40 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
41 22 0:41 / /home/scratch\\040disk rw shared:3 - xfs /dev/vdb rw
42 22 0:42 / /home/a\\134b rw - tmpfs  rw
43 22 0:43 / /home/cut rw -
"""


@pytest.mark.parametrize(
    ("meminfo", "level"),
    [
        (MEMINFO, Level.OK),
        (MEMINFO.replace("8192000", "1638400"), Level.OK),
        (MEMINFO.replace("8192000", "1637000"), Level.WARNING),
        ("", Level.UNKNOWN),
    ],
)
def test_memory_is_judged(meminfo: str, level: Level) -> None:
    assert capacity.judge_memory(STACK, meminfo).level is level


def test_little_memory_says_estimate() -> None:
    finding = capacity.judge_memory(STACK, MEMINFO.replace("8192000", "1024000"))
    assert "expected about 1600 MiB, an estimate of 400 MiB for each; found 1000 MiB" in finding.found
    assert finding.commands == ("make up STACK=lab-small",)


def test_kubernetes_nodes_take_more_memory() -> None:
    meminfo = MEMINFO.replace("8192000", "2000000")
    assert capacity.judge_memory(STACK, meminfo).level is Level.OK
    assert capacity.judge_memory(STACK._replace(is_kubernetes=True), meminfo).level is Level.WARNING


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home/alice", "nfs4"),
        ("/home/scratch disk/x", "xfs"),
        ("/home/a\\b/c", "tmpfs"),
        ("/home/cut", "nfs4"),
        ("/homework", "ext4"),
        ("/", "ext4"),
    ],
)
def test_file_system_is_found(path: str, kind: str) -> None:
    assert capacity.file_system(MOUNTS, path) == kind


@pytest.mark.parametrize(
    ("storage", "is_root", "level"),
    [
        (Storage("/s", 20.0, "ext4"), False, Level.OK),
        (Storage("/s", 2.0, "xfs"), False, Level.WARNING),
        (Storage("/s", 0.1, "xfs"), True, Level.ERROR),
        (Storage("/s", 900.0, "nfs4"), False, Level.ERROR),
        (Storage("/s", 900.0, "nfs4"), True, Level.OK),
        (Storage("/s", 900.0, "lustre"), False, Level.ERROR),
        (Storage("/s", 900.0, "gpfs"), False, Level.ERROR),
        (Storage("/s", 900.0, "fuse.mfs"), False, Level.ERROR),
        (Storage("/s", 900.0, "btrfs"), False, Level.OK),
        (Storage("/s", None, ""), False, Level.UNKNOWN),
    ],
)
def test_storage_is_judged(storage: Storage, is_root: bool, level: Level) -> None:
    assert capacity.judge_storage(storage, is_root).level is level


@pytest.mark.parametrize(
    ("user_id", "system", "own", "folder"),
    [
        (0, "", "", "var/lib/containers/storage"),
        (0, '[storage]\ngraphroot = "/data/containers"\n', "", "data/containers"),
        (0, '# graphroot = "/data/containers"\n', "", "var/lib/containers/storage"),
        (1000, 'graphroot = "/data/containers"\n', "", "home/alice/.local/share/containers/storage"),
        (1000, 'rootless_storage_path = "/scratch/alice"\n', "", "scratch/alice"),
        (1000, 'rootless_storage_path = "/scratch/$USER"\n', "", "home/alice/.local/share/containers/storage"),
        (1000, 'rootless_storage_path = "/scratch/alice"\n', 'graphroot = "/local/alice"\n', "local/alice"),
    ],
)
def test_storage_folder_is_podmans(make_machine, user_id: int, system: str, own: str, folder: str) -> None:
    machine = make_machine(user_id=user_id)
    assert capacity.storage_folder(machine, system, own) == machine.root / folder


def test_storage_is_observed_below_existing_folder(make_machine) -> None:
    machine = make_machine({"/proc/self/mountinfo": MOUNTS, "/home/alice/.config/containers/storage.conf": 'graphroot = "/local"\n'})
    seen = capacity.observe_storage(machine)
    assert seen.folder == str(machine.root / "local")
    assert seen.free is not None
    assert seen.file_system == "ext4"


@pytest.mark.parametrize(
    ("free", "needed", "level"), [(10.0, 6.0, Level.OK), (0.2, 0.0, Level.OK), (6.0, 6.0, Level.OK), (5.9, 6.0, Level.WARNING)]
)
def test_home_is_judged(free: float, needed: float, level: Level) -> None:
    assert capacity.judge_home("/home/alice", True, free, needed, "alice").level is level


def test_home_of_another_user_is_error() -> None:
    finding = capacity.judge_home("/root", False, 100.0, 0.0, "alice")
    assert finding.level is Level.ERROR
    assert finding.commands == ('export HOME="$(getent passwd alice | cut -d: -f6)"',)


def test_home_is_checked_before_it_exists(make_machine) -> None:
    assert capacity.check_home(make_machine(), 1e9).level is Level.WARNING
    assert capacity.check_home(make_machine(), 0.0).level is Level.OK


def test_checkout_of_root_is_error() -> None:
    finding = capacity.judge_checkout("/home/alice/rackwright", ["/home/alice/rackwright/.venv"], "alice")
    assert finding.level is Level.ERROR
    assert finding.commands == ("sudo chown -R alice: /home/alice/rackwright",)
    assert capacity.judge_checkout("/home/alice/rackwright", [], "alice").level is Level.OK


@pytest.mark.parametrize(
    ("error", "held", "level", "words"),
    [
        (0, False, Level.OK, "is free"),
        (errno.EADDRINUSE, True, Level.OK, "held by this stack"),
        (errno.EADDRINUSE, False, Level.ERROR, "in use"),
        (errno.EADDRNOTAVAIL, False, Level.ERROR, "Cannot assign requested address"),
        (errno.EACCES, False, Level.ERROR, "Permission denied"),
    ],
)
def test_port_is_judged(error: int, held: bool, level: Level, words: str) -> None:
    finding = capacity.judge_port(STACK, 2222, error, held)
    assert finding.level is level
    assert words in finding.found


def test_listener_is_found_on_port() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        stack = STACK._replace(ports=(port,))
        assert [each.level for each in capacity.check_ports(stack, lambda: False)] == [Level.ERROR]
        assert [each.level for each in capacity.check_ports(stack, lambda: True)] == [Level.OK]
    assert [each.level for each in capacity.check_ports(stack, lambda: False)] == [Level.OK]


@pytest.mark.parametrize(("script", "is_up"), [("echo lab-login0", True), ("true", False), ("echo x; exit 125", False)])
def test_containers_of_stack_are_listed(make_machine, script: str, is_up: bool) -> None:
    machine = make_machine(commands={"podman": f'[ "$3" = label=rackwright.stack=lab ] || exit 9; {script}'})
    assert capacity.has_containers(machine, STACK) is False
    (machine.root / "home/alice/.local/share/containers/storage").mkdir(parents=True)
    assert capacity.has_containers(machine, STACK) is is_up


def test_running_stack_holds_memory(make_machine) -> None:
    machine = make_machine({"/proc/meminfo": MEMINFO.replace("8192000", "1000")})
    assert capacity.check_capacity(machine, STACK._replace(ports=()), lambda: True)[0].level is Level.OK
    assert capacity.check_capacity(machine, STACK._replace(ports=()), lambda: False)[0].level is Level.WARNING
