"""Child process that runs one playbook through ansible-runner. Standard input: a request as JSON. Standard output: events as JSON lines."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.drivers.failure_reason import HIDDEN, failure_reason, what_changed
from rackwright.drivers.run_recorder import RunRecorder
from rackwright.drivers.task_diff import sides
from rackwright.model.hostlists import compressed
from rackwright.report.redact import Redactor, redactor
from rackwright.report.run_record import TaskRecord, TaskStatus
from rackwright.yaml_loader import load_yaml

ROLL: Final = "rackwright_requires_drain"
"""Fact by which a role reports that it can continue only while the node has no jobs, and why."""
_WAITING: Final = "rackwright progress: "
"""First words of a line that an action displays while it waits (plugin_utils/idle.py of the collection)."""
_FOLDER: Final = ".ansible-"
"""Prefix of the temporary folder of a run, followed by its process ID."""


class Reporter:
    """Reduces ansible-runner's events to those of the result, with secrets masked."""

    def __init__(self, phases: Mapping[str, str], recorder: RunRecorder | None = None, mask: Redactor | None = None) -> None:
        self._phases, self._recorder, self._mask = phases, recorder, mask or Redactor()
        self._phase = ""
        self._failed: set[str] = set()
        self._times: dict[tuple[str, str, str], list[Any]] = {}
        self.message = ""

    def handle(self, event: dict[str, Any]) -> bool:
        """Handle one event; return False, so that ansible-runner does not store it on disk."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        if "res" in data:
            data = {**data, "res": self._mask.in_all(data["res"])}
        if self._recorder is not None:
            self._recorder.handle(kind, data, self._phase)
        if kind.startswith("runner_on_") and data.get("start") and data.get("end"):
            self._measure(data, failed=kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"))
        if kind == "playbook_on_play_start":
            self._phase = self._phases.get(data.get("name", ""), "")
        elif kind == "playbook_on_task_start":
            _emit("progress", text=f"{self._phase}: {data.get('task', '')}")
        elif kind in ("runner_on_failed", "runner_on_unreachable"):
            self._failed |= set() if data.get("ignore_errors") else {str(data.get("host", ""))}
            if data.get("res", {}).get("not_reached"):
                _emit("failed", host=data.get("host", ""), phase="", task="", detail=failure_reason(data["res"]))
            elif not data.get("ignore_errors"):
                _emit("failed" if kind.endswith("failed") else "unreachable", **self._result(data, failure_reason(data.get("res", {}))))
        elif kind == "runner_on_ok" and ROLL in data.get("res", {}).get("ansible_facts", {}):
            _emit("requires_drain", **self._result(data, str(data["res"]["ansible_facts"][ROLL])))
        elif kind == "runner_on_ok" and data.get("res", {}).get("changed"):
            self._changed(data, data["res"])
        elif kind in ("error", "verbose") and event.get("stdout", "").strip():
            self._read_display(event["stdout"])
        return False

    def _measure(self, data: dict[str, Any], *, failed: bool) -> None:
        """Extend the time of a phase, role and host by that of a task; ansible-runner's times are of UTC without a zone."""
        key = (self._phase, str(data.get("role") or ""), str(data.get("host", "")))
        found = self._times.setdefault(key, [data["start"], data["end"], 0, 0])
        self._times[key] = [min(found[0], data["start"]), max(found[1], data["end"]), found[2] + 1, found[3] + failed]

    def times(self) -> list[list[Any]]:
        """Return phase, role, host, start, end, number of tasks and of failed ones."""
        return [[*key, *values] for key, values in self._times.items()]

    def ended_early(self, order: Sequence[str]) -> str:
        """Return where a run ended before its last phase, and the nodes that did not fail and are left as they were; empty if it did not.

        Ansible ends a run if all nodes of a play fail, or one of a play whose other nodes need it (`any_errors_fatal`).
        """
        left = sorted({host for _, _, host in self._times} - self._failed)
        if not left or self._phase not in order[:-1]:
            return ""
        later = ", ".join(dict.fromkeys(order[order.index(self._phase) + 1 :]))
        return f"the run ended in {self._phase}; {compressed(left)} did not get the rest of it, nor the phases after it: {later}"

    def _changed(self, data: dict[str, Any], result: dict[str, Any]) -> None:
        """Report one event per affected host. A task that queries a controller about other nodes lists the nodes that would change."""
        live, declared = sides(result)
        event = {**self._result(data, what_changed(result)), "live": live, "declared": declared}
        about = result.get("changed_hosts") or {event["host"]: live}
        for host, why in about.items():
            _emit("changed", **{**event, "host": host, "live": why})

    def hidden(self, notes: Iterable[str]) -> None:
        """Report changed tasks whose results are not shown, from the recorder's lines."""
        for line in notes:
            note = json.loads(line)
            phase = self._phases.get(note.pop("play"), "")
            _emit("changed", **note, phase=phase, detail="content not shown")
            if self._recorder is not None:
                self._recorder.write(TaskRecord(**note, phase=phase, status=TaskStatus.CHANGED, message=HIDDEN, hidden=True))

    def _read_display(self, stdout: str) -> None:
        """Pass on what an action says while it waits, and keep an error of Ansible."""
        waiting = [line.partition(_WAITING)[2].strip() for line in stdout.splitlines() if _WAITING in line]
        for text in waiting:
            _emit("progress", text=f"{self._phase}: {text}")
        if waiting:
            return
        if "ERROR" in stdout or "rror:" in stdout:
            self.message = stdout.strip()

    def _result(self, data: dict[str, Any], detail: str) -> dict[str, str]:
        return {
            "host": data.get("host", ""),
            "phase": self._phase,
            "role": data.get("role") or "",
            "task": data.get("task", ""),
            "detail": detail,
        }


