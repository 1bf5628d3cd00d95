"""Manage the systemd units of a role and their files, in order, in one task.

A daemon is restarted if the digest of its configuration differs from the digest recorded at its start, not because this run wrote a
file: the next run completes a run that was killed between writing and restart, and check mode reports it.
Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.file_tree import TREE_ARGUMENTS, PathError, Tree
from ansible_collections.rackwright.cluster.plugins.module_utils.probe import probe, ticks
from ansible_collections.rackwright.cluster.plugins.module_utils.start_digest import (
    Digests,
    changed_at,
    digest,
    files_under,
    read_stamp,
    remove_stamp,
    write_stamp,
)
from ansible_collections.rackwright.cluster.plugins.module_utils.systemd import FROZEN, Live, Systemd, UnitError

DOCUMENTATION = r"""
module: systemd_units
short_description: Manage systemd units of a role and their files, in order, in one task
description:
  - C(files), C(directories), C(links) and C(absent) are those of M(rackwright.cluster.files) and are applied before the units are queried.
    A role whose files and units belong together needs one task only. In check mode, a unit whose C(config)
    would change counts as changed.
options:
  units:
    description: Units, in the order in which they are managed.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {type: str, required: true, description: Unit name; C(.service) is added if it has no suffix.}
      enabled: {type: bool, description: Whether the unit starts at boot; unchanged if omitted. A masked unit is unmasked.}
      state:
        description:
          - C(started), C(stopped).
          - C(completed) is for a oneshot unit. It is started if C(readiness) fails, and the module waits for its end.
        choices: [started, stopped, completed]
        default: started
      missing_ok: {type: bool, default: false, description: Whether a unit declared C(stopped) may be missing.}
      config:
        description: Files and directories that the daemon reads at its start; the unit file and its drop-ins are always included.
        type: list
      received:
        description: Further C(config) that a server sends, at the start and later. After a start by others, check mode ignores it.
        type: list
      reload: {type: bool, default: false, description: Whether changed C(config) triggers a reload; a changed unit file always restarts.}
      readiness: {type: dict, description: "Readiness probe after a start: C(tcp) ([host, port]), C(command) ([argv]) or C(path)."}
      liveness:
        description:
          - Liveness probe, in the format of C(readiness), used in every run and in check mode. A running unit that fails it is restarted.
          - No answer within 5 s is an error, because a restart seldom fixes a hang.
        type: dict
      readiness_timeout: {type: int, default: 30, description: "Timeout of C(readiness), in seconds; a slow node gets a multiple of it."}
      wait: {type: bool, default: true, description: C(false) queues the start; the module waits for its result at the end of the task.}
  daemon_reload_on:
    description: Unit files and drop-ins of units that are not in C(units). For units in C(units), systemd reports changes itself.
    type: list
    elements: path
notes:
  - A handler with C(ansible.builtin.systemd_service) is lost if the run ends between write and restart. This module stores a digest
    of what a unit read at its start.
"""

EXAMPLES = r"""
- name: Configure and start munge
  rackwright.cluster.systemd_units:
    files:
      - path: /etc/default/munge
        content: |
          OPTIONS="--num-threads 4"
    units:
      - name: munge
        enabled: true
        config: [/etc/default/munge, /etc/munge/munge.key]
        readiness: {path: /run/munge/munge.socket.2}

- name: Stop a unit that may be missing
  rackwright.cluster.systemd_units:
    units:
      - {name: slurmd, state: stopped, enabled: false, missing_ok: true}
"""

RETURN = r"""
changed_paths: {description: "Paths that were, or in check mode would be, changed.", returned: always, type: list}
actions:
  description: Actions that were, or in check mode would be, executed, as unit, action and reason.
  returned: always
  type: list
