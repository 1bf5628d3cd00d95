"""A stack file with other machines is the same file with other machines: what a person wrote around them stays, letter by letter."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackwright.errors import InputError
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.update_machines import with_machines

HEAD = """\
# A rack.
config:
  rackwright:cluster:
    target:
      kind: hosts     # exist already
"""
TAIL = """\
    verify_level: smoke      # checks | smoke | full

    network: {cidr: 10.20.0.0/24}
"""
ROWS = """\
      machines:       # one each
        login0:   {address: 10.20.0.2, host_key: "SHA256:0"}   # the door
        worker0:
          address: 10.20.0.3   # behind it
          os: debian-12
        # the last
        worker1: {address: 10.20.0.4}  # end
"""
KEY = "SHA256:" + "k" * 43


def changed(machines: str, rows: dict[str, Any]) -> list[str]:
    """The lines that went (-) and came (+)."""
    before = HEAD + machines + TAIL
    after = with_machines(before, rows)
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def test_a_row_in_braces_is_changed_where_it_differs_and_keeps_its_comment() -> None:
    assert changed(ROWS, {"login0": {"address": "10.20.0.9", "host_key": KEY}}) == [
        '-         login0:   {address: 10.20.0.2, host_key: "SHA256:0"}   # the door',
        f'+         login0:   {{address: 10.20.0.9, host_key: "{KEY}"}}   # the door',
    ]


def test_a_field_is_added_in_braces_and_in_a_block() -> None:
    assert changed(ROWS, {"worker0": {"host_key": KEY}, "worker1": {"port": 2200}}) == [
        f'+           host_key: "{KEY}"',
        "-         worker1: {address: 10.20.0.4}  # end",
        "+         worker1: {address: 10.20.0.4, port: 2200}  # end",
    ]


def test_new_machines_follow_the_last_one() -> None:
    assert changed(ROWS, {"worker2": {"address": "10.20.0.5", "rack": "r1"}, "worker[3-4]": {"address": "10.20.0.6"}}) == [
        "+         worker2: {address: 10.20.0.5, rack: r1}",
        "+         worker[3-4]: {address: 10.20.0.6}",
    ]


def test_what_is_said_already_changes_nothing() -> None:
    assert changed(ROWS, {"worker0": {"address": "10.20.0.3"}}) == []


@pytest.mark.parametrize("machines", ["", "      machines:\n", "      machines: {}   # none yet\n", "      machines: ~\n"])
def test_a_target_without_machines_gets_them(machines: str) -> None:
    after = with_machines(HEAD + machines + TAIL, {"worker0": {"address": "10.20.0.3"}})
    assert yaml_reader.parse(after, "")[0]["config"]["rackwright:cluster"]["target"]["machines"] == {"worker0": {"address": "10.20.0.3"}}
    assert after.startswith(HEAD) and after.endswith(TAIL)


def test_machines_in_braces_stay_there() -> None:
    rows = "      machines: {login0: {address: 10.20.0.2},\n                 worker0: {address: 10.20.0.3}}\n"
    assert changed(rows, {"worker1": {"address": "10.20.0.4"}}) == [
        "-                  worker0: {address: 10.20.0.3}}",
        "+                  worker0: {address: 10.20.0.3},",
        "+                  worker1: {address: 10.20.0.4}}",
    ]


def test_words_that_yaml_would_misread_are_quoted() -> None:
    after = with_machines(HEAD + TAIL, {"worker0": {"label": "007", "serial": "no: 1 # x", "rack": "r1"}})
    assert 'worker0: {label: "007", serial: "no: 1 # x", rack: r1}' in after


@pytest.mark.parametrize(
    ("machines", "rows"),
    [
        ("      machines:\n        a: &a {address: 10.20.0.2}\n        worker0: *a\n", {"worker0": {"port": 1}}),
        ("      machines:\n        a: {address: &x 10.20.0.2}\n        worker0: {address: *x}\n", {"worker0": {"address": "10.20.0.9"}}),
        ("      machines:\n        worker0:\n", {"worker0": {"port": 1}}),
    ],
)
def test_what_is_written_by_an_alias_is_left_to_its_author(machines: str, rows: dict[str, Any]) -> None:
    """An edit there would change another machine, too."""
    with pytest.raises(InputError, match=r"alias|of its own"):
        with_machines(HEAD + machines + TAIL, rows)


def test_a_target_in_braces_is_refused() -> None:
    with pytest.raises(InputError, match="braces"):
        with_machines("config:\n  rackwright:cluster:\n    target: {kind: hosts}\n", {"a": {"address": "10.0.0.1"}})


def test_a_file_that_does_not_end_with_a_newline_is_not_broken() -> None:
    before = HEAD + ROWS.rstrip("\n")
    assert with_machines(before, {"worker2": {"address": "10.20.0.5"}}) == before + "\n        worker2: {address: 10.20.0.5}"


FIELDS = st.fixed_dictionaries(
    {"address": st.sampled_from(["10.20.0.7", "10.20.0.8"])},
    optional={"port": st.integers(1, 65535), "label": st.text("aB0 :#'\"{},-", min_size=1)},
)


@settings(derandomize=True)
@given(st.dictionaries(st.sampled_from(["login0", "worker0", "worker1", "worker2", "worker[3-9]"]), FIELDS, max_size=4))
def test_whatever_is_written_is_what_is_read(rows: dict[str, Any]) -> None:
    """And every comment is where it was."""
    after = with_machines(HEAD + ROWS + TAIL, rows)
    assert all(comment in after for comment in ("# one each", "}   # the door\n", "# behind it\n", "        # the last\n", "}  # end\n"))
    machines = yaml_reader.parse(after, "")[0]["config"]["rackwright:cluster"]["target"]["machines"]
    assert all(machines[name].items() >= fields.items() for name, fields in rows.items())
    assert after.startswith(HEAD) and after.endswith(TAIL)
