"""rackwright.cluster.systemd_units: what it does to units, against a service manager whose units are given in a few lines."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import slowness, systemd
from ansible_collections.rackwright.cluster.plugins.modules import systemd_units as units

DEFAULTS: dict[str, Any] = {
    "enabled": None, "state": "started", "missing_ok": False, "config": [], "received": [], "reload": False,
    "readiness": None, "liveness": None, "readiness_timeout": 1, "wait": True,
}  # fmt: skip
UP: dict[str, str] = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "UnitFileState": "enabled"}
DOWN = {**UP, "ActiveState": "inactive", "SubState": "dead"}


def command(*argv: str) -> dict[str, Any]:
    return {"tcp": None, "path": None, "command": list(argv)}


def unit(name: str = "d.service", **given: Any) -> dict[str, Any]:
    return {**DEFAULTS, "name": name, **given}


class Manager(units.Systemd):  # type: ignore[misc]
    """systemd with the given units; starting one gives it a new invocation, as the real one does."""

    def __init__(self, **live: dict[str, str]) -> None:
        self.live = {
            name.replace("_", "."): {"InvocationID": "i0", "InactiveExitTimestampMonotonic": "1", **told} for name, told in live.items()
        }
        self.calls: list[str] = []
        self.runs = 0
        self.loaded = "1\n1\n"
        self.broken: set[str] = set()

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        names = list(words[words.index("--") + 1 :]) if "--" in words else []
        if words[0] == "show":
            return self.show_records(words, names)
        self.calls.append(" ".join(word for word in words if word != "--"))
        for name in names:
            self.live[name].update(self.after(words[0], name))
        return subprocess.CompletedProcess(words, int(words[0] in ("start", "restart") and bool(self.broken & set(names))), "", "failed")

    def after(self, word: str, name: str) -> dict[str, str]:
        """What the word makes of a unit."""
        if word in ("start", "restart"):
            self.runs += 1
            now = {"InvocationID": f"i{self.runs}", "InactiveExitTimestampMonotonic": str(int(time.monotonic() * 1e6))}
            return {**now, "ActiveState": "failed" if name in self.broken else "active"}
        simple = {"stop": {"ActiveState": "inactive"}, "enable": {"UnitFileState": "enabled"}, "disable": {"UnitFileState": "disabled"}}
        return {**simple, "unmask": {"LoadState": "loaded", "UnitFileState": "disabled"}}.get(word, {})

    def show_records(self, words: tuple[str, ...], names: list[str]) -> subprocess.CompletedProcess[str]:
        """What `systemctl show` prints."""
        if not names:
            return subprocess.CompletedProcess(words, 0, self.loaded, "")
        told = (self.live.get(name, {"LoadState": "not-found", "ActiveState": "inactive"}) for name in names)
        return subprocess.CompletedProcess(words, 0, "\n\n".join("\n".join(f"{k}={v}" for k, v in each.items()) for each in told), "")

    def journal_tail(self, name: str) -> str:
        return f"last words of {name}"


class Node:
    """A node's manager and stamps, and the runs made on it."""

    def __init__(self, manager: Manager, stamps: Path) -> None:
        self.manager, self.stamps = manager, stamps

    def converge(
        self, *wanted: dict[str, Any], check: bool = False, reload_on: list[str] | None = None, pending: tuple[str, ...] = ()
    ) -> list[tuple[str, str]]:
        """The actions of one run, as (unit, action)."""
        run = units.Units(self.manager, check, str(self.stamps))
        run.pending = pending
        self.last = run
        run.apply(list(wanted), reload_on or [])
        return [(done["unit"], done["action"]) for done in run.actions]


@pytest.fixture
def node(tmp_path: Path) -> Any:
    return lambda **live: Node(Manager(**live), tmp_path / "stamps")


def test_a_role_that_has_files_and_no_unit_on_this_node(node: Any) -> None:
    lab = node(a_service=UP)
    assert lab.converge() == []
    assert lab.manager.calls == []


