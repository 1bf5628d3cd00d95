"""The lab's journey as a newcomer types it: set-up, everyday commands, trouble, removal."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.command import CommandResult

from newcomer import caches
from newcomer.image import SUITES
from newcomer.leftovers import listing_script, parse_leftovers
from newcomer.machine import ADMINISTRATOR, Machine

STACK = "lab"
FIRST_UP_SECONDS = 7200.0
"""Without KVM and without caches the engine alone takes most of an hour."""
STEP_SECONDS = 2700.0
MAKE_TEST_SECONDS = 6 * 3600.0
"""Without KVM a machine is about ten times slower than its host."""
CASES = [(os_name, mode) for os_name in sorted(SUITES, reverse=True) for mode in ("rootless", "rootful")]
"""Release of Debian, and whether root uses Podman: the newest release first."""

Log = Callable[[str], None]


@dataclass(frozen=True)
class Journey:
    """One checkout on one machine, used by the administrator: rootless, or as root."""

    machine: Machine
    root: bool
    log: Log
    stack: str = STACK

    @property
    def user(self) -> str:
        """Return the user whose Podman holds the nodes."""
        return "root" if self.root else ADMINISTRATOR

    @property
    def stack_file(self) -> str:
        """Return the path of the stack file in the checkout."""
        return f"stacks/Pulumi.{self.stack}.yaml"

    def run(self, command: str, timeout: float = STEP_SECONDS, title: str = "") -> CommandResult:
        """Run a command in the checkout, for root in a shell of sudo, and log its seconds."""
        typed = f"sudo bash -c {shlex.quote(command)}" if self.root else command
        result = self.machine.run(ADMINISTRATOR, f"cd rackwright && {typed}", timeout)
        self.log(f"{result.seconds:7.0f} s  {'ok' if result.ok else f'exit {result.status}':8} {title or command}")
        return result

    def require(self, command: str, timeout: float = STEP_SECONDS) -> CommandResult:
        """Run a command that has to end with 0."""
        result = self.run(command, timeout)
        assert result.ok, result.end
        return result

    def use(self, command: str) -> CommandResult:
        """Run a command of the activated environment."""
        return self.run(f"source .venv/bin/activate && {command}", title=command)

    def up(self, *options: str) -> CommandResult:
        """Run `pulumi up`, which has to succeed and to leave a passed verdict."""
        words = " ".join(("--yes", "--skip-preview", "--color", "never", *options))
        result = self.use(f"pulumi up -s {self.stack} {words}")
        assert result.ok, result.end
        assert self.report()["verdict"] == "passed"
        return result

    def prepare(self, checkout: Path, *, with_caches: bool) -> None:
        """Clone the checkout and hand in what saves time."""
        self.machine.clone(ADMINISTRATOR, checkout)
        archive = caches.find_node_image(checkout) if with_caches else None
        engine = caches.find_engine() if with_caches else None
        if engine is not None:
            caches.hand_in_engine(self.machine, engine, root=self.root)
        if archive is not None:
            # Nothing loads an image before Podman is installed, and installing it is what `make setup` does.
            self.require("make setup", FIRST_UP_SECONDS)
            caches.hand_in_node_image(self.machine, archive, root=self.root)
        self.log(f"caches: engine {'handed in' if engine else 'none'}, node image {'handed in' if archive else 'none'}")

    def describe_podman(self) -> str:
        """Return version, storage driver, OCI runtime and network backend: they decide what the seconds mean."""
        fields = "{{.Version.Version}} {{.Store.GraphDriverName}} {{.Host.OCIRuntime.Name}} {{.Host.NetworkBackend}}"
        return self.require(f"podman info --format '{fields}'").output.strip()

    def report(self) -> Any:
        """Return the verdict on record."""
        return json.loads(self.require(f"cat .rackwright/{self.stack}/report.json").output)

    def drift(self) -> tuple[CommandResult, Any]:
        """Return how `rackwright drift` ended, and its report."""
        result = self.use(f"rackwright drift {self.stack} --json")
        assert "{" in result.output, result.end
        found, _ = json.JSONDecoder().raw_decode(result.output[result.output.index("{") :])
        return result, found

    def differences(self) -> set[tuple[str, str, str]]:
        """Return layer, node and subject of each difference; there has to be one."""
        result, found = self.drift()
        assert not result.ok, result.end
        return {(each["layer"], each["node"], each["subject"]) for each in found["differences"]}

    def on_node(self, node: str, command: str) -> CommandResult:
        """Run a command on a node of the cluster; it has to end with 0."""
        result = self.use(f"rackwright ssh {self.stack} {node} {shlex.quote(command)}")
        assert result.ok, result.end
        return result

    def set_workers(self, count: int) -> None:
        """Edit the number of workers in the stack file."""
        self.require(
            f"sed -i -E '/worker:/s/count: [0-9]+/count: {count}/' {self.stack_file} && grep -q 'worker:.*count: {count}' {self.stack_file}"
        )

    def workers(self) -> str:
        """Return Slurm's names of the nodes that are in service."""
        return self.on_node("login0", "sinfo --noheader --Node --format '%N %T'").output

    def leftovers(self) -> list[str]:
        """Return what is left of the stack on the machine."""
        listing = self.run(listing_script(self.stack, root=self.root), title="list what is left")
        assert listing.ok, listing.end
        return parse_leftovers(listing.output, stack=self.stack, user=self.user)