started: {description: Stopped units that were started., returned: always, type: list}
restarted: {description: Running units that were restarted., returned: always, type: list}
reloaded: {description: Running units that were reloaded., returned: always, type: list}
stopped: {description: Running units that were stopped., returned: always, type: list}
"""

PROBE = {
    "type": "dict",
    "options": {"tcp": {"type": "list", "elements": "str"}, "command": {"type": "list", "elements": "str"}, "path": {"type": "path"}},
    "mutually_exclusive": [("tcp", "command", "path")],
    "required_one_of": [("tcp", "command", "path")],
}
UNIT = {
    "name": {"type": "str", "required": True},
    "enabled": {"type": "bool"},
    "state": {"type": "str", "choices": ["started", "stopped", "completed"], "default": "started"},
    "missing_ok": {"type": "bool", "default": False},
    "config": {"type": "list", "elements": "path", "default": []},
    "received": {"type": "list", "elements": "path", "default": []},
    "reload": {"type": "bool", "default": False},
    "readiness": PROBE,
    "liveness": PROBE,
    "readiness_timeout": {"type": "int", "default": 30},
    "wait": {"type": "bool", "default": True},
}
ARGUMENTS = {
    "units": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": UNIT,
        "required_if": [("state", "completed", ["readiness"])],
    },
    "daemon_reload_on": {"type": "list", "elements": "path", "default": []},
    **TREE_ARGUMENTS,
}
SUFFIXES = (".service", ".socket", ".mount", ".automount", ".timer", ".target", ".path", ".slice", ".swap")
STAMPS = "/run/rackwright/units"
UP = ("active", "reloading", "refreshing")
STARTS_AT_BOOT = ("enabled", "static", "generated", "alias", "indirect", "transient")


class Units:
    """Manage the units of one task, and record the actions."""

    def __init__(self, systemd: Systemd, check: bool, stamps: str = STAMPS) -> None:
        self.systemd = systemd
        self.check = check
        self.stamps = stamps
        self.pending: tuple[str, ...] = ()  # paths that a real run would have changed by now
        self.actions: list[dict[str, str]] = []
        self.live: dict[str, Live] = {}
        self.changed_units: list[dict[str, Any]] = []

    def apply(self, units: list[dict[str, Any]], reload_on: list[str]) -> None:
        """Bring all units into their declared state."""
        names = [unit["name"] for unit in units]
        self.live = self.systemd.show(names)
        self.reread(names, reload_on)
        self.boot_states(units)
        for unit in units:
            self.bring_unit(unit)
        for unit in self.changed_units:
            if not unit["wait"]:
                self.await_unit(unit)
        self.stamp_changed()

    def record_action(self, unit: str, action: str, reason: str) -> bool:
        """Record an action; return True outside check mode."""
        self.actions.append({"unit": unit, "action": action, "reason": reason})
        return not self.check

    def reread(self, names: list[str], reload_on: list[str]) -> None:
        """Run daemon-reload if unit files are newer than the manager's state."""
        stale = [name for name in names if self.live[name].stale]
        if reload_on and not stale:
            loaded_at = self.systemd.loaded_at()
            stale = [path for path in reload_on if changed_at(path) > loaded_at]
        if stale and self.record_action(stale[0], "daemon-reload", "unit files are newer than what systemd holds"):
            self.systemd.must("daemon-reload")
            self.live = self.systemd.show(names)

    def boot_states(self, units: list[dict[str, Any]]) -> None:
        """Unmask, enable and disable units, with one call per action."""
        for word, wanted in (("unmask", None), ("enable", True), ("disable", False)):
            names = [unit["name"] for unit in units if boot_step(unit, self.live[unit["name"]]) == word]
            reason = "the unit is masked" if wanted is None else f"the unit is declared {'' if wanted else 'not '}to start at boot"
            for name in names:
                self.record_action(name, word, reason)
            if names and not self.check:
                self.systemd.must(word, "--", *names)
            if names and word == "unmask" and not self.check:
                self.live = self.systemd.show(list(self.live))

    def bring_unit(self, unit: dict[str, Any]) -> None:
        """Bring one unit into its declared running state."""
        name = unit["name"]
        live = self.live[name]
        if not live.exists:
            self.missing(unit)
            return
        if unit["state"] == "completed":
            self.run_once(unit)
            return
        if unit["state"] != "started":
            if live.active not in ("inactive", "failed") and self.record_action(name, "stop", f"the unit is {live.active}"):
                self.systemd.must("stop", "--", name)
            return
        digests = digests_of(unit, live)
        action, reason = self.decide_action(unit, live, digests)
        if not action:
            self.adopt(unit, live, digests)
        elif self.record_action(name, action, reason):
            self.carry_out(unit, action)

    def run_once(self, unit: dict[str, Any]) -> None:
        """Start a oneshot unit if its work is not done."""
        done, error = probe(unit["readiness"])
        if not done and self.record_action(unit["name"], "start", error):
            self.carry_out({**unit, "wait": True}, "start")

    def missing(self, unit: dict[str, Any]) -> None:
        """Handle a missing unit: ignored if declared stopped with missing_ok, a change in check mode, otherwise UnitError."""
        if unit["state"] == "stopped" and unit["missing_ok"]:
            return
        if self.record_action(
            unit["name"], "start" if unit["state"] in ("started", "completed") else "stop", "the unit does not exist yet"
        ):
            raise UnitError(f"{unit['name']}: unit not found - check that its package is installed")

    def decide_action(self, unit: dict[str, Any], live: Live, digests: Digests) -> tuple[str, str]:
        """Return action and reason for a unit declared started; empty if it is as declared."""
        stamp = read_stamp(self.stamps, unit["name"])
        action, reason = needed_action(unit, live, digests, stamp, check=self.check)
        for path in self.pending:
            if not action and concerns(path, unit, live):
                return "reload" if unit["reload"] else "restart", f"{path} would change"
        if not action and unit["liveness"]:
            answered, error = probe(unit["liveness"])
            if answered is None:
                raise UnitError(f"{unit['name']}: runs, but {error} - check what the unit waits for, such as the server of a mount")
            if not answered:
                return "restart", f"the unit runs, but {error}"
        return action, reason

    def adopt(self, unit: dict[str, Any], live: Live, digests: Digests) -> None:
        """Stamp a unit that was started by others, and wait for one whose previous run was killed while waiting."""
        if self.check or read_stamp(self.stamps, unit["name"]).get("invocation") == live.invocation:
            return
        if unit["readiness"]:
            self.await_ready(unit)
        write_stamp(self.stamps, unit["name"], live.invocation, digests)

    def carry_out(self, unit: dict[str, Any], action: str) -> None:
        """Start, restart or reload the unit, and wait for it unless `wait` is false."""
        name = unit["name"]
        remove_stamp(self.stamps, name)
        if self.live[name].active == "failed":
            self.systemd.call("reset-failed", "--", name)
        if self.live[name].suspended == FROZEN:
            self.systemd.call("thaw", "--", name)
        blocking = () if unit["wait"] else ("--no-block",)
        done = self.systemd.call(action, *blocking, "--", name)
        self.changed_units.append(unit)
        if done.returncode:
            raise self.failure(unit, f"{action} failed")
        if unit["wait"] and unit["readiness"]:
            self.await_ready(unit)

    def await_unit(self, unit: dict[str, Any]) -> None:
        """Wait for a queued start."""
        began = time.monotonic()
        for _ in ticks(began + unit["readiness_timeout"]):
            live = self.systemd.show([unit["name"]])[unit["name"]]
            if live.active == "failed":
                raise self.failure(unit, "start failed")
            if live.active in UP:
                break
        else:
            raise self.failure(unit, f"not running after {time.monotonic() - began:.0f} s")
        if unit["readiness"]:
            self.await_ready(unit)

    def await_ready(self, unit: dict[str, Any]) -> None:
        """Wait until the unit is ready. Raise UnitError at once if it has failed."""
        error = ""
        began = checked = time.monotonic()
        for now in ticks(checked + unit["readiness_timeout"]):
            answered, error = probe(unit["readiness"])
            if answered:
                return
            if now - checked > 0.5:
                checked = now
                if self.systemd.show([unit["name"]])[unit["name"]].active == "failed":
                    raise self.failure(unit, "failed before it was ready")
        raise self.failure(unit, f"runs, but after {time.monotonic() - began:.0f} s {error}")

    def failure(self, unit: dict[str, Any], what: str) -> UnitError:
        """Return the error with the last lines of the unit's journal."""
        live = self.systemd.show([unit["name"]])[unit["name"]]
        lines = self.systemd.journal_tail(unit["name"]) or "(the journal is empty)"
        return UnitError(f"{unit['name']}: {what} ({live.active}, {live.result}); last lines of its journal:\n{lines}")

    def stamp_changed(self) -> None:
        """Stamp the units that this task started with the digests of their files."""
        if not self.changed_units:
            return
        fresh = self.systemd.show([unit["name"] for unit in self.changed_units])
        for unit in self.changed_units:
            live = fresh[unit["name"]]
            write_stamp(self.stamps, unit["name"], live.invocation, digests_of(unit, live))


