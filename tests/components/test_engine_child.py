"""The engine under the shim: signals that it receives, their number, and the result of an interrupted run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS, wait_until

from rackwright.processes import start_time
from shim import interruption

CHECKOUT = Path(__file__).resolve().parents[2]
ENGINE = """#!{python}
import os, signal, sys, time
received, log = [], os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(number, _):
    received.append(number)
    os.write(log, (signal.Signals(number).name + chr(10)).encode())  # A file object refuses a second write within the first.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, note)
os.write(log, (str(os.getpid()) + chr(10)).encode())
signals = os.environ.get("SIGNALS") == "1"
while signals and len(received) < int(os.environ.get("WANTED", "1")):
    time.sleep(0.02)
for _ in range(25 if signals else 0):  # A second one would come at once.
    time.sleep(0.02)
mark = os.environ.get("RACKWRIGHT_CANCELLED", "")
if "MARK" in os.environ:
    open(mark, "w").close()
sys.exit(int(os.environ.get("ENDS_WITH", "1")))
"""


class Shim:
    """The shim on a project with one stack, in front of an engine that notes the signals it receives."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "log"
        venv = root / "checkout" / ".venv"
        (venv / "bin").mkdir(parents=True)
        for name in ("tools", "infra"):
            (venv.parent / name).symlink_to(CHECKOUT / name)
        (venv / "bin" / "python").symlink_to(sys.executable)
        (venv.parent / "Pulumi.yaml").write_text("name: rackwright\nruntime: python\nstackConfigDir: stacks\n")
        state = root / "home/.engine/state/.pulumi/stacks/rackwright/lab.json"
        state.parent.mkdir(parents=True)
        state.write_text("{}")
        engine = root / "pulumi"
        engine.write_text(ENGINE.format(python=sys.executable, log=str(self.log)))
        engine.chmod(0o755)
        (venv / "rackwright-engine").write_text(f"{engine}\n")
        self.venv = venv

    def start(self, verb: str = "up", *options: str, **environ: str) -> subprocess.Popen[str]:
        """Start `pulumi VERB -s lab` as leader of a process group and wait for its engine.

        With SIGNALS=1 the engine ends only after a signal, otherwise at once.
        """
        command = [sys.executable, "-IS", str(CHECKOUT / "tools/pulumi/start_shim.py"), str(self.venv), verb, "-s", "lab", *options]
        given = {"PATH": os.defpath, "HOME": str(self.root), "RACKWRIGHT_HOME": str(self.root / "home"), **environ}
        child = subprocess.Popen(
            command,
            cwd=self.venv.parent,
            env=given,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        wait_until(self.noted, pause=0.02)
        return child

    def noted(self) -> list[str]:
        """Return lines of the engine's log: its process id, then signals."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    """Yield one shim; end its engine afterwards."""
    made = Shim(tmp_path)
    yield made
    for pid in made.noted()[:1]:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.parametrize(
    ("kill", "number", "received"),
    [
        (os.kill, signal.SIGINT, "SIGINT"),
        (os.kill, signal.SIGTERM, "SIGTERM"),
        (os.kill, signal.SIGHUP, "SIGINT"),
        (os.killpg, signal.SIGINT, "SIGINT"),
        (os.killpg, signal.SIGTERM, "SIGTERM"),
    ],
)
def test_engine_receives_each_signal_once(shim: Shim, kill: Callable[[int, int], None], number: signal.Signals, received: str) -> None:
    child = shim.start(SIGNALS="1")
    kill(child.pid, number)
    _, said = child.communicate(timeout=HANG_SECONDS)
    assert shim.noted()[1:] == [received]
    assert child.returncode == 128 + number
    assert said.startswith("rackwright: stack lab: up was interrupted. ")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_passed_on_signal_is_the_same_one(shim: Shim, first: signal.Signals) -> None:
    """The command that started `pulumi` received it, too, and passes it on."""
    child = shim.start(SIGNALS="1")
    os.killpg(child.pid, first)
    while child.poll() is None:  # Also while it ends itself, after its engine.
        os.kill(child.pid, signal.SIGTERM)
    assert shim.noted()[1:] == [first.name]
    assert child.returncode == 128 + first


def test_second_signal_of_another_process_is_passed_on(shim: Shim) -> None:
    child = shim.start(SIGNALS="1", WANTED="2")
    kill = f"kill -TERM {child.pid}"
    for count in (1, 2):
        subprocess.run(["sh", "-c", kill], check=True)
        wait_until(lambda count=count: len(shim.noted()) > count, pause=0.02)
    child.communicate(timeout=HANG_SECONDS)
    assert shim.noted()[1:] == ["SIGTERM", "SIGTERM"]


def test_hangup_of_group_cancels_engine(shim: Shim) -> None:
    child = shim.start(SIGNALS="1")
    os.killpg(child.pid, signal.SIGHUP)
    child.communicate(timeout=HANG_SECONDS)
    assert "SIGINT" in shim.noted()


def test_engine_dies_with_killed_shim(shim: Shim) -> None:
    child = shim.start(ENDS_WITH="0", SIGNALS="1")
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=HANG_SECONDS)
    wait_until(lambda: start_time(int(shim.noted()[0])) is None)
    assert shim.noted()[1:] == []


@pytest.mark.parametrize(
    ("ends_with", "mark", "code", "speaks"),
    [("1", "", 1, False), ("1", "1", 130, True), ("8", "", 130, True), ("0", "1", 130, True), ("0", "", 0, False)],
)
def test_message_follows_interruption(shim: Shim, ends_with: str, mark: str, code: int, speaks: bool) -> None:
    """At a terminal the engine reads Ctrl-C as a key: then only the provider's mark shows the interruption."""
    child = shim.start(ENDS_WITH=ends_with, **({"MARK": mark} if mark else {}))
    _, said = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, "was interrupted" in said) == (code, speaks)
    assert not list((shim.root / "home" / ".engine").glob("cancelled.*"))


def test_message_names_commands_of_caller() -> None:
    assert interruption.message("up", "lab", {"MAKELEVEL": "1"}).splitlines()[1:] == [
        "  to continue: make up STACK=lab",
        "  to remove everything: make down STACK=lab",
    ]
    assert interruption.message("up", "lab", {}).splitlines()[1:] == [
        "  to continue: pulumi up -s lab",
        "  to remove everything: pulumi destroy -s lab",
    ]
    assert interruption.message("destroy", "lab", {"MAKELEVEL": "1"}).endswith("\n  to continue: make down STACK=lab")


@pytest.mark.parametrize(("said", "verb"), [("update", "up"), ("dn", "destroy"), ("pre", "preview"), ("refresh", "refresh"), ("stack", "")])
def test_aliases_have_full_names(said: str, verb: str) -> None:
    assert interruption.verb(said) == verb


@pytest.mark.parametrize(("options", "code"), [([], 130), (["--exclude-protected"], 0)])
def test_destroy_that_leaves_resources_was_interrupted(shim: Shim, options: list[str], code: int) -> None:
    """The engine ends a cancelled destroy with 0; `make down` must not continue with a deletion by label."""
    state = shim.root / "home/.engine/state/.pulumi/stacks/rackwright/lab.json"
    state.write_text('{"checkpoint": {"latest": {"resources": [{"urn": "u"}]}}}')
    child = shim.start("destroy", *options, ENDS_WITH="0")
    _, said = child.communicate(timeout=HANG_SECONDS)
    assert (child.returncode, "destroy was interrupted" in said) == (code, bool(code))
