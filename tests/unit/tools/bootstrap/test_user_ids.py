"""Subordinate ids and the programs that map them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.machine_checks import user_ids
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.user_ids import KINDS, Row

SUBUID = "bob:100000:65536\nalice:165536:65536\n"
NSSWITCH = "passwd: files sss systemd\nsubid: sss\n"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("alice:100000:65536\n", Level.OK),
        ("1000:100000:65536\n", Level.OK),
        ("alice:100000:32768\nalice:200000:32768\n", Level.OK),
        ("alice:100000:1000\n", Level.ERROR),
        ("bob:100000:65536\n", Level.ERROR),
        ("alice:100000\n", Level.ERROR),
        ("# alice:100000:65536\n", Level.ERROR),
        ("", Level.ERROR),
    ],
)
def test_ranges_of_user_are_judged(text: str, level: Level) -> None:
    assert user_ids.judge_ranges(KINDS[0], user_ids.parse_rows(text), "alice", 1000, 100000).level is level


@pytest.mark.parametrize(
    ("rows", "start"),
    [
        ([], 100000),
        ([Row("bob", 100000, 65536)], 165536),
        ([Row("bob", 100000, 65537)], 231072),
        ([Row("bob", 1000, 10)], 100000),
        ([Row("bob", 524288, 65536), Row("carol", 100000, 65536)], 624288),
    ],
)
def test_free_start_is_above_every_range(rows: list[Row], start: int) -> None:
    assert user_ids.free_start(rows) == start
    assert all(row.start + row.size <= user_ids.free_start(rows) for row in rows)


def test_missing_ranges_name_usermod(make_machine) -> None:
    files = {"/etc/subuid": "bob:100000:65536\n", "/etc/subgid": "", "/etc/passwd": "alice:x:1000:1000::/home/alice:/bin/sh\n"}
    findings = user_ids.check_user_ids(make_machine(files))
    assert [each.commands[0] for each in findings] == [
        "sudo usermod --add-subuids 165536-231071 alice",
        "sudo usermod --add-subgids 165536-231071 alice",
    ]


def test_user_of_directory_gets_rows_appended(make_machine) -> None:
    findings = user_ids.check_user_ids(make_machine({"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/etc/subgid": "bob:100000:65536\n"}))
    assert [each.commands[0] for each in findings] == [
        "echo alice:165536:65536 | sudo tee -a /etc/subuid",
        "echo alice:165536:65536 | sudo tee -a /etc/subgid",
    ]


def test_missing_files_are_errors(make_machine) -> None:
    assert [each.level for each in user_ids.check_user_ids(make_machine())] == [Level.ERROR, Level.ERROR]


def test_ranges_of_good_machine_are_ok(make_machine) -> None:
    machine = make_machine({"/etc/subuid": SUBUID, "/etc/subgid": SUBUID, "/etc/nsswitch.conf": "passwd: files\nsubid: files\n"})
    assert [each.level for each in user_ids.check_user_ids(machine)] == [Level.OK, Level.OK]


@pytest.mark.parametrize(
    ("script", "level"),
    [
        ('case "$*" in alice | "-g alice") echo 0: alice 100000 65536;; *) exit 1;; esac', Level.OK),
        ("echo 0: alice 100000 100", Level.ERROR),
        ("echo Error fetching ranges >&2; exit 1", Level.UNKNOWN),
        (None, Level.UNKNOWN),
    ],
)
def test_getsubids_decides_when_nsswitch_says_so(make_machine, script: str | None, level: Level) -> None:
    machine = make_machine({"/etc/nsswitch.conf": NSSWITCH, "/etc/subuid": SUBUID}, {"getsubids": script} if script else {})
    assert [each.level for each in user_ids.check_user_ids(machine)] == [level, level]


@pytest.mark.parametrize(
    ("is_setuid", "has_capabilities", "level"), [(True, False, Level.OK), (False, True, Level.OK), (False, False, Level.ERROR)]
)
def test_mapping_program_needs_rights(is_setuid: bool, has_capabilities: bool, level: Level) -> None:
    assert user_ids.judge_program("newuidmap", "/usr/bin/newuidmap", is_setuid, has_capabilities).level is level


def test_setuid_bit_is_read(make_machine) -> None:
    machine = make_machine({"/etc/subuid": SUBUID, "/etc/subgid": SUBUID}, {"newuidmap": "", "newgidmap": ""})
    found = machine.which("newuidmap")
    assert found
    Path(found).chmod(0o4755)
    findings = {each.subject: each for each in user_ids.check_user_ids(machine)}
    assert findings["newuidmap"].level is Level.OK
    assert findings["newgidmap"].level is Level.ERROR
    assert findings["newgidmap"].commands == (f"sudo chmod u+s {machine.which('newgidmap')}",)
