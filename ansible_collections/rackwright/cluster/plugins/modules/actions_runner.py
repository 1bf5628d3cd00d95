"""Register a GitHub Actions runner, or remove its registration.

config.sh takes the token from the environment variable ACTIONS_RUNNER_INPUT_TOKEN and removes the variable from its environment
(actions/runner, CommandSettings.cs). An argument would be in the process list, which every user can read.
Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: actions_runner
short_description: Register a GitHub Actions runner, or remove its registration
description:
  - C(registered) runs C(config.sh) if the runner is not registered, or is registered with other settings. A changed name, label or group
    replaces the registration. A registration with another C(url) must be removed first.
  - C(unregistered) runs C(config.sh remove) if the runner is registered.
  - C(config.sh) runs as C(user), with an environment of its own. The token is in that environment only.
options:
  state: {type: str, choices: [registered, unregistered], required: true, description: Whether the runner is registered.}
  token: {type: str, default: "", description: Registration or removal token. Needed only if something changes.}
  folder: {type: path, required: true, description: Folder of the runner.}
  user: {type: str, required: true, description: User of the runner.}
  url: {type: str, description: "URL of the repository, organization or enterprise (C(registered))."}
  name: {type: str, description: Name of the runner (C(registered)).}
  labels: {type: list, elements: str, default: [], description: Labels in addition to GitHub's own.}
  group: {type: str, description: Runner group. Without one, GitHub's default group.}
  work_folder: {type: path, description: Folder for the files of jobs (C(registered)).}
  ephemeral: {type: bool, default: false, description: Whether GitHub removes the runner after one job.}
  auto_update: {type: bool, default: true, description: Whether the runner replaces itself by newer releases.}
notes:
  - C(ansible.builtin.command) with C(environment) puts the variable into the command line of the shell on the node, where every user
    can read it.
"""

EXAMPLES = r"""
- name: Register the runner
  rackwright.cluster.actions_runner:
    state: registered
    token: "{{ lookup('ansible.builtin.file', token_file) }}"
    folder: /opt/actions-runner
    user: actions-runner
    url: https://github.com/example/models
    name: runner-gpu-runner0
    labels: [gpu]
    work_folder: /scratch/actions-runner
  no_log: true
"""

RETURN = r"""
error: {description: Why the state was not reached; empty otherwise. The token is not part of it., returned: always, type: str}
registered: {description: Whether the runner is registered now., returned: always, type: bool}
"""

PATIENCE = 300  # seconds that config.sh may take: it asks GitHub several times
SETTINGS = ".runner"
"""File in which the runner keeps its registration (actions/runner, ConfigurationStore.cs)."""
REQUESTED = ".rackwright-registration"
"""File with the requested settings: the runner keeps no labels."""
PATH = "/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Kept by the runner for its jobs (actions/runner, env.sh)."""
MASK = "***"


class RunnerError(Exception):
    """Why the state was not reached: where, what, what now."""


