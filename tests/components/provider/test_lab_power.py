"""The power agent as a process and as a resource, with a stand-in for podman."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hang import ENDLESS_SECONDS, HANG_SECONDS, wait_until

from rackwright.drivers import daemon
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.processes import start_time
from rackwright.provider.lab import power, power_agent
from rackwright.provider.lab.power import Agent, PowerManager, running_agent
from rackwright.provider.lab.power_agent import Agent as Loop
from rackwright.provider.protocol.diff import PropertyDiffKind
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext

STAND_IN = """#!{python} -IS
import json, os, sys, time
words = sys.argv[3:] if sys.argv[1] == "--runtime" else sys.argv[1:]
folder = {folder!r}
if words[0] == "ps":
    print("\\n".join(os.listdir(folder)))
    sys.exit()
file = os.path.join(folder, words[-1])
if not os.path.exists(file):
    sys.exit("Error: no such container " + words[-1])
found = json.load(open(file))
if words[0] in ("stop", "start"):
    open(folder + ".calls", "a").write(" ".join(words) + "\\n")
    if found.get("broken"):
        sys.exit("Error: " + found["broken"])
    found["State"] = dict(found["State"], Running=words[0] == "start")
    if words[0] == "start":
        found["State"]["StartedAt"] = time.strftime("%Y-%m-%dT%H:%M:%S.999999999Z", time.gmtime(time.time() + 1))
    json.dump(found, open(file, "w"))
else:
    print(json.dumps([found]))
"""


PAUSE = 0.05
AGENT = f"""
import sys
from rackwright.provider.lab import power_agent as agent
agent._POLL_SECONDS = agent._ABSENT_POLL_SECONDS = {PAUSE}
sys.exit(agent.main(*sys.argv[2:]))
"""
"""The agent with shorter pauses between its polls."""


async def said(_: str) -> None:
    """Discard a progress message."""


OPERATION = RequestContext("urn", "lab", "power", preview=False, status=said, info=said, warn=said)


@pytest.fixture
def containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the stand-in's containers; stack lab has a state directory, a controller that is not running, and worker0."""
    folder = tmp_path / "containers"
    folder.mkdir()
    program = tmp_path / "bin" / "podman"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable, folder=str(folder)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(power_agent, "_POLL_SECONDS", PAUSE)
    monkeypatch.setattr(power, "_COMMAND", (sys.executable, "-c", AGENT, power_agent.__name__))
    monkeypatch.setattr(power, "_START", HANG_SECONDS)
    paths.prepare("lab")
    container(folder, "login0", running=False)
    container(folder, "worker0")
    return folder


def container(folder: Path, node: str, *, running: bool = True, **more: Any) -> None:
    """Create a container of stack lab that started in 2026."""
    labels = {"rackwright.stack": "lab", "rackwright.node": node}
    state = {"Running": running, "StartedAt": "2026-01-01T00:00:00.5Z", "Pid": 0}
    found = {"Id": node * 12, "Name": f"lab-{node}", "State": state, "NetworkSettings": {}, "Config": {"Labels": labels}, **more}
    (folder / f"lab-{node}").write_text(json.dumps(found))


def calls(containers: Path) -> list[str]:
    """Return podman's calls."""
    file = Path(f"{containers}.calls")
    return file.read_text().splitlines() if file.exists() else []


def look(root: Path, done: Callable[[int], object]) -> None:
    """Run an agent on requests below `root` until `done` is true; its argument is the number of polls."""

    class Here(Loop):
        looks = 0

        async def _root(self) -> str | None:
            self.looks += 1
            return str(root)

    async def run() -> None:
        lock = paths.power_lock("lab").open("a")
        loop = Here("lab", "lab-login0", ["worker0"], lock.fileno())
        running = asyncio.create_task(loop.run())
        await asyncio.to_thread(wait_until, lambda: done(loop.looks), pause=0.02)
        loop.stopped.set()
        await running
        lock.close()

    asyncio.run(run())


