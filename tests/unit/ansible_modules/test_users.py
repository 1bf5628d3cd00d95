"""rackwright.cluster.users: the commands that bring a node's users to the declared state, and no others."""

from __future__ import annotations

import grp
import json
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.modules import users

ALICE = {"name": "alice", "uid": 2001, "gid": 2001, "shell": "/bin/bash", "admin": False}
ADMINS = ["sudo", "wheel"]


def entry(name: str, uid: int, gid: int, shell: str = "/bin/bash") -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", f"/home/{name}", shell))


def database(*people: pwd.struct_passwd, groups: dict[str, int] | None = None, sudo: list[str] | None = None) -> Any:
    numbers = {person.pw_name: person.pw_gid for person in people} if groups is None else groups
    found = {name: grp.struct_group((name, "x", gid, [])) for name, gid in numbers.items()}
    if sudo is not None:
        found["sudo"] = grp.struct_group(("sudo", "x", 27, sudo))
    return users.Database(users={person.pw_name: person for person in people}, groups=found)


def commands(live: Any, *wanted: dict[str, Any]) -> list[str]:
    return [" ".join(step.command) for user in wanted for step in users.steps_for(user, "/home", ADMINS, live)]


def test_a_new_user_gets_group_number_shell_and_home() -> None:
    assert commands(database(), ALICE) == [
        "groupadd --gid 2001 alice",
        "useradd --uid 2001 --gid 2001 --shell /bin/bash --create-home --home-dir /home/alice alice",
    ]


def test_new_user_gets_no_home_on_existing_server() -> None:
    steps = users.steps_for(ALICE, "/home", ADMINS, database(), create_homes=False)
    assert [" ".join(step.command) for step in steps] == [
        "groupadd --gid 2001 alice",
        "useradd --uid 2001 --gid 2001 --shell /bin/bash --no-create-home --home-dir /home/alice alice",
    ]


@pytest.mark.parametrize("ids", [(1999, 2001), (2001, 1999)])
def test_ids_stay_when_home_is_on_existing_server(ids: tuple[int, int]) -> None:
    """usermod(8) would give the files in the home the new owner or group."""
    live = database(entry("alice", *ids), groups={"alice": 2001})
    with pytest.raises(users.UserError, match="home directory is on an existing server - declare these ids"):
        users.steps_for(ALICE, "/home", ADMINS, live, create_homes=False)


def test_shell_changes_when_home_is_on_existing_server() -> None:
    steps = users.steps_for(ALICE, "/home", ADMINS, database(entry("alice", 2001, 2001, "/bin/sh")), create_homes=False)
    assert [step.command[0] for step in steps] == ["usermod"]


def test_a_user_as_declared_needs_nothing() -> None:
    assert commands(database(entry("alice", 2001, 2001)), ALICE) == []


@pytest.mark.parametrize(
    ("live", "command"),
    [
        (database(entry("alice", 1999, 2001)), "usermod --uid 2001 --gid 2001 --shell /bin/bash alice"),
        (database(entry("alice", 2001, 2001, "/bin/sh")), "usermod --uid 2001 --gid 2001 --shell /bin/bash alice"),
        (database(entry("alice", 2001, 2001), groups={"alice": 7}), "groupmod --gid 2001 alice"),
        (database(entry("alice", 2001, 2001), sudo=["alice"]), "gpasswd --delete alice sudo"),
    ],
    ids=["uid", "shell", "gid", "an admin no more"],
)
def test_each_difference_is_mended(live: Any, command: str) -> None:
    assert commands(live, ALICE) == [command]


def test_a_number_that_belongs_to_another_is_an_error_not_a_second_owner() -> None:
    with pytest.raises(users.UserError, match="uid 2001 belongs to bob"):
        commands(database(entry("bob", 2001, 5)), ALICE)
    with pytest.raises(users.UserError, match="gid 2001 belongs to group staff"):
        commands(database(groups={"staff": 2001}), ALICE)