def test_down_units_are_enabled_together_and_started_in_order(node: Any) -> None:
    lab = node(a_service={**DOWN, "UnitFileState": "disabled"}, b_service={**DOWN, "UnitFileState": "disabled"})
    both = [unit("b.service", enabled=True), unit("a.service", enabled=True)]
    assert lab.converge(*both, check=True) == lab.converge(*both)
    assert lab.manager.calls == ["enable b.service a.service", "start b.service", "start a.service"]
    assert lab.converge(*both) == [] == lab.converge(*both, check=True)


def test_a_unit_that_does_its_work_and_ends_is_started_only_where_the_work_is_not_done(
    node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, work = node(d_service={**DOWN, "UnitFileState": "disabled"}), tmp_path / "work"
    wanted = unit(state="completed", enabled=True, readiness={"tcp": None, "command": None, "path": str(work)})
    assert lab.converge(wanted, check=True) == [("d.service", "enable"), ("d.service", "start")]
    assert lab.manager.calls == []
    work.touch()
    assert lab.converge(wanted) == [("d.service", "enable")]
    assert lab.converge(wanted) == [] == lab.converge(wanted, check=True)
    work.unlink()
    assert lab.converge(wanted, check=True) == [("d.service", "start")]
    monkeypatch.setattr(units, "ticks", lambda until: iter([until]))
    with pytest.raises(units.UnitError, match="does not exist"):
        lab.converge(wanted)
    assert lab.manager.calls == ["enable d.service", "start d.service"]
    assert node().converge(wanted, check=True) == [("d.service", "start")]


class TestSuspended:
    @pytest.fixture
    def stopped(self) -> Any:
        """The pid of a child of this test that a signal has stopped."""
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        yield str(child.pid)
        child.kill()
        child.wait()

    def test_stopped_process_is_restarted_and_never_waited_for(self, node: Any, stopped: str) -> None:
        lab = node(d_service={**UP, "MainPID": stopped})
        wanted = unit(liveness=command("sleep", "3600"))
        assert lab.converge(wanted, check=True) == [("d.service", "restart")]
        assert lab.last.actions[0]["reason"] == "its main process is suspended by a signal"
        assert lab.converge(wanted) == [("d.service", "restart")] and lab.manager.calls == ["restart d.service"]

    def test_frozen_unit_is_thawed_before_its_restart(self, node: Any) -> None:
        lab = node(d_service={**UP, "MainPID": str(os.getpid()), "FreezerState": "frozen"})
        assert lab.converge(unit()) == [("d.service", "restart")] and lab.manager.calls == ["thaw d.service", "restart d.service"]

    def test_running_process_is_left_alone(self, node: Any) -> None:
        lab = node(d_service={**UP, "MainPID": str(os.getpid()), "FreezerState": "running"})
        assert lab.converge(unit(), check=True) == []

    def test_suspended_units_are_named(self, monkeypatch: pytest.MonkeyPatch, stopped: str) -> None:
        manager = Manager(a_service={**UP, "MainPID": stopped}, b_service=UP)
        monkeypatch.setattr(systemd, "Systemd", lambda: manager)
        assert systemd.suspended_units("a.service", "b.service", "c.service") == ["a.service is suspended by a signal"]


def test_check_mode_calls_nothing_that_alters(node: Any) -> None:
    lab = node(a_service={**DOWN, "UnitFileState": "disabled"}, b_service={**UP, "NeedDaemonReload": "yes"})
    told = lab.converge(unit("a.service", enabled=True), unit("b.service", state="stopped", enabled=False), check=True)
    assert [action for _, action in told] == ["daemon-reload", "enable", "disable", "start", "stop"]
    assert lab.manager.calls == []
    assert not lab.stamps.exists()


def test_a_config_changed_between_write_and_restart_of_a_killed_run_is_seen_and_healed(node: Any, tmp_path: Path) -> None:
    config = tmp_path / "d.conf"
    config.write_text("one")
    lab, wanted = node(d_service=DOWN), unit(config=[str(config)])
    lab.converge(wanted)
    config.write_text("two")
    assert lab.converge(wanted, check=True) == [("d.service", "restart")]
    assert lab.converge(wanted) == [("d.service", "restart")]
    assert lab.converge(wanted) == []


def test_a_config_removed_or_added_in_a_directory_restarts(node: Any, tmp_path: Path) -> None:
    folder = tmp_path / "conf.d"
    folder.mkdir()
    lab, wanted = node(d_service=DOWN), unit(config=[str(folder)])
    lab.converge(wanted)
    (folder / "new").write_text("")
    assert lab.converge(wanted) == [("d.service", "restart")]
    (folder / "new").unlink()
    assert lab.converge(wanted) == [("d.service", "restart")]


def test_a_changed_drop_in_restarts_even_a_unit_that_reloads(node: Any, tmp_path: Path) -> None:
    config, drop_in = tmp_path / "d.conf", tmp_path / "10.conf"
    config.write_text("one")
    drop_in.write_text("[Service]")
    lab, wanted = node(d_service={**DOWN, "DropInPaths": str(drop_in)}), unit(config=[str(config)], reload=True)
    lab.converge(wanted)
    config.write_text("two")
    assert lab.converge(wanted) == [("d.service", "reload")]
    drop_in.write_text("[Service]\nNice=1")
    assert lab.converge(wanted) == [("d.service", "restart")]
    assert lab.converge(wanted) == []


def test_a_unit_started_by_others_is_judged_by_time_and_then_stamped(node: Any, tmp_path: Path) -> None:
    config = tmp_path / "d.conf"
    config.write_text("one")
    started_later = str(int(time.monotonic() * 1e6) + 5_000_000)
    lab, wanted = node(d_service={**UP, "InactiveExitTimestampMonotonic": started_later}), unit(config=[str(config)])
    assert lab.converge(wanted) == []
    config.write_text("two")
    assert lab.converge(wanted) == [("d.service", "restart")], "the stamp of the first look decides, not the time alone"


def test_what_a_unit_received_at_a_start_by_others_is_no_difference(node: Any, tmp_path: Path) -> None:
    lab, received = node(d_service=UP), tmp_path / "conf-cache"
    received.write_text("1")
    wanted = unit(received=[str(received)])
    assert lab.converge(wanted, check=True) == []
    assert lab.converge(wanted) == [("d.service", "restart")], "it may have been received later, and then only a start reads it"
    assert lab.converge(wanted) == [] == lab.converge(wanted, check=True)
    received.write_text("2")
    assert lab.converge(wanted, check=True) == [("d.service", "restart")] == lab.converge(wanted)


def test_a_unit_older_than_its_config_is_restarted(node: Any, tmp_path: Path) -> None:
    config = tmp_path / "d.conf"
    config.write_text("one")
    lab, wanted = node(d_service=UP), unit(config=[str(config)])
    assert lab.converge(wanted, check=True) == [("d.service", "restart")]
    assert lab.converge(wanted) == [("d.service", "restart")]


def test_a_crashed_and_restarted_daemon_is_not_restarted_again(node: Any, tmp_path: Path) -> None:
    config = tmp_path / "d.conf"
    config.write_text("one")
    lab, wanted = node(d_service=DOWN), unit(config=[str(config)])
    lab.converge(wanted)
    lab.manager.live["d.service"].update(lab.manager.after("restart", "d.service"))
    assert lab.converge(wanted) == []


@pytest.mark.parametrize(
    ("live", "wanted", "action"),
    [
        ({**UP, "ActiveState": "failed"}, {}, "start"),
        ({**UP, "ActiveState": "activating", "SubState": "auto-restart"}, {}, "start"),
        (UP, {"state": "stopped"}, "stop"),
        (UP, {"state": "stopped", "missing_ok": True}, "stop"),
        (UP, {"enabled": False}, "disable"),
        ({**UP, "UnitFileState": "enabled-runtime"}, {"enabled": True}, "enable"),
    ],
)
def test_each_difference_is_seen_and_ends(node: Any, live: dict[str, str], wanted: dict[str, Any], action: str) -> None:
    lab = node(d_service=live)
    assert lab.converge(unit(**wanted), check=True) == [("d.service", action)] == lab.converge(unit(**wanted))
    assert lab.converge(unit(**wanted)) == []


def test_static_units_are_not_enabled_and_failed_ones_are_reset_before_the_start(node: Any) -> None:
    lab = node(d_service={**UP, "UnitFileState": "static", "ActiveState": "failed"})
    lab.converge(unit(enabled=True))
    assert lab.manager.calls == ["reset-failed d.service", "start d.service"]


def test_a_masked_unit_is_unmasked_to_be_started(node: Any) -> None:
    lab = node(d_service={"LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked"})
    assert lab.converge(unit(enabled=True)) == [("d.service", "unmask"), ("d.service", "enable"), ("d.service", "start")]


def test_an_unknown_unit_is_an_error_a_change_in_check_mode_and_fine_where_declared_so(node: Any) -> None:
    lab = node()
    assert lab.converge(unit(), check=True) == [("d.service", "start")]
    assert lab.converge(unit(state="stopped", missing_ok=True, enabled=False)) == []
    with pytest.raises(units.UnitError, match="unit not found"):
        lab.converge(unit())
    with pytest.raises(units.UnitError, match="unit not found"):
        lab.converge(unit(missing_ok=True))


def test_a_unit_that_does_not_start_is_reported_with_its_last_words_and_again_next_time(node: Any) -> None:
    lab = node(d_service=DOWN)
    lab.manager.broken.add("d.service")
    for _ in range(2):
        with pytest.raises(units.UnitError, match=r"start failed[\s\S]*last words of d\.service"):
            lab.converge(unit())
    assert lab.converge(unit(), check=True) == [("d.service", "start")]


def test_an_unready_unit_is_an_error_now_and_still_one_in_the_next_run(node: Any, tmp_path: Path) -> None:
    lab, wanted = node(d_service=DOWN), unit(readiness=command("test", "-e", f"{tmp_path}/ready"), readiness_timeout=0)
    for _ in range(2):
        with pytest.raises(units.UnitError, match="after 0 s `test -e"):
            lab.converge(wanted)
    (tmp_path / "ready").touch()
    assert lab.converge(wanted) == []


@pytest.mark.parametrize("path", ["/etc/d/d.conf", "/etc/systemd/system/d.service.d/x.conf", "/etc/systemd/system/d.service"])
def test_check_mode_foresees_the_restart_that_a_changing_file_will_cause(node: Any, path: str) -> None:
    lab, wanted = node(d_service=UP), unit(config=["/etc/d"])
    assert lab.converge(wanted, check=True, pending=(path,)) == [("d.service", "restart")]
    assert lab.converge(wanted, check=True, pending=("/etc/dd",)) == []


def test_files_and_units_of_one_task(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(d_service=UP)
    monkeypatch.setattr(units, "Systemd", lambda: manager)
    monkeypatch.setattr(units.Units.__init__, "__defaults__", (str(tmp_path / "stamps"),))
    path = str(tmp_path / "d.conf")
    wanted = {"files": [{"path": path, "content": "canary\n"}], "units": [{"name": "d", "config": [path]}]}
    seen = run(units, wanted, check=True)
    assert (seen["changed_paths"], seen["restarted"]) == ([path], ["d.service"])
    assert not (tmp_path / "d.conf").exists()
    done = run(units, wanted)
    assert (done["changed_paths"], done["restarted"]) == ([path], ["d.service"])
    assert run(units, wanted)["changed"] is False
    assert "canary" not in repr([seen, done])
    refused = run(units, {**wanted, "files": [{"path": path, "content": "x", "mode": "9"}]})
    assert refused["failed"]
    assert manager.calls == ["restart d.service"]


def test_units_that_need_not_be_waited_for_start_together(node: Any) -> None:
    lab = node(a_service=DOWN, b_service=DOWN)
    lab.converge(unit("a.service", wait=False), unit("b.service", wait=False))
    assert lab.manager.calls == ["start --no-block a.service", "start --no-block b.service"]


def test_a_unit_that_runs_but_is_dead_is_restarted_one_that_hangs_is_an_error(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, dead = node(d_service=UP), unit(liveness=command("sh", "-c", "echo no >&2; exit 1"))
    assert lab.converge(dead, check=True) == [("d.service", "restart")] == lab.converge(dead)
    assert "no" in lab.last.actions[0]["reason"]
    monkeypatch.setattr("ansible_collections.rackwright.cluster.plugins.module_utils.probe.ANSWER_TIMEOUT", 0.05)
    with pytest.raises(units.UnitError, match="did not answer within"):
        lab.converge(unit(liveness=command("sleep", "5")), check=True)


def test_files_of_other_units_newer_than_the_manager_cause_a_reload(node: Any, tmp_path: Path) -> None:
    (tmp_path / "x.mount").write_text("[Mount]")
    lab = node(d_service=UP)
    assert lab.converge(unit(), reload_on=[f"{tmp_path}/x.mount"]) == [(f"{tmp_path}/x.mount", "daemon-reload")]
    assert lab.converge(unit(), reload_on=[f"{tmp_path}/missing"]) == []


@pytest.mark.parametrize("loaded", ["0\n{now}\n", "{now}\n1\n"])
def test_a_manager_that_has_booted_or_reloaded_since_holds_the_unit_files(node: Any, tmp_path: Path, loaded: str) -> None:
    """systemd 257 tells of its last reload as 0 until there was one: a node that has just booted needs none."""
    (tmp_path / "x.mount").write_text("")
    lab = node(d_service=UP)
    lab.manager.loaded = loaded.format(now=int(time.monotonic() * 1e6) + 1000)
    assert lab.converge(unit(), reload_on=[f"{tmp_path}/x.mount"]) == []


def test_probes_answer_for_ports_and_paths(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert units.probe({"tcp": ["127.0.0.1", port], "command": None, "path": None})[0] is True
    assert units.probe({"tcp": ["127.0.0.1", port], "command": None, "path": None})[0] is False
    assert units.probe({"tcp": None, "command": None, "path": str(tmp_path)})[0] is True
    assert units.probe({"tcp": None, "command": None, "path": f"{tmp_path}/x"})[0] is False
    assert units.probe(command("/no/such/command"))[0] is False


def test_names_get_their_suffix() -> None:
    assert [units.full_name(name) for name in ("munge", "mnt-sharedfs.mount", "a.b")] == [
        "munge.service",
        "mnt-sharedfs.mount",
        "a.b.service",
    ]


@pytest.mark.parametrize("ask", ["must", "call"])
def test_a_start_that_waits_for_ever_is_an_error_and_shows_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ask: str
) -> None:
    """Two jobs that wait for each other never end, a mount waits for its server, and a converge must end."""
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("#!/bin/sh\n[ \"$1\" = list-jobs ] && { echo '80 remote-fs.target start waiting'; exit; }\nexec sleep 60\n")
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(systemd, "LONGEST_CALL", 0.3)
    wait = systemd.run_patiently
    monkeypatch.setattr(systemd, "run_patiently", lambda words, limit, env: wait(words, 60 if "list-jobs" in words else limit, env))
    monkeypatch.setattr(slowness, "slowness", lambda: 1)
    with pytest.raises(
        units.UnitError, match=r"start -- slurmd\.service: not finished after 0 s; systemd.s queue: 80 remote-fs\.target start waiting"
    ):
        getattr(units.Systemd(), ask)("start", "--", "slurmd.service")


def test_unit_start_is_by_clock_of_files_after_suspend() -> None:
    """The monotonic clock stands still in a suspend: read after one, it places an earlier start too late."""
    now, uptime = time.time(), time.monotonic()
    started = now - uptime / 2 - 3600
    recorded = time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(started))
    monotonic = str(int(uptime / 2 * 1e6))
    assert systemd.started_at(monotonic, recorded) == pytest.approx(started, abs=1.5)
    assert systemd.started_at(monotonic, "n/a") == pytest.approx(started + 3600, abs=1.5)