@pytest.fixture
def ask(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a request as Slurm's programs do."""

    def left(wish: str, node: str) -> Path:
        file = tmp_path / "root/var/lib/rackwright/power" / wish / node
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        return file

    return left


def test_agent_stops_and_starts_node_with_marks(containers: Path, tmp_path: Path, ask: Callable[[str, str], Path]) -> None:
    request = ask("suspend", "worker0")
    look(tmp_path / "root", lambda _: not request.exists())
    assert calls(containers) == ["stop --time 10 lab-worker0"]
    assert paths.suspended_file("lab", "worker0").exists()
    request = ask("resume", "worker0")
    look(tmp_path / "root", lambda _: not request.exists())
    assert calls(containers)[1:] == ["start lab-worker0"]
    assert not paths.suspended_file("lab", "worker0").exists()
    started = json.loads((containers / "lab-worker0").read_text())["State"]["StartedAt"][:23]
    assert paths.resumed_file("lab", "worker0").read_text() == f"worker0worke@{started}"


def test_running_node_is_restarted_on_resume(containers: Path, tmp_path: Path, ask: Callable[[str, str], Path]) -> None:
    request = ask("resume", "worker0")
    look(tmp_path / "root", lambda _: not request.exists())
    assert calls(containers) == ["stop --time 10 lab-worker0", "start lab-worker0"]


def test_foreign_container_is_kept_and_reported_once(
    containers: Path, tmp_path: Path, ask: Callable[[str, str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    container(containers, "worker0", Config={"Labels": {"rackwright.stack": "other", "rackwright.node": "worker0"}})
    request = ask("suspend", "worker0")
    look(tmp_path / "root", lambda looks: looks > 3)
    assert calls(containers) == [] and request.exists()
    assert caplog.messages == ["suspend worker0: refused: its labels are not those of the node"]


def test_failed_request_is_reported_once_and_retried(
    containers: Path, tmp_path: Path, ask: Callable[[str, str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    container(containers, "worker0", broken="no space left")
    request = ask("suspend", "worker0")
    look(tmp_path / "root", lambda _: len(calls(containers)) > 1)
    assert request.exists()
    assert len(caplog.records) == 1 and caplog.messages[0].startswith("suspend worker0: podman stop: no space left")


INPUTS = {"stack": "lab", "controller": "lab-login0", "nodes": ["worker0"], "agent": "1"}


@pytest.fixture
def started(containers: Path) -> Iterator[LiveResource]:
    """Yield the resource, created; end its process afterwards."""
    made = asyncio.run(PowerManager().create(OPERATION, dict(INPUTS)))
    yield made
    for agent in {Agent(made.outputs["pid"], made.outputs["start_time"]), running_agent("lab")} - {None}:
        assert agent and daemon.terminate(*agent, ("rackwright.provider.lab.power_agent", "lab"), patience=5)


def recorded(made: LiveResource) -> RecordedState:
    """Return the engine's record of it."""
    return RecordedState(made.id, dict(INPUTS), made.outputs)


def agent_of(made: LiveResource) -> Agent:
    return Agent(made.outputs["pid"], made.outputs["start_time"])


def test_agent_leads_own_session(started: LiveResource) -> None:
    """The provider ends the process groups of its children, and the engine its own."""
    assert os.getsid(started.outputs["pid"]) == started.outputs["pid"]
    assert running_agent("lab") == agent_of(started)
    assert "started for worker0" in paths.power_log("lab").read_text()


def test_second_agent_exits(started: LiveResource) -> None:
    command = [sys.executable, "-m", "rackwright.provider.lab.power_agent", "lab", "lab-login0"]
    second = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "infra")}, timeout=HANG_SECONDS, check=False
    )
    assert second.returncode == 1
    assert running_agent("lab") == agent_of(started)


def test_refresh_and_up_detect_dead_agent(started: LiveResource) -> None:
    found = asyncio.run(PowerManager().read(OPERATION, recorded(started)))
    assert found is not None and found.outputs == started.outputs
    assert not PowerManager().diff(recorded(started), dict(INPUTS)).changes
    os.kill(started.outputs["pid"], signal.SIGKILL)
    wait_until(lambda: asyncio.run(PowerManager().read(OPERATION, recorded(started))) is None)
    assert PowerManager().diff(recorded(started), dict(INPUTS)).changes == {"pid": PropertyDiffKind.UPDATE}


def test_leftover_agent_is_replaced(started: LiveResource) -> None:
    made = asyncio.run(PowerManager().create(OPERATION, dict(INPUTS)))
    assert made.outputs["pid"] != started.outputs["pid"]
    assert start_time(started.outputs["pid"]) != started.outputs["start_time"]


def test_changed_code_restarts_agent(started: LiveResource) -> None:
    assert PowerManager().diff(recorded(started), {**INPUTS, "agent": "2"}).changes
    made = asyncio.run(PowerManager().update(OPERATION, recorded(started), {**INPUTS, "agent": "2"}))
    assert made.outputs["pid"] != started.outputs["pid"]


@pytest.mark.parametrize("with_lock", [True, False])
def test_deletion_is_complete_and_idempotent(started: LiveResource, with_lock: bool) -> None:
    """The stack's folder may have been removed before."""
    if not with_lock:
        paths.power_lock("lab").unlink()
    for _ in range(2):
        asyncio.run(PowerManager().delete(OPERATION, recorded(started)))
        # An exited process keeps its number until its parent has reaped it.
        wait_until(lambda: start_time(started.outputs["pid"]) != started.outputs["start_time"])
    assert not [file.name for file in paths.folder("lab").iterdir() if file.name.startswith(("power", "asleep", "woken"))]


@pytest.mark.parametrize(
    ("words", "later"), [([], 0), (["rackwright.provider.lab.power_agent", "lab2"], 0), (["rackwright.provider.lab.power_agent", "lab"], 1)]
)
def test_deletion_spares_process_with_reused_pid(containers: Path, words: list[str], later: int) -> None:
    """Another program, another stack's agent, an agent that was started later."""
    stranger = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({ENDLESS_SECONDS})", *words])
    try:
        wait_until(lambda: start_time(stranger.pid))
        since = (start_time(stranger.pid) or 0) - later
        state = RecordedState("lab-power", dict(INPUTS), {**INPUTS, "pid": stranger.pid, "start_time": since})
        asyncio.run(PowerManager().delete(OPERATION, state))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_agent_exits_with_last_container(started: LiveResource, containers: Path) -> None:
    for file in containers.iterdir():
        file.unlink()
    wait_until(lambda: running_agent("lab") is None)
    assert "no container of the stack is left" in paths.power_log("lab").read_text()


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_agent_exits_when_stack_folder_is_replaced(started: LiveResource, how: str) -> None:
    """Destroyed by label, or moved to another state directory: marks in the old one would have no effect."""
    if how == "removed":
        shutil.rmtree(paths.folder("lab"))
    else:
        paths.folder("lab").rename(paths.folder("lab2"))
    if how == "replaced":
        paths.prepare("lab")
        paths.power_lock("lab").touch()
    wait_until(lambda: start_time(started.outputs["pid"]) != started.outputs["start_time"])
    assert how == "replaced" or not paths.folder("lab").exists()


def test_agent_that_cannot_start_reports_reason(containers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_COMMAND", (sys.executable, "-m", "rackwright.provider.no_such_agent"))
    with pytest.raises(RackwrightError, match=r"the power agent does not start: .*no_such_agent"):
        asyncio.run(PowerManager().create(OPERATION, dict(INPUTS)))
