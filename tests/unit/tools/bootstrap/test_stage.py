"""A stage never stands still for more than 5 seconds without saying what it waits for."""

from __future__ import annotations

import fcntl
import io
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from bootstrap import engine, environment, packages, stage
from bootstrap.machine import Machine
from bootstrap.stage import Stage, Stages

PIP = """\
Collecting pulumi-aws==7.51.1 (from -r requirements.lock (line 780))
  Downloading pulumi_aws-7.51.1-py3-none-any.whl (13.0 MB)
Collecting wrapt==2.5.2 (from -r requirements.lock (line 1222))
Installing collected packages: wrapt, six, pulumi-aws
  Attempting uninstall: pip
"""
UV = """\
Resolved 78 packages in 455ms
Downloading botocore (15.8MiB)
Downloading grpcio (7.0MiB)
 Downloaded grpcio
 Downloaded botocore
Prepared 78 packages in 2.97s
 + attrs==26.1.0
"""
APT = """\
Get:1 http://deb.example.org/debian trixie InRelease [140 kB]
Get:12 http://deb.example.org/debian trixie/main amd64 podman amd64 5.4.2+ds1-2 [11.5 MB]
Unpacking podman (5.4.2+ds1-2) ...
Setting up podman (5.4.2+ds1-2) ...
"""


class Terminal(io.StringIO):
    """A standard output that is a terminal."""

    def isatty(self) -> bool:
        """Return true."""
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the period of a stage."""
    monkeypatch.setattr(stage, "_SIGN_OF_LIFE", 0.05)


def test_stage_period_is_5_seconds() -> None:
    assert stage._SIGN_OF_LIFE == 5


@pytest.mark.usefixtures("quick")
def test_stage_repeats_its_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The command ends at the third repetition."""
    release = tmp_path / "release"
    os.mkfifo(release)

    class Counted(Stage):
        """Releases the command."""

        repeated = 0

        def _line(self, word: str = "", end: str = "\n") -> None:
            super()._line(word, end)
            self.repeated += "six" in self._note
            if self.repeated == 3:
                release.write_text("\n")

    with Counted("packages") as shown:
        shown.run(
            ["sh", "-c", f"echo 'Collecting six==1.17.0'; timeout 20 cat {release}"], on_line=environment.installation_notes(shown.note)
        )
    first, *middle, last = (line.rpartition(" in ")[0] or line.rsplit(" ", 2)[0] for line in capsys.readouterr().out.splitlines())
    assert (first, last) == ("==> packages", "==> packages done")
    assert middle.count("==> packages (collects six==1.17.0)") >= 3


def test_stage_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = Stage("packages")
    shown.note("x" * 60)
    shown._line()
    line = sys.stdout.getvalue().removeprefix("\r\x1b[K").rstrip("\n")  # type: ignore[attr-defined]
    assert line.startswith("==> packages (xxx") and line.endswith(" 0 s") and len(line) == 39


@pytest.mark.parametrize(
    ("output", "notes"),
    [
        (
            PIP,
            [
                "collects pulumi-aws==7.51.1",
                "downloads pulumi_aws-7.51.1-py3-none-any.whl (13.0 MB)",
                "collects wrapt==2.5.2",
                "installs 3 packages",
            ],
        ),
        (
            UV,
            [
                "downloads botocore (15.8MiB)",
                "downloads botocore (15.8MiB), grpcio (7.0MiB)",
                "downloads botocore (15.8MiB)",
                "installs 78 packages",
            ],
        ),
    ],
)
def test_installation_notes_name_the_package(output: str, notes: list[str]) -> None:
    told: list[str] = []
    read = environment.installation_notes(told.append)
    for line in output.splitlines():
        read(line)
    assert told == notes


def test_apt_notes_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(Stage, "note", lambda self, text: told.append(text))
    for line in APT.splitlines():
        packages._note_package(Stage("system packages"), line)
    assert told == ["downloads trixie", "downloads podman", "unpacks podman", "configures podman"]


def test_engine_names_the_lock_holder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine("Linux", "x86_64", tmp_path, {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}, 1000)
    folder = engine.cache_folder(machine)
    folder.mkdir(parents=True)
    (tmp_path / ".venv").mkdir()
    (tmp_path / "tools" / "pulumi").mkdir(parents=True)
    (tmp_path / "tools" / "pulumi" / "pulumi-language-python").write_text("")
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=engine.provide, args=(machine, Stages(), tmp_path, tmp_path / ".venv"))
        waiting.start()
        said, deadline = "", time.monotonic() + 20
        while "waits for another process" not in said and time.monotonic() < deadline:
            waiting.join(0.01)
            said += capsys.readouterr().out
        assert waiting.is_alive()
        (folder / "pulumi").write_text("")
        (folder / "pulumi").chmod(0o755)
    waiting.join(10)
    assert not waiting.is_alive()
    assert "==> Pulumi 3.259.0: waits for another process that downloads or builds it" in said
