"""Ctrl-C, a closed terminal, a reboot and a shutdown during `up`: the next plain `up` repairs the stack."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS, wait_until
from support.processes import list_processes
from support.project import ROOT, Project, clone

from rackwright.checks.cluster.harness.probe_container import EPHEMERAL, OWNER
from rackwright.drivers.cgroups import is_cgroup_v2
from rackwright.drivers.podman import limits
from rackwright.inventory import paths

_CTRL_C = b"\x03"
_PREPARATION = "setup"
"""Target of the Makefile that prepares the machine."""


class Terminal:
    """An interactive shell in the copy, on a terminal of its own."""

    def __init__(self, project: Project) -> None:
        self.project, self.said = project, ""
        self._shell, self._line = pty.fork()
        if self._shell == 0:
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.chdir(project.folder)
            os.execvpe("bash", ["bash", "--norc", "-i"], {**project.environment, "TERM": "xterm", "PS1": ""})
        fcntl.ioctl(self._line, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))

    def type(self, text: bytes) -> None:
        """Type a text."""
        os.write(self._line, text)

    def make_up(self) -> None:
        """Run the recipe of `make up`, without the preparation of the machine."""
        # make ignores `-o` with an unknown target, and would prepare the machine.
        assert f"\nup: {_PREPARATION} " in (self.project.folder / "Makefile").read_text()
        self.type(f"make -o {_PREPARATION} up STACK={self.project.stack} BIN={ROOT}/.venv/bin; echo ended=$?\n".encode())

    def read_until(self, pattern: str) -> str:
        """Read until the pattern appears; return what it matched."""
        deadline = time.monotonic() + HANG_SECONDS
        while (found := re.search(pattern, self.said)) is None:
            assert time.monotonic() < deadline, self.said[-3000:]
            if select.select([self._line], [], [], 0.5)[0]:
                self.said += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", os.read(self._line, 65536).decode(errors="replace"))
        return found.group()

    def close(self) -> None:
        """Close the window."""
        os.close(self._line)
        os.waitpid(self._shell, 0)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a stack of one server and one worker, before its first `up`."""
    project = clone(tmp_path_factory.mktemp("interrupts") / "checkout", like="lab-small")
    yield project
    project.remove()
    assert project.leftovers() == []


def _nodes(project: Project, *arguments: str) -> list[str]:
    listing = ["podman", "ps", "--quiet", "--filter", f"label=rackwright.stack={project.stack}", *arguments]
    return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()


def _describe_containers(project: Project) -> str:
    """Return what podman and the kernel say of each container of the stack."""
    form = "{{.Name}} {{.State.Status}} conmon={{.State.ConmonPid}} pid={{.State.Pid}} {{.Config.Labels}} {{.Config.Cmd}}"
    listing = ["podman", "container", "inspect", "--format", form, *_nodes(project, "--all")]
    found = subprocess.run(listing, capture_output=True, text=True, check=False)
    return f"{found.stdout}{found.stderr}"


def _reboot(project: Project) -> None:
    """Simulate a reboot: stopped containers, no sockets, and no process of a run."""
    subprocess.run(["podman", "stop", "--time", "0", *_nodes(project, "--all")], capture_output=True, check=True)
    sockets = Path(os.readlink(project.home / project.stack / "sockets"))
    assert sockets.name.startswith("rw-")
    shutil.rmtree(sockets, ignore_errors=True)


def _wait_until_ended(project: Project) -> None:
    """Wait until no process of the interrupted run is left but the terminal's shell."""

    def remaining() -> list[str]:
        return [command for command in list_processes(project) if not command.startswith("bash ")]

    wait_until(lambda: not remaining(), lambda: "\n".join(remaining()))


def _repair(project: Project) -> str:
    """Run a plain `up`; it has to end with a verdict that passed."""
    said = project.run_checked("up")
    assert project.report()["verdict"] == "passed"
    # Podman removes a probe's container a moment after its result.
    wait_until(lambda: len(_nodes(project)) == 2, lambda: f"not two containers:\n{_describe_containers(project)}")
    assert "warning" not in said.output.lower() and "Traceback" not in said.output, said.end
    return said.output


@pytest.mark.parametrize("moment", ["starting", "scheduler:", r"checking \w+"])
def test_ctrl_c_ends_with_next_command(small: Project, moment: str) -> None:
    """During the creation of nodes, the phases and the checks; each run continues the one before."""
    terminal = Terminal(small)
    terminal.make_up()
    terminal.read_until(moment)
    terminal.type(_CTRL_C)
    assert terminal.read_until(r"ended=\d+\n") == "ended=2\n"
    _wait_until_ended(small)
    *_, last = terminal.said.partition("Duration: ")
    assert f"rackwright: stack {small.stack}: up was interrupted." in last
    assert f"to continue: make up STACK={small.stack}" in last and f"to remove everything: make down STACK={small.stack}" in last
    assert "Error 130" in last and terminal.said.count("was interrupted") == 1
    assert "Traceback" not in terminal.said and "ended with status" not in terminal.said
    terminal.close()


def test_up_repairs_after_ctrl_c(small: Project) -> None:
    _repair(small)


def test_check_removes_container_of_killed_check(small: Project) -> None:
    listing = ["podman", "ps", "--format", "{{.ImageID}}", "--filter", f"label=rackwright.stack={small.stack}"]
    image = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()[0]
    labels = {"rackwright.stack": small.stack, EPHEMERAL: "check", OWNER: "1@1"}
    options = [option for name, value in labels.items() for option in ("--label", f"{name}={value}")]
    runtime = [] if is_cgroup_v2() else ["--runtime", "runc"]
    command = ["podman", *runtime, "run", "--detach", *options, *limits(), "--entrypoint", "sleep", image, "infinity"]
    subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(_nodes(small)) == 3
    verified = small.rackwright("verify", small.stack)
    assert verified.status == 0, verified.end
    wait_until(lambda: len(_nodes(small)) == 2, lambda: f"not two containers:\n{_describe_containers(small)}")


def test_up_repairs_after_reboot(small: Project) -> None:
    before = small.incarnations()
    _reboot(small)
    said = _repair(small)
    assert "no changes. " not in said
    after = small.incarnations()
    assert all(after[name] != before[name] and after[name].split("@")[0] == before[name].split("@")[0] for name in before)
    assert "no changes. " in _repair(small)


def test_up_repairs_after_closed_terminal(small: Project) -> None:
    _reboot(small)
    terminal = Terminal(small)
    terminal.make_up()
    terminal.read_until(r"(bootstrap|scheduler|base):")
    terminal.close()
    _wait_until_ended(small)
    _repair(small)


def test_up_repairs_after_shutdown_during_up(small: Project) -> None:
    """Every process is killed, every node stopped."""
    _reboot(small)
    child = small.start(small.pulumi_command("up"))
    assert child.stdout is not None
    assert any("base:" in line or "scheduler:" in line for line in child.stdout)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate(timeout=HANG_SECONDS)
    _wait_until_ended(small)
    _reboot(small)
    _repair(small)


def test_sockets_folder_is_of_stack(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the simulated reboot removes is the one that the product uses."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(small.home))
    assert Path(os.readlink(small.home / small.stack / "sockets")) == paths.socket_folder(small.stack)
