"""A copy of the project with a stack of its own, as a user has after `git clone`, for tests and benchmarks.

Everything that a copy creates has its stack's name as a label, its state directory is its own, and `remove` proves that nothing is left.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml
from support.command import CommandResult

from rackwright import layout
from rackwright.drivers import inotify_limits
from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).resolve().parents[2]
_PARTS = (
    "infra",
    layout.COLLECTIONS,
    layout.PLAYBOOKS,
    "roles",
    layout.KUBERNETES_BUNDLE,
    "tools/pulumi",
    "tools/bootstrap",
    "Pulumi.yaml",
    layout.ANSIBLE_CFG,
    "pyproject.toml",
    "Makefile",
)
_PATIENCE = 900.0
"""Seconds before a run counts as hung: a starved machine is slow, which is no failure."""
_SKIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", ".mypy_cache", ".ruff_cache", ".pytest_cache")


def _interruptible() -> None:
    """Reset SIGINT to its default: background shells set it to ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Project:
    """One copy, one stack."""

    folder: Path
    stack: str
    environment: dict[str, str] = field(default_factory=dict)
    reservation: IO[str] | None = None
    """The lock of the stack's network number, held while this object lives."""

    @property
    def home(self) -> Path:
        """Return the copy's own state directory."""
        return Path(self.environment["RACKWRIGHT_HOME"])

    @property
    def stack_file(self) -> Path:
        """Return the path of the stack file."""
        return self.folder / "stacks" / f"Pulumi.{self.stack}.yaml"

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Edit the stack file as a person would."""
        described = load_yaml(self.stack_file.read_text())
        change(described["config"]["rackwright:cluster"])
        self.stack_file.write_text(yaml.safe_dump(described, sort_keys=False))

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command in the copy, leading a process group of its own."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_interruptible,
        )

    def run(self, command: Sequence[str], *, timeout: float = _PATIENCE) -> CommandResult:
        """Run a command in the copy to its end."""
        started = time.monotonic()
        child = self.start(command)
        try:
            output, _ = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            output, _ = child.communicate()
            raise AssertionError(f"{' '.join(command)}: no end after {timeout} s\n{output}") from None
        return CommandResult(" ".join(command), child.returncode, output, time.monotonic() - started)

    def pulumi_command(self, verb: str, *options: str) -> list[str]:
        """Return `pulumi VERB -s STACK` without prompts."""
        asked = () if verb == "preview" else ("--yes", "--skip-preview")
        return [str(ROOT / ".venv/bin/pulumi"), verb, "--stack", self.stack, "--color", "never", "--non-interactive", *asked, *options]

    def pulumi(self, verb: str, *options: str, timeout: float = _PATIENCE) -> CommandResult:
        """Run Pulumi on the stack."""
        return self.run(self.pulumi_command(verb, *options), timeout=timeout)

    def run_checked(self, verb: str, *options: str, timeout: float = _PATIENCE) -> CommandResult:
        """Run Pulumi on the stack; fail if it fails."""
        said = self.pulumi(verb, *options, timeout=timeout)
        assert said.ok, said.end
        return said

    def rackwright(self, *arguments: str, timeout: float = _PATIENCE) -> CommandResult:
        """Run the product's own command line."""
        return self.run([str(ROOT / ".venv/bin/python"), "-m", "rackwright.cli.main", *arguments], timeout=timeout)

    def ssh(self, node: str, command: str, *, timeout: float = 120) -> CommandResult:
        """Run a command on a node."""
        return self.run(["ssh", "-F", str(self.home / self.stack / "ssh_config"), node, command], timeout=timeout)

    def as_user(self, command: str, *, timeout: float = _PATIENCE) -> CommandResult:
        """Run a command on the login node as an ordinary user."""
        return self.ssh("login0", f"runuser -l alice -c {json.dumps(command)}", timeout=timeout)

    def report(self) -> dict[str, Any]:
        """Return the recorded report."""
        found: dict[str, Any] = json.loads((self.home / self.stack / "report.json").read_text())
        return found

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return the engine's record, by resource name."""
        state = self.home / ".engine/state/.pulumi/stacks/rackwright" / f"{self.stack}.json"
        deployment = json.loads(state.read_text())["checkpoint"]["latest"]
        return {resource["urn"].split("::")[-1]: resource for resource in deployment.get("resources") or []}

    def incarnations(self) -> dict[str, str]:
        """Return node -> id of its instance."""
        found = self.resources()
        return {name: found[name]["outputs"]["instance_uid"] for name in found if found[name]["type"] == "rackwright:lab:Node"}

    def leftovers(self) -> list[str]:
        """Return containers, volumes and networks with the stack's label."""
        label = f"label=rackwright.stack={self.stack}"
        listings = (("ps", "-a", "--filter", label), ("volume", "ls", "--filter", label), ("network", "ls", "--filter", label))
        return [line for listing in listings for line in _podman(*listing, "-q").split()]

    def remove(self) -> None:
        """Remove the rest of the stack, found by its label only."""
        for kind, listing in (("rm", ("ps", "-a")), ("volume rm", ("volume", "ls")), ("network rm", ("network", "ls"))):
            names = _podman(*listing, "-q", "--filter", f"label=rackwright.stack={self.stack}").split()
            if names:
                _podman(*kind.split(), "--force", *(("--time", "0") if kind == "rm" else ()), *names)
        inotify_limits.forget(self.stack)
        shutil.rmtree(self.folder, ignore_errors=True)


