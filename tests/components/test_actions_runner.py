"""GitHub Actions runner against a stand-in for its config.sh, which records environment and arguments. GitHub is never asked."""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from faults.fault_table import faults
from support.verdicts import verdict_of

from rackwright import layout
from rackwright.checks.cluster import test_runner
from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.checks.cluster.probes.runner import REGISTRATION, VISIBLE_GPUS
from rackwright.checks.cluster.probes.units import UNITS
from rackwright.drivers import ansible
from rackwright.operations import runner as operations
from rackwright.report.verdict import Verdict
from rackwright.yaml_loader import load_yaml

TOKEN = "AAEXAMPLETOKENOFAREGISTRATION"
URL = "https://github.com/example/models"
CONFIG = """#!/bin/bash
# Stand-in for config.sh of actions/runner: records what every user could read in the process list, and the environment.
cd "$(dirname "$0")" || exit
printf '%s\\n' "$@" >> arguments
echo -- >> arguments
env > environment
pid=$$
while [ "$pid" -gt 1 ]; do
  tr '\\0' ' ' < /proc/$pid/cmdline >> processes; echo >> processes
  pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status)
done
[ -e fails ] && { echo "token $ACTIONS_RUNNER_INPUT_TOKEN refused" >&2; exit 1; }
if [ "$1" = remove ]; then rm -f .runner; exit; fi
while [ $# -gt 0 ]; do case $1 in --name) name=$2;; --url) url=$2;; esac; shift; done
printf '\\357\\273\\277{"agentName": "%s", "gitHubUrl": "%s"}' "$name" "$url" > .runner
"""
TASKS = load_yaml((layout.product_root() / layout.ROLES / "actions_runner/tasks/register.yml").read_text())[:2]
INSTALLATION = load_yaml((layout.product_root() / layout.ROLES / "actions_runner/tasks/install.yml").read_text())[4:]
REMOVAL = load_yaml((layout.product_root() / layout.ROLES / "actions_runner/tasks/remove.yml").read_text())[1:3]
"""The tasks of the role that need the token or the archive, without those that change the system of this machine."""
OF_ROLE = load_yaml((layout.product_root() / layout.ROLES / "actions_runner/vars/main.yml").read_text())


class Machine:
    """A folder in place of a runner's node, with the stand-in unpacked from an archive like GitHub's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runner = folder, folder / "runner"
        self.runner.mkdir()
        (folder / "layout").mkdir(mode=0o700)
        (folder / "layout" / "config.sh").write_text(CONFIG)
        (folder / "layout" / "config.sh").chmod(0o755)
        with tarfile.open(folder / "actions-runner-linux-x64-2.337.0.tar.gz", "w:gz") as archive:
            archive.add(folder / "layout", ".")  # As src/dev.sh of actions/runner makes it.
        subprocess.run(["tar", "-xzf", folder / "actions-runner-linux-x64-2.337.0.tar.gz", "-C", self.runner], check=True)
        node = {"name": "runner0", "os": "debian-13", "architecture": "x86_64", "cpus": 4}
        variables = {"ansible_connection": "local", "ansible_python_interpreter": os.sys.executable}
        inventory = {"all": {"vars": {"cluster": {"stack": "ci"}}, "hosts": {"runner0": {**variables, "node": node}}}}
        (folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        self.variables: dict[str, Any] = {
            "actions_runner_url": URL,
            "actions_runner_name": "ci-runner0",
            "actions_runner_labels": ["gpu", "rtx4090"],
            "actions_runner_group": None,
            "actions_runner_work_folder": "/scratch/actions-runner",
            "actions_runner_ephemeral": False,
            "actions_runner_auto_update": True,
            "actions_runner_user": getpass.getuser(),
            "actions_runner_folder": str(self.runner),
        }

    def play(
        self, tasks: list[dict[str, Any]] = TASKS, *, token: str = TOKEN, check: bool = False, **change: Any
    ) -> ansible.PlaybookResult:
        """Run tasks of the role as `rackwright runner` runs its playbook, with the token in memory."""
        playbook = [{"name": "Register", "hosts": "all", "gather_facts": False, "vars": {**self.variables, **change}, "tasks": tasks}]
        (self.folder / "play.yml").write_text(yaml.safe_dump(playbook))

        async def run(file: str) -> ansible.PlaybookResult:
            return await ansible.play(
                layout.product_root(),
                str(self.folder / "play.yml"),
                inventory=self.folder / "inventory.yml",
                values={"actions_runner_token_file": file},
                record=self.folder / "record.jsonl",
                check=check,
                on_progress=ignore,
            )

        with operations._in_memory(token) as file:
            return asyncio.run(run(file))

    @property
    def calls(self) -> list[list[str]]:
        """Return the arguments of each call of config.sh."""
        file = self.runner / "arguments"
        return [call.splitlines() for call in file.read_text().split("--\n")[:-1]] if file.exists() else []


async def ignore(text: str) -> None:
    """Drop the progress."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine whose runner is not registered."""
    return Machine(tmp_path)