def boot_step(unit: dict[str, Any], live: Live) -> str:
    """Return the change of a unit's boot state: unmask, enable, disable or empty."""
    if live.load == "masked" and (unit["enabled"] or unit["state"] == "started"):
        return "unmask"
    if unit["enabled"] is None or not live.exists:
        return ""
    if unit["enabled"]:
        return "" if live.boot in STARTS_AT_BOOT else "enable"
    return "disable" if live.boot in ("enabled", "enabled-runtime") else ""


def concerns(path: str, unit: dict[str, Any], live: Live) -> bool:
    """Return whether the unit reads the path at its start."""
    config, own = unit["config"] + unit["received"], f"/etc/systemd/system/{unit['name']}"
    parts = [*config, *live.unit_files, own, f"{own}.d"]
    return any(path == part or path.startswith(f"{part}/") for part in parts)


def needed_action(unit: dict[str, Any], live: Live, digests: Digests, stamp: dict[str, Any], *, check: bool) -> tuple[str, str]:
    """Return action and reason for a unit declared started, from its state and the recorded digests."""
    if live.active not in UP:
        return "start", f"the unit is {live.active} ({live.detail})"
    if live.suspended:
        return "restart", f"its main process is {live.suspended}"
    again = "reload" if unit["reload"] else "restart"
    if stamp.get("invocation") == live.invocation:
        if stamp.get("unit") != digests.unit:
            return "restart", "the unit file changed after the start"
        if stamp.get("config") != digests.config:
            return again, "the configuration changed after the start"
        return "", ""
    for path in live.unit_files:
        if changed_at(path) > live.started_at:
            return "restart", f"{path} is newer than the start of the unit"
    # Whether a start by others, such as a boot, was before or after the server sent the files, their times do not tell.
    for path in files_under(unit["config"] + ([] if check else unit["received"])):
        if changed_at(path) > live.started_at:
            return again, f"{path} is newer than the start of the unit"
    return "", ""