def phases(playbooks: Iterable[Path]) -> dict[str, str]:
    """Return play name -> phase: the name of the play's playbook file."""
    files = {file.stem: _plays(file) for file in playbooks}
    return {str(play["name"]): stem for stem, plays in files.items() for play in plays if "name" in play and "hosts" in play}


def phase_order(playbook: Path) -> list[str]:
    """Return the phases that a table of contents imports, in their order; empty for another playbook."""
    return [
        Path(str(play["ansible.builtin.import_playbook"])).stem for play in _plays(playbook) if "ansible.builtin.import_playbook" in play
    ]


def imported(playbook: Path) -> list[Path]:
    """Return the playbooks that a table of contents imports by absolute path."""
    named = [Path(play.get("ansible.builtin.import_playbook", "")) for play in _plays(playbook)]
    return [file for file in named if file.is_absolute() and file.is_file()]


def _plays(file: Path) -> list[dict[str, Any]]:
    return load_yaml(file.read_text(encoding="utf-8")) or []


def run(request: dict[str, Any]) -> int:
    """Run the playbook; return the status of ansible-playbook."""
    import ansible_runner

    root = Path(request["root"])
    playbook = root / layout.PLAYBOOKS / request["playbook"]
    recorder = RunRecorder.of(request["record"], request["extra_vars"])
    mask = redactor(*(Path(path) for path in request["extra_vars"]))
    reporter = Reporter(phases([*sorted((root / layout.PLAYBOOKS).glob("*.yml")), *imported(playbook)]), recorder, mask)
    with private_tempdir(Path(request["inventory"]).parent) as folder:
        hidden = Path(folder) / "hidden"
        outcome = ansible_runner.run(
            private_data_dir=folder,
            project_dir=str(root),
            playbook=str(playbook),
            inventory=request["inventory"],
            extravars=request["values"],
            cmdline=_options(request),
            limit=",".join(request["limit"]) or None,
            event_handler=reporter.handle,
            quiet=True,
            envvars={"RACKWRIGHT_NO_LOG_CHANGES": str(hidden)},
            settings={"pexpect_timeout": 1, "suppress_ansible_output": True},
        )
        reporter.hidden(hidden.read_text(encoding="utf-8").splitlines() if hidden.exists() else ())
    if outcome.rc and (early := reporter.ended_early(phase_order(playbook))):
        _emit("ended_early", text=early)
    if recorder is not None and recorder.problem:
        _emit("unrecorded", text=recorder.problem)
    _emit("times", rows=reporter.times())
    _emit("end", status=int(outcome.rc or 0), message=reporter.message)
    return int(outcome.rc or 0)


@contextmanager
def private_tempdir(beside: Path) -> Iterator[str]:
    """Yield a folder for ansible-runner's files beside the inventory, removed with the stack. Remove the folders of killed runs."""
    for left in beside.glob(f"{_FOLDER}*"):
        if not Path(f"/proc/{left.name.removeprefix(_FOLDER).split('-')[0]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-", dir=beside) as folder:
        yield folder


def _options(request: dict[str, Any]) -> str:
    options = [f"-e {shlex.quote(f'@{path}')}" for path in request["extra_vars"]]
    skipped = [f"--skip-tags {','.join(request['skip_tags'])}"] if request["skip_tags"] else []
    return " ".join([*options, *skipped, *(["--check", "--diff"] if request["check"] else [])])


def _emit(event: str, **data: Any) -> None:
    print(json.dumps({"event": event, **data}), flush=True)


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(run(json.load(sys.stdin)))