def test_token_is_in_environment_of_config_only(machine: Machine) -> None:
    """The process list is recorded from config.sh up to this test: Ansible's processes are in it."""
    done = machine.play()
    assert done.reasons == [] and len(done.changed) == 1
    assert f"ACTIONS_RUNNER_INPUT_TOKEN={TOKEN}" in (machine.runner / "environment").read_text().splitlines()
    assert "ansible" in (machine.runner / "processes").read_text()
    holding = [file.name for file in machine.folder.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]
    assert holding == ["environment"]
    assert TOKEN not in repr(done)


def test_arguments_are_those_of_config(machine: Machine) -> None:
    machine.play(actions_runner_group="gpus", actions_runner_ephemeral=True, actions_runner_auto_update=False)
    common = ["--unattended", "--replace", "--url", URL, "--name", "ci-runner0", "--work", "/scratch/actions-runner"]
    assert machine.calls == [[*common, "--labels", "gpu,rtx4090", "--runnergroup", "gpus", "--ephemeral", "--disableupdate"]]


def test_second_registration_changes_nothing(machine: Machine) -> None:
    machine.play()
    again = machine.play(token="another-token")
    assert (again.changed, again.reasons, len(machine.calls)) == ([], [], 1)


def test_changed_labels_replace_registration(machine: Machine) -> None:
    machine.play()
    changed = machine.play(actions_runner_labels=["gpu"])
    assert len(changed.changed) == 1
    assert machine.calls[1] == ["remove", "--local"] and machine.calls[2][-2:] == ["--labels", "gpu"]


def test_check_mode_reports_and_registers_nothing(machine: Machine) -> None:
    assert len(machine.play(check=True).changed) == 1
    assert machine.calls == [] and not (machine.runner / ".runner").exists()
    machine.play()
    assert machine.play(check=True).changed == []


def test_other_address_is_refused(machine: Machine) -> None:
    machine.play()
    (reason,) = machine.play(actions_runner_url="https://github.com/example/other").reasons
    assert f"is registered with {URL} - remove it there" in reason
    assert len(machine.calls) == 1


def test_error_of_config_is_shown_without_token(machine: Machine) -> None:
    (machine.runner / "fails").touch()
    (reason,) = machine.play().reasons
    assert reason.endswith("config.sh ended with status 1: token *** refused")
    record = (machine.folder / "record.jsonl").read_text()
    assert TOKEN not in record and "refused" in record


def test_missing_program_names_next_step(machine: Machine) -> None:
    (machine.runner / "config.sh").unlink()
    (reason,) = machine.play().reasons
    assert "config.sh: does not exist - run `rackwright up`" in reason


def test_removal_needs_registration_and_token(machine: Machine) -> None:
    assert machine.play(REMOVAL).changed == [] and machine.calls == []
    machine.play()
    assert len(machine.play(REMOVAL, check=True).changed) == 1 and len(machine.calls) == 1
    assert len(machine.play(REMOVAL).changed) == 1
    assert machine.calls[1] == ["remove"] and not (machine.runner / ".runner").exists()
    assert f"ACTIONS_RUNNER_INPUT_TOKEN={TOKEN}" in (machine.runner / "environment").read_text()


@pytest.fixture
def mirror(machine: Machine) -> Machine:
    """Return a machine without a runner, and a mirror with the archive of one release."""
    release = machine.folder / "releases" / "v2.337.0"
    release.mkdir(parents=True)
    archive = (machine.folder / "actions-runner-linux-x64-2.337.0.tar.gz").rename(release / "actions-runner-linux-x64-2.337.0.tar.gz")
    (machine.runner / "config.sh").unlink()
    machine.runner.chmod(0o755)
    (machine.folder / "cache").mkdir()
    machine.variables |= OF_ROLE | {
        "actions_runner_node": {"os": "debian-13", "architecture": "x86_64"},
        "actions_runner_releases": f"file://{machine.folder}/releases",
        "actions_runner_version": "2.337.0",
        "actions_runner_sha256": {"x86_64": hashlib.sha256(archive.read_bytes()).hexdigest()},
        "_actions_runner_cache": str(machine.folder / "cache"),
    }
    return machine


def installed(machine: Machine, *, check: bool = False, **change: Any) -> tuple[list[str], list[str]]:
    """Return the changed tasks of an installation, and why it failed."""
    done = machine.play(INSTALLATION, check=check, **change)
    return [result.task for result in done.changed], done.reasons