def digests_of(unit: dict[str, Any], live: Live) -> Digests:
    """Return the current digests of the unit's files."""
    return Digests(config=digest(unit["config"] + unit["received"]), unit=digest(list(live.unit_files)))


def full_name(name: str) -> str:
    """Return the unit's name with its suffix."""
    return name if name.endswith(SUFFIXES) else f"{name}.service"


def main() -> None:
    """Run the module."""
    # As in rackwright.cluster.files: neither the node's journal nor the result may contain file contents.
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True, no_log=True)
    check = bool(module.check_mode)
    wanted = [{**unit, "name": full_name(unit["name"])} for unit in module.params["units"]]
    tree, units, failure = Tree(check), Units(Systemd(), check), ""
    try:
        tree.apply(module.params)
        units.pending = tuple(tree.changed_paths) if check else ()
        units.apply(wanted, module.params["daemon_reload_on"])
    except (PathError, UnitError) as error:
        failure = str(error)
    result = report(tree, units)
    if module._diff and result["changed"]:
        result["diff"] = [*tree.diffs, {"prepared": "".join(f"{d['unit']}: {d['action']}, because {d['reason']}\n" for d in units.actions)}]
    result["invocation"] = {"module_args": {"units": [unit["name"] for unit in wanted]}}
    if failure:
        module.fail_json(msg=failure, **result)
    module.exit_json(**result)


def report(tree: Tree, units: Units) -> dict[str, Any]:
    """Return the task's result."""
    past = {"started": "start", "restarted": "restart", "reloaded": "reload", "stopped": "stop"}
    return {
        "changed": bool(tree.changed_paths or units.actions),
        "changed_paths": tree.changed_paths,
        "actions": units.actions,
        **{word: [done["unit"] for done in units.actions if done["action"] == action] for word, action in past.items()},
    }


if __name__ == "__main__":
    main()
