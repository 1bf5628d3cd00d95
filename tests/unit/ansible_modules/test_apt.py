"""apt is asked only for what is missing, and the record of what is installed decides what is missing."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.action import apt
from ansible_collections.rackwright.cluster.plugins.modules import dpkg_facts
from ansible_collections.rackwright.cluster.plugins.plugin_utils import idle

NAMES = ["munge", "chrony", "slurmd"]


@pytest.mark.parametrize(
    ("told", "missing"),
    [
        ("munge installed\nchrony installed\nslurmd installed\n", []),
        ("munge installed\nslurmd installed\n", ["chrony"]),
        ("munge config-files\nchrony installed\nslurmd half-configured\n", ["munge", "slurmd"]),
        ("munge not-installed\nchrony unpacked\nslurmd triggers-pending\n", NAMES),
        ("", NAMES),
        ("sh: dpkg-query: not found\n", NAMES),
    ],
)
def test_what_is_not_installed_whole_is_missing(told: str, missing: list[str]) -> None:
    assert apt.missing(NAMES, told) == missing


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("libnccl2=2.22.3*", True),
        ("libnccl2=2.22.3-1", True),
        ("libnccl2=2.22.3", False),
        ("libnccl2=2.28.9*", False),
        ("libnccl2", True),
        ("libnccl=2.22.3*", False),
    ],
)
def test_another_version_is_missing(name: str, found: bool) -> None:
    """A pin that moved has to be met; an asterisk stands for the packager's part of the version."""
    assert apt.missing([name], "libnccl2 installed 2.22.3-1\n") == ([] if found else [name])


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no Debian")
def test_dpkg_answers_the_question() -> None:
    """As it is, here."""
    names = ["dpkg=1.*", "dpkg=0.*", "no-such-package"]
    told = dpkg_facts.recorded([name.partition("=")[0] for name in names])
    assert apt.missing(names, told) == ["dpkg=0.*", "no-such-package"]


class Connection(apt.ActionModule):  # type: ignore[misc, name-defined]
    """The action, with a node whose answers are given."""

    def __init__(self, names: object, told: str) -> None:
        self._task = type("Task", (), {"args": {"name": names, "update_cache": True}, "async_val": 0, "check_mode": False})()
        self.told, self.asked, self.busy, self.package_lists = told, [], [""], True

    def _execute_module(self, **given: Any) -> dict[str, Any]:
        if given["module_name"] == "rackwright.cluster.dpkg_facts":
            assert all("=" not in name for name in given["module_args"]["names"])
            return {"changed": False, "dpkg_output": self.told}
        if given["module_name"] == "rackwright.cluster.busy_facts":
            waits = {"busy": self.busy.pop(0), "detail": "process 7 holds a lock", "hint": "`ps -fp 7`"}
            return {**waits, "package_lists": self.package_lists}
        self.asked.append(given)
        return {"changed": True}


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """What every action does first needs a play around it."""
    monkeypatch.setattr(apt.ActionBase, "run", lambda *_: {})


@pytest.mark.parametrize("names", ["munge", ["munge"]])
def test_apt_is_not_asked_for_what_is_there(names: object) -> None:
    action = Connection(names, "munge installed\n")
    assert action.run(None, {}) == {"changed": False} and action.asked == []


def test_apt_is_given_the_whole_task_where_something_is_missing() -> None:
    action = Connection(NAMES, "munge installed\n")
    assert action.run(None, {}) == {"changed": True}
    (given,) = action.asked
    assert given["module_name"] == "ansible.builtin.apt" and given["module_args"] == {"name": NAMES, "update_cache": True}


@pytest.mark.parametrize(("package_lists", "valid"), [(True, {"cache_valid_time": 3600}), (False, {})])
def test_apt_fetches_package_lists_that_do_not_exist(*, package_lists: bool, valid: dict[str, int]) -> None:
    """The folder of a new node image is empty, and younger than an hour."""
    action = Connection(NAMES, "munge installed\n")
    action._task.args["cache_valid_time"], action.package_lists = 3600, package_lists
    assert action.run(None, {}) == {"changed": True}
    assert action.asked[0]["module_args"] == {"name": NAMES, "update_cache": True, **valid}


def test_apt_waits_for_another_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(idle.wait_until_idle, "__kwdefaults__", {**idle.wait_until_idle.__kwdefaults__, "sleep": lambda _: None})
    action = Connection(NAMES, "munge installed\n")
    action.busy = ["unattended-upgr", "unattended-upgr", ""]
    assert action.run(None, {"inventory_hostname": "login0"}) == {"changed": True} and len(action.asked) == 1
    assert capsys.readouterr().out.count("login0: waits for unattended-upgr, 0 s (process 7 holds a lock)") == 2


def test_apt_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle.wait_until_idle, "__kwdefaults__", {**idle.wait_until_idle.__kwdefaults__, "timeout": 0.0})
    action = Connection(NAMES, "")
    action.busy = ["unattended-upgr"]
    ended = action.run(None, {"inventory_hostname": "login0"})
    assert ended["failed"] and action.asked == []
    assert ended["msg"].startswith("no packages were installed, because unattended-upgr has not ended after 0 s (process 7 holds a lock)")


def test_apt_does_not_wait_in_check_mode() -> None:
    action = Connection(NAMES, "")
    action._task.check_mode, action.busy = True, []
    assert action.run(None, {}) == {"changed": True}