class Runner:
    """A runner's folder on this node."""

    def __init__(self, folder: str, user: str, token: str) -> None:
        self.folder = Path(folder)
        self.user = user
        self.token = token.strip()

    @property
    def settings(self) -> dict[str, Any]:
        """Return the registration; empty without one. The runner writes it with a byte order mark."""
        try:
            found = json.loads((self.folder / SETTINGS).read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise RunnerError(f"{self.folder / SETTINGS}: is not JSON - remove the file and register the runner again") from None
        return found if isinstance(found, dict) else {}

    @property
    def requested(self) -> dict[str, Any]:
        """Return the settings of the last registration; empty where another program registered the runner."""
        try:
            found = json.loads((self.folder / REQUESTED).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def config(self, *arguments: str, needs_token: bool = True) -> None:
        """Run config.sh as the runner's user. Raise RunnerError with its last lines if it fails."""
        if needs_token and not self.token:
            raise RunnerError("no token - create one at GitHub (Settings, Actions, Runners), and pass it to `rackwright runner`")
        account = pwd.getpwnam(self.user)
        environment = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": account.pw_dir, "USER": self.user, "LOGNAME": self.user}
        if needs_token:
            environment["ACTIONS_RUNNER_INPUT_TOKEN"] = self.token
        become: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            done = subprocess.run(
                ["./config.sh", *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=PATIENCE,
                umask=0o077,
                **become,
            )
        except FileNotFoundError:
            raise RunnerError(f"{self.folder}/config.sh: does not exist - run `rackwright up`, which installs the runner") from None
        except subprocess.TimeoutExpired:
            raise RunnerError(f"config.sh: no end after {PATIENCE} s - check the node's connection to GitHub") from None
        if done.returncode:
            raise RunnerError(f"config.sh ended with status {done.returncode}: {self._last_lines(done.stdout + done.stderr)}")

    def _last_lines(self, output: str) -> str:
        """Return the end of an output, without the token."""
        masked = output.replace(self.token, MASK) if self.token else output
        return "; ".join(line.strip() for line in masked.splitlines()[-5:] if line.strip()) or "no output"

    def register(self, wanted: dict[str, Any]) -> None:
        """Register the runner, in place of an older registration of this node."""
        if self.settings:
            self.config("remove", "--local", needs_token=False)
        self.config(*arguments_of(wanted))
        if not self.settings:
            raise RunnerError(f"config.sh ended without an error, but {self.folder / SETTINGS} does not exist - run the command again")
        (self.folder / REQUESTED).write_text(json.dumps(wanted, sort_keys=True) + "\n", encoding="utf-8")

    def unregister(self) -> None:
        """Remove the registration, at GitHub first."""
        self.config("remove")
        (self.folder / REQUESTED).unlink(missing_ok=True)


def arguments_of(wanted: dict[str, Any]) -> list[str]:
    """Return the arguments of config.sh. The token is not among them."""
    found = ["--unattended", "--replace", "--url", wanted["url"], "--name", wanted["name"], "--work", wanted["work_folder"]]
    found += ["--labels", ",".join(wanted["labels"])] if wanted["labels"] else []
    found += ["--runnergroup", wanted["group"]] if wanted["group"] else []
    found += ["--ephemeral"] if wanted["ephemeral"] else []
    return found + ([] if wanted["auto_update"] else ["--disableupdate"])


def is_registered(runner: Runner, wanted: dict[str, Any]) -> bool:
    """Return whether the runner is registered as wanted. Raise RunnerError if it belongs to another address."""
    found = runner.settings
    if not found:
        return False
    url = str(found.get("gitHubUrl") or found.get("serverUrl") or "").rstrip("/")
    if url != wanted["url"].rstrip("/"):
        raise RunnerError(
            f"the runner is registered with {url or 'an unknown address'} - remove it there with `rackwright runner STACK remove` first"
        )
    return found.get("agentName") == wanted["name"] and runner.requested == wanted


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["registered", "unregistered"], "required": True},
            "token": {"type": "str", "default": "", "no_log": True},
            "folder": {"type": "path", "required": True},
            "user": {"type": "str", "required": True},
            "url": {"type": "str"},
            "name": {"type": "str"},
            "labels": {"type": "list", "elements": "str", "default": []},
            "group": {"type": "str"},
            "work_folder": {"type": "path"},
            "ephemeral": {"type": "bool", "default": False},
            "auto_update": {"type": "bool", "default": True},
        },
        required_if=[("state", "registered", ["url", "name", "work_folder"])],
        supports_check_mode=True,
    )
    params = module.params
    runner = Runner(params["folder"], params["user"], params["token"])
    wanted = {key: params[key] for key in ("url", "name", "labels", "group", "work_folder", "ephemeral", "auto_update")}
    changed, error = False, ""
    # no_log hides the result of the task, and would hide the error as well: the role reports it in a task of its own.
    try:
        changed = not is_registered(runner, wanted) if params["state"] == "registered" else bool(runner.settings)
        if changed and not module.check_mode:
            runner.register(wanted) if params["state"] == "registered" else runner.unregister()
    except (RunnerError, OSError, KeyError) as failure:
        changed, error = False, str(failure)
    module.exit_json(changed=changed, error=error, registered=(runner.folder / SETTINGS).exists())


if __name__ == "__main__":
    main()