def test_directory_user_is_used_as_declared_and_never_changed() -> None:
    live = database(entry("alice", 2001, 2001), sudo=[])._replace(foreign=frozenset({"alice", "bob"}))
    assert commands(live, ALICE) == []
    assert commands(live, {**ALICE, "admin": True}) == ["gpasswd --add alice sudo"]
    with pytest.raises(users.UserError, match="alice: comes from a directory service on this node, with uid 2001"):
        commands(live, {**ALICE, "shell": "/bin/zsh"})
    people = live._replace(users={**live.users, "bob": entry("bob", 2002, 2002)})
    assert users.leaving_steps({"alice"}, ["alice", "bob"], people) == []


def test_directory_is_queried_for_names_and_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed, hidden = entry("root", 0, 0), [entry("carol", 2001, 5), entry("alice", 9, 9)]
    groups = [grp.struct_group(("staff", "x", 2001, []))]
    finders = {"getpwnam": (hidden, 0), "getpwuid": (hidden, 2)}
    monkeypatch.setattr(users.pwd, "getpwall", lambda: [listed])
    monkeypatch.setattr(users.grp, "getgrall", list)
    for name, (entries, place) in finders.items():
        monkeypatch.setattr(users.pwd, name, lambda key, entries=entries, place=place: {one[place]: one for one in entries}[key])
    for name, place in (("getgrnam", 0), ("getgrgid", 2)):
        monkeypatch.setattr(users.grp, name, lambda key, place=place: {one[place]: one for one in groups}[key])
    (tmp_path / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    monkeypatch.setattr(users, "PASSWD", str(tmp_path / "passwd"))
    found = users.read_database({"users": [ALICE], "groups": [{"name": "team", "gid": 3000}]})
    assert (set(found.users), set(found.groups), found.foreign) == ({"root", "carol", "alice"}, {"staff"}, {"carol", "alice"})
    with pytest.raises(users.UserError, match="uid 2001 belongs to carol"):
        commands(found, ALICE)


def test_an_admin_is_in_the_group_that_the_node_has() -> None:
    admin = {**ALICE, "admin": True}
    assert commands(database(entry("alice", 2001, 2001), sudo=[]), admin) == ["usermod --append --groups sudo alice"]
    assert commands(database(entry("alice", 2001, 2001), groups={"alice": 2001, "wheel": 10}), admin) == [
        "usermod --append --groups wheel alice"
    ]
    assert commands(database(entry("alice", 2001, 2001), sudo=["alice"]), admin) == []
    with pytest.raises(users.UserError, match="install sudo"):
        commands(database(entry("alice", 2001, 2001)), admin)


def test_only_who_was_made_here_is_removed() -> None:
    people = [entry("alice", 2001, 2001), entry("bob", 2002, 2002), entry("local", 1000, 1000)]
    steps = users.leaving_steps({"alice"}, ["alice", "bob", "gone"], database(*people))
    assert [step.command for step in steps] == [("userdel", "bob")]


def with_groups(live: Any, **members: list[str]) -> Any:
    """The node with further groups: name and number as one word, like research_3001."""
    for word, who in members.items():
        name, _, gid = word.rpartition("_")
        live.groups[name] = grp.struct_group((name, "x", int(gid), who))
    return live


RESEARCH = {"name": "research", "gid": 3001}
IN_RESEARCH = {**ALICE, "groups": ["research"]}


def memberships(live: Any, user: dict[str, Any], groups: list[dict[str, Any]], known: list[str] | None = None) -> list[str]:
    wanted = {"users": [{"groups": [], **user}], "groups": groups}
    return [" ".join(step.command) for step in [*users.shared_steps(groups, live), *users.member_steps(wanted, known or [], live)]]


def test_a_shared_group_is_made_with_its_number_and_its_members() -> None:
    assert memberships(database(), IN_RESEARCH, [RESEARCH]) == ["groupadd --gid 3001 research", "gpasswd --add alice research"]
    assert memberships(with_groups(database(), research_3001=["alice"]), IN_RESEARCH, [RESEARCH]) == []
    assert memberships(with_groups(database(), research_7=["alice"]), IN_RESEARCH, [RESEARCH]) == ["groupmod --gid 3001 research"]


def test_a_shared_group_holds_nobody_else() -> None:
    live = with_groups(database(), research_3001=["alice", "mallory"])
    assert memberships(live, IN_RESEARCH, [RESEARCH]) == ["gpasswd --delete mallory research"]
    assert memberships(live, ALICE, [RESEARCH]) == ["gpasswd --delete alice research", "gpasswd --delete mallory research"]


def test_of_a_group_of_the_system_only_our_users_are_our_business() -> None:
    live = with_groups(database(), video_44=["alice", "local"])
    assert memberships(live, {**ALICE, "groups": ["video"]}, []) == []
    assert memberships(live, ALICE, [], known=["video"]) == ["gpasswd --delete alice video"]
    assert memberships(live, ALICE, []) == []


def test_a_group_that_is_nowhere_is_an_error_and_so_is_a_number_that_is_taken() -> None:
    with pytest.raises(users.UserError, match="declare the group in `user_groups`"):
        memberships(database(), IN_RESEARCH, [])
    with pytest.raises(users.UserError, match="group research: gid 3001 belongs to group staff"):
        memberships(with_groups(database(), staff_3001=[]), IN_RESEARCH, [RESEARCH])


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A node without users; commands on it are recorded, and fail where the test requests it."""
    ran: list[tuple[str, ...]] = []

    def note(command: tuple[str, ...], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(users.subprocess, "run", note)
    monkeypatch.setattr(users, "read_database", lambda wanted: database())
    return ran, {"users": [ALICE], "known": str(tmp_path / "users.json"), "known_groups": str(tmp_path / "groups.json")}


def test_check_mode_tells_and_does_nothing(run: Any, node: Any) -> None:
    ran, wanted = node
    told = run(users, wanted, check=True, diff=True)
    assert told["changes"] == ["create group alice", "create user alice"]
    assert "create user alice" in told["diff"]["prepared"]
    assert ran == []
    assert not Path(wanted["known"]).exists()


def test_who_is_made_is_remembered_before_the_making(run: Any, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted = node

    def refuse(command: tuple[str, ...], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 9, "", "groupadd: no space left")

    monkeypatch.setattr(users.subprocess, "run", refuse)
    told = run(users, wanted)
    assert told["failed"]
    assert told["msg"] == "create group alice: groupadd failed: groupadd: no space left"
    assert json.loads(Path(wanted["known"]).read_text()) == ["alice"]


def test_a_second_run_changes_nothing(run: Any, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, wanted = node
    assert run(users, wanted)["changed"]
    assert len(ran) == 2
    monkeypatch.setattr(users, "read_database", lambda wanted: database(entry("alice", 2001, 2001)))
    assert run(users, wanted)["changed"] is False
    assert run(users, wanted, check=True)["changed"] is False


def test_who_left_is_forgotten_once_removed(run: Any, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, wanted = node
    Path(wanted["known"]).write_text('["alice", "bob"]')
    monkeypatch.setattr(users, "read_database", lambda wanted: database(entry("alice", 2001, 2001), entry("bob", 2002, 2002)))
    assert run(users, wanted)["changes"] == ["delete user bob, which is no longer declared"]
    assert ran == [("userdel", "bob")]
    monkeypatch.setattr(users, "read_database", lambda wanted: database(entry("alice", 2001, 2001)))
    assert run(users, wanted)["changed"] is False
    assert json.loads(Path(wanted["known"]).read_text()) == ["alice"]


def test_this_machine_can_be_read() -> None:
    assert users.read_database({"users": [], "groups": []}).users["root"].pw_uid == 0