def test_release_is_installed_once(mirror: Machine) -> None:
    assert installed(mirror, check=True) == (["Download the runner"], [])
    assert list(mirror.runner.iterdir()) == []
    assert installed(mirror) == (["Download the runner", "Unpack the runner"], [])
    assert (mirror.runner / "config.sh").stat().st_mode & 0o777 == 0o755
    assert mirror.runner.stat().st_mode & 0o777 == 0o755, "the mode that the role gave it"
    assert installed(mirror) == installed(mirror, check=True) == ([], [])


def test_runner_that_updated_itself_is_not_set_back(mirror: Machine) -> None:
    installed(mirror)
    assert installed(mirror, actions_runner_version="2.336.0") == ([], [])


def test_pinned_release_is_installed_over_another(mirror: Machine) -> None:
    installed(mirror)
    (mirror.runner / "config.sh").write_text("older")
    pinned = {"actions_runner_auto_update": False}
    assert installed(mirror, **pinned) == (["Unpack the runner", "Record the installed release"], [])
    assert (mirror.runner / "config.sh").read_text() == CONFIG
    assert installed(mirror, **pinned) == installed(mirror, check=True, **pinned) == ([], [])


def test_archive_with_another_digest_is_not_unpacked(mirror: Machine) -> None:
    changed, (reason,) = installed(mirror, actions_runner_sha256={"x86_64": "0" * 64})
    assert changed == [] and "did not match" in reason
    assert list(mirror.runner.iterdir()) == list((mirror.folder / "cache").iterdir()) == []


SMI = """#!/bin/sh
for file in HERE/dev/nvidia[0-9]*; do
  [ "$(stat -c %a "$file")" = 666 ] && found=1 && echo "GPU ${file##*nvidia}: NVIDIA H100 (UUID: GPU-00000000-${file##*nvidia})"
done
[ "$found" ] || { echo "No devices found."; exit 6; }
"""
SYSTEMCTL = "#!/bin/sh\ncase $1 in stop) echo inactive ;; start) echo active ;; esac > HERE/state\n"
SHOWN = "Id=actions-runner.service\nLoadState=loaded\nActiveState={}\nUnitFileState=enabled\nMainPID=0\nControlGroup=\n"
NODE = SimpleNamespace(name="runner0", gpus=SimpleNamespace(count=2))
STACK = SimpleNamespace(runner=SimpleNamespace(url=URL))


class FaultyRunner:
    """A node for the commands of the runner's fault rows, with stand-ins of the tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("tools", "dev", "opt"):
            (folder / name).mkdir()
        for name, text in {"nvidia-smi": SMI, "systemctl": SYSTEMCTL, "runuser": '#!/bin/sh\nshift 3\nexec "$@"\n'}.items():
            (folder / "tools" / name).write_text(text.replace("HERE", str(folder)))
            (folder / "tools" / name).chmod(0o755)
        for number in (0, 1):
            (folder / "dev" / f"nvidia{number}").touch()
            (folder / "dev" / f"nvidia{number}").chmod(0o666)
        (folder / "opt" / ".runner").write_text(json.dumps({"agentName": "ci-runner0", "gitHubUrl": URL}))
        (folder / "state").write_text("active\n")

    def run(self, script: str) -> CommandOutput:
        """Run commands of a row or of a probe in the folders of this node."""
        moved = script.replace("/opt/actions-runner", f"{self.folder}/opt").replace("/dev/nvidia", f"{self.folder}/dev/nvidia")
        path = f"{self.folder}/tools:/usr/bin:/bin"
        done = subprocess.run(["sh", "-c", moved], capture_output=True, text=True, check=False, env={"PATH": path})
        return CommandOutput(rc=done.returncode, out=done.stdout, err=done.stderr)

    def answer(self, probe: Probe[Any]) -> Any:
        """Return the result of a probe; that of units is made of the state that the stand-in of systemctl keeps."""
        if probe is UNITS:
            return probe.read(CommandOutput(out=SHOWN.format((self.folder / "state").read_text().strip())))
        return probe.read(self.run(str(probe.command)))

    def verdict(self, name: str) -> Verdict:
        """Return the verdict of a check."""
        answers = {probe: (lambda probe=probe: self.answer(probe)) for probe in (REGISTRATION, UNITS, VISIBLE_GPUS)}
        check = getattr(test_runner, f"test_{name}")
        return verdict_of(check, answers, node=NODE, cluster=SimpleNamespace(stack="ci"), node_stack=STACK)[0]


@pytest.mark.parametrize("key", ["runner.registered", "runner.service_active", "runner.gpu_visible_to_jobs"])
def test_fault_turns_its_check_red_and_back(key: str, tmp_path: Path) -> None:
    node, row, name = FaultyRunner(tmp_path), faults()[key], key.partition(".")[2]
    assert node.verdict(name) is Verdict.PASSED
    assert node.run(row.apply).rc == 0
    assert node.verdict(name) is Verdict.FAILED
    node.run(row.undo)
    assert node.verdict(name) is Verdict.PASSED
