"""Existing machines of a stack: import of a list, preflight scan and host keys, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.rack import FINGERPRINTS, Preflight, fitting, stack_text

from rackwright.drivers.host_facts import Declared
from rackwright.drivers.preflight import PreflightResult
from rackwright.errors import InputError, RackwrightError
from rackwright.inventory import paths
from rackwright.operations.hosts import preflight_scan
from rackwright.operations.hosts.host_keys import write_keys
from rackwright.operations.hosts.machine_import import import_machines
from rackwright.operations.hosts.preflight_scan import HostScan, scan_machines

STACK = stack_text("worker0: {address: 10.20.0.11, label: node001}", "worker1: {address: 10.20.0.12}")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stack file; the keys of both workers are missing."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    file = tmp_path / "Pulumi.rack.yaml"
    file.write_text(STACK)
    return file


@pytest.fixture
def preflight(monkeypatch: pytest.MonkeyPatch) -> Preflight:
    """The preflight of the machines."""
    found = Preflight()
    monkeypatch.setattr(preflight_scan, "run_preflight", found)
    return found


def test_import_returns_edit_and_counts(file: Path, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(f"name,address,host_key\nworker0,10.20.0.21,{FINGERPRINTS['worker0']}\nworker1,10.20.0.12,\n")
    found = import_machines(str(file), tmp_path / "m.csv", None)
    assert (found.added, found.updated, found.total, found.without_key) == (0, 2, 3, 1)
    assert file.read_text() == STACK and "10.20.0.21" in found.change.diff
    found.change.write()
    assert "10.20.0.21" in file.read_text()


def test_import_counts_new_machines(file: Path, tmp_path: Path) -> None:
    file.write_text(STACK.replace("        worker1: {address: 10.20.0.12}\n", ""))
    (tmp_path / "m.csv").write_text("name,address\nnode002,10.20.0.12\n")
    found = import_machines(str(file), tmp_path / "m.csv", "worker")
    assert (found.added, found.updated, found.total, found.without_key) == (1, 0, 3, 2)


@pytest.mark.parametrize(
    ("content", "group", "cause"),
    [
        (b"name,address\nworker0,10.20.0.21\n", "wroker", "--group: unknown group `wroker`"),
        (b"name,address\nworker9,10.20.0.21\n", None, "no group declares a node worker9"),
        (b"name,address\n", None, "contains no machine"),
        (b"name,address\nworker0,\xff\n", None, "byte 21 is not UTF-8"),
        (None, None, "cannot be read: No such file or directory"),
    ],
)
def test_import_refuses_list(file: Path, tmp_path: Path, content: bytes | None, group: str | None, cause: str) -> None:
    if content is not None:
        (tmp_path / "m.csv").write_bytes(content)
    with pytest.raises(InputError, match=cause):
        import_machines(str(file), tmp_path / "m.csv", group)


def test_import_refuses_other_target(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="target lab creates its own nodes"):
        import_machines("lab", tmp_path / "m.csv", None)


def test_scan_asks_each_machine_for_declared_properties(file: Path, preflight: Preflight) -> None:
    found = scan_machines(str(file))
    assert [one.name for one in found.machines] == ["login0", "worker0", "worker1"] and found.file == file
    assert preflight.asked["requests"][1].declared == Declared("debian-13", 8, 16384, 0, False, None, 22, admitted=("10.20.0.2",))
    assert preflight.asked["via"] == preflight.asked["requests"][0].route and (preflight.asked["keys"], preflight.asked["adopted"]) == (
        [],
        False,
    )


def test_scan_tries_key_of_stack_first(file: Path, preflight: Preflight) -> None:
    file.write_text(STACK.replace("      os: debian-13\n", "      os: debian-13\n      ssh_private_key_file: /keys/admin\n"))
    paths.prepare("rack")
    paths.ssh_private_key_file("rack").touch()
    scan_machines(str(file))
    assert (preflight.asked["keys"], preflight.asked["adopted"]) == ([paths.ssh_private_key_file("rack"), Path("/keys/admin")], True)


def test_scan_skips_machines_that_are_out(file: Path, preflight: Preflight) -> None:
    file.write_text(STACK + "    nodes: {worker1: {state: out, reason: bad DIMM}}\n")
    assert [one.name for one in scan_machines(str(file)).machines] == ["login0", "worker0"]


def test_scan_refuses_errors_and_other_targets(file: Path, preflight: Preflight) -> None:
    file.write_text(STACK.replace("10.20.0.12", "10.99.0.1"))
    with pytest.raises(InputError, match=r"10\.99\.0\.1 of worker1 is not in network\.cidr"):
        scan_machines(str(file))
    with pytest.raises(InputError, match="target lab creates its own nodes"):
        scan_machines("lab")
    assert preflight.asked == {}


def refuse(_: Sequence[PreflightResult]) -> bool:
    raise AssertionError("no host is to be queried")


def test_confirmed_keys_are_written(file: Path, preflight: Preflight) -> None:
    shown: list[str] = []

    def confirm(missing: Sequence[PreflightResult]) -> bool:
        shown.extend(one.name for one in missing)
        return True

    update = write_keys(scan_machines(str(file)), None, confirm)
    assert shown == ["worker0", "worker1"] and (update.written, update.missing) == (2, 2)
    assert all(one.fits and one.key_confirmed for one in update.scan.machines)
    assert FINGERPRINTS["worker0"] in file.read_text() and FINGERPRINTS["worker1"] in file.read_text()


def test_keys_that_person_denies_are_not_written(file: Path, preflight: Preflight) -> None:
    scan = scan_machines(str(file))
    update = write_keys(scan, None, lambda missing: False)
    assert (update.written, update.missing, update.scan) == (0, 2, scan) and file.read_text() == STACK


def test_file_of_fingerprints_confirms_keys_that_it_lists(file: Path, tmp_path: Path, preflight: Preflight) -> None:
    (tmp_path / "keys").write_text(f"node001 {FINGERPRINTS['worker0']}\n")
    update = write_keys(scan_machines(str(file)), tmp_path / "keys", refuse)
    assert (update.written, update.missing) == (1, 2)
    assert [one.fits for one in update.scan.machines] == [True, True, False]


def test_one_wrong_key_stops_all(file: Path, tmp_path: Path, preflight: Preflight) -> None:
    (tmp_path / "keys").write_text(f"worker0 {FINGERPRINTS['worker0']}\nworker1 {FINGERPRINTS['login0']}\n")
    with pytest.raises(RackwrightError, match="worker1: presents"):
        write_keys(scan_machines(str(file)), tmp_path / "keys", refuse)
    assert file.read_text() == STACK


def test_scan_without_missing_key_writes_nothing(file: Path, preflight: Preflight) -> None:
    scan = scan_machines(str(file))
    known = HostScan(scan.file, scan.plan, tuple(fitting(one.name) for one in scan.machines))
    update = write_keys(known, None, refuse)
    assert (update.written, update.missing, update.scan) == (0, 0, known)