def clone(folder: Path, *, like: str = "lab", number: int | None = None) -> Project:
    """Return a copy of the project with a stack like one of `stacks/`, under a name, network and port of its own."""
    reservation = None
    if number is None:
        number, reservation = reserve_number()
    stack = f"t{number}-{secrets.token_hex(2)}"
    for part in _PARTS:
        source = ROOT / part
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, folder / part, ignore=_SKIPPED, symlinks=True) if source.is_dir() else shutil.copy(source, folder / part)
    described = load_yaml((ROOT / "stacks" / f"Pulumi.{like}.yaml").read_text())
    cluster = described["config"]["rackwright:cluster"]
    cluster["network"] = {"cidr": f"10.{number}.0.0/24"}
    cluster.setdefault("access", {})["port"] = 12_000 + number
    if "control_plane_vip" in cluster["scheduler"]:
        cluster["scheduler"]["control_plane_vip"] = f"10.{number}.0.10"
    project = Project(folder, stack, _environment(folder), reservation)
    (folder / "stacks").mkdir()
    project.stack_file.write_text(yaml.safe_dump(described, sort_keys=False))
    return project


def reserve_number() -> tuple[int, IO[str]]:
    """Return a number whose network (10.NUMBER.0.0/24) no other test and no podman network has, and the lock that reserves it."""
    folder = Path(tempfile.gettempdir()) / f"rackwright-test-networks-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    subnets = _podman("network", "ls", "--format", "json") if shutil.which("podman") else ""
    for number in random.sample(range(100, 180), 80):
        lock = (folder / str(number)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        if f'"10.{number}.' not in subnets:
            return number, lock
    raise AssertionError("podman networks or other tests use every network from 10.100.0.0/24 to 10.179.0.0/24: podman network ls")


def _environment(folder: Path) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "RACKWRIGHT_", "ANSIBLE_", "PYTEST_"))}
    home = folder.parent / f"{folder.name}-home"
    return {
        **inherited,
        "RACKWRIGHT_HOME": str(home),
        "RACKWRIGHT_PYTHON": str(ROOT / ".venv/bin/python"),
        "PYTHONPATH": str(folder / "infra"),
        "NO_COLOR": "1",
    }


def _podman(*arguments: str) -> str:
    return subprocess.run(["podman", *arguments], capture_output=True, text=True, check=False, timeout=120).stdout
