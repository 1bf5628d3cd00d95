"""`rackwright hosts import`: a list becomes rows of the stack file, or is refused with every reason at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import CliResult, Run, run_cli

from rackwright.model.targets.hosts import HostsTarget
from rackwright.stackfile.load import load_stack

STACK = """\
# My rack.
config:
  rackwright:cluster:
    target: # all of them Debian
      kind: hosts
      os: debian-13
      # One for each node:
      machines:
        login0: {address: 10.20.0.2, host_key: "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}  # at the door
    verify_level: smoke
    network: {cidr: 10.20.0.0/24}
    groups:
      login: {count: 1, roles: [login, controller, accounting], cpus: 2, memory: 2GiB}
      worker: {count: 2, cpus: 8, memory: 16GiB}
    users: {alice: {uid: 2001}}
"""
KEY = "SHA256:" + "k" * 43


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A stack whose workers are not written down yet."""
    file = tmp_path / "Pulumi.rack.yaml"
    file.write_text(STACK)
    return file


@pytest.fixture
def take(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Import a list of this text."""

    def once(text: str, *more: str) -> CliResult:
        (tmp_path / "m.csv").write_text(text)
        return run_cli(monkeypatch, capsys, "hosts", "import", str(file), str(tmp_path / "m.csv"), *more)

    return once


def test_a_list_becomes_rows_and_the_rest_stays(take: Run, file: Path) -> None:
    ended = take(f"name,address,fingerprint,rack\nnode001,10.20.0.11,{KEY},r1\nnode002,10.20.0.12,,r1\n", "--group", "worker")
    assert ended.code == 0, ended.err
    row = f'        worker0: {{address: 10.20.0.11, host_key: "{KEY}", rack: r1, label: node001}}\n'
    after = row + "        worker1: {address: 10.20.0.12, rack: r1, label: node002}\n"
    assert file.read_text() == STACK.replace("# at the door\n", f"# at the door\n{after}")
    assert "2 machines added, 0 updated, 3 in total" in ended.out
    assert "1 have no host_key yet: run `rackwright hosts scan rack --write`" in ended.out


def test_the_same_list_again_changes_nothing(take: Run, file: Path) -> None:
    text = "name,address\nnode001,10.20.0.11\nnode002,10.20.0.12\n"
    take(text, "--group", "worker")
    written = file.read_text()
    assert take(text, "--group", "worker").code == 0
    assert file.read_text() == written


def test_a_dry_run_shows_the_difference_and_writes_nothing(take: Run, file: Path) -> None:
    ended = take("name,address\nworker0,10.20.0.11\n", "--dry-run")
    assert ended.code == 0 and file.read_text() == STACK
    assert "\n+        worker0: {address: 10.20.0.11}\n" in ended.out
    assert sum(line.startswith(("+", "-")) for line in ended.out.splitlines()) == 3


def test_all_mistakes_of_a_list_are_told_and_nothing_is_written(take: Run, file: Path) -> None:
    ended = take("name,address\nworker0,10.20.0\nworker7,10.20.0.9\n")
    assert (ended.code, ended.out, file.read_text()) == (2, "", STACK)
    assert "m.csv:2: address: `10.20.0` is not an IPv4 address" in ended.err
    assert "m.csv:3: name: no group declares a node worker7" in ended.err


def test_what_the_stack_would_be_wrong_with_is_told_and_nothing_is_written(take: Run, file: Path) -> None:
    ended = take("name,address\nworker0,10.20.0.2\nworker1,10.99.0.1\n")
    assert (ended.code, file.read_text()) == (2, STACK)
    assert "target.machines.worker0.address: 10.20.0.2 is also the address of login0" in ended.err
    assert "10.99.0.1 of worker1 is not in network.cidr" in ended.err


def test_a_stack_with_nothing_but_its_groups_can_be_filled(take: Run, file: Path) -> None:
    file.write_text(STACK[: STACK.index("      # One")] + STACK[STACK.index("    verify_level") :])
    ended = take("name,address\nlogin0,10.20.0.2\nworker0,10.20.0.11\nworker1,10.20.0.12\n")
    assert ended.code == 0, ended.err
    cluster = load_stack(file).cluster
    assert cluster is not None and isinstance(cluster.target, HostsTarget)
    assert list(cluster.target.machine_by_node) == ["login0", "worker0", "worker1"]


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ("wroker", "--group: unknown group `wroker`\n  did you mean `worker`?"),
        ("login", "no free node for node001: all 1 nodes of group login"),
    ],
)
def test_a_group_that_cannot_take_them_is_told(take: Run, group: str, says: str) -> None:
    ended = take("name,address\nnode001,10.20.0.11\n", "--group", group)
    assert ended.code == 2 and says in ended.err


def test_a_lab_takes_no_machines(take: Run, file: Path) -> None:
    target = STACK[STACK.index("    target") : STACK.index("    verify_level")]
    file.write_text(STACK.replace(target, "    target: {kind: lab}\n"))
    ended = take("name,address\nworker0,10.20.0.11\n")
    assert ended.code == 2 and "target lab creates its own nodes (expected target hosts)" in ended.err


def test_a_list_that_is_not_there(file: Path, take: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = take("name,address\n")
    assert ended.code == 2 and "contains no machine" in ended.err


def test_who_may_read_the_stack_file_stays(take: Run, file: Path) -> None:
    file.chmod(0o640)
    take("name,address\nworker0,10.20.0.11\n")
    assert file.stat().st_mode & 0o777 == 0o640
