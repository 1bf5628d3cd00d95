"""A throwaway Pulumi project that is started through the real shim, on the real engine, with a home of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SHIM = Path(sys.prefix) / "bin" / "pulumi"
PROVIDER = Path(__file__).parent / "thing_provider.py"

STACK_FILE = """\
# What this stack is for.
config:
  # One key.
  rackwright:cluster:
    target: {kind: lab}
    groups:
      login: {count: 1}
"""


class Project:
    """A folder with Pulumi.yaml, program, stack file and provider; `pulumi` runs a command in it."""

    def __init__(self, root: Path) -> None:
        self.root = root / "checkout"
        self.home = root / "home"
        self.stack_file = self.root / "stacks" / "Pulumi.lab.yaml"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "user"),
            "XDG_CACHE_HOME": str(root / "cache"),  # proves that the engine is the recorded one
            "PULUMI_HOME": str(root / "pulumi"),
            "RACKWRIGHT_HOME": str(self.home),
            "LANG": "C.UTF-8",
        }
        for folder in (self.root / "infra", self.root / "stacks", self.root / "plugin", root / "user"):
            folder.mkdir(parents=True)
        plugins = "plugins: {providers: [{name: rackwright, path: ./plugin}]}"
        (self.root / "Pulumi.yaml").write_text(f"name: rackwright\nruntime: python\nmain: infra\nstackConfigDir: stacks\n{plugins}\n")
        plugin = self.root / "plugin" / "pulumi-resource-rackwright"
        plugin.write_text(f'#!/bin/sh\nexec "$RACKWRIGHT_PYTHON" -u {PROVIDER} "$@"\n')
        plugin.chmod(0o755)
        (self.root / ".gitignore").write_text(".rackwright\n__pycache__\n")
        self.stack_file.write_text(STACK_FILE)
        self.program("import pulumi\npulumi.export('kind', pulumi.Config().require_object('cluster')['target']['kind'])\n")
        self._git("init", "--quiet")
        self.commit()

    def program(self, text: str) -> None:
        """Sets the program's text."""
        (self.root / "infra" / "__main__.py").write_text(text)

    def commit(self) -> None:
        """Everything as it is now is what git compares with."""
        self._git("add", "--all")
        self._git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--allow-empty", "-m", "as it is")

    def changes(self) -> str:
        """`git status --short`."""
        return self._git("status", "--short")

    def _git(self, *arguments: str) -> str:
        environ = {**self.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        return subprocess.run(["git", *arguments], cwd=self.root, env=environ, check=True, capture_output=True, text=True).stdout

    def pulumi(self, *arguments: str, code: int | None = 0, **environ: str) -> str:
        """Output of one command, both streams; fails the test unless it exits with `code` (None: any)."""
        done = subprocess.run(
            [SHIM, *arguments, "--color", "never", "--non-interactive"],
            cwd=self.root,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command in a process group of its own, still running."""
        return subprocess.Popen(
            [SHIM, *arguments, "--color", "never", "--non-interactive"],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def processes(self) -> dict[int, str]:
        """Command lines of every living process of this project, by id; recognised by the home in their environment."""
        mark = f"RACKWRIGHT_HOME={self.home}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return {pid: line for pid, line in found.items() if line}

    def reach(self, name: str, seconds: float = 900.0) -> None:
        """Waits until the program or provider has made the file `name` in the checkout's folder."""
        wait_until(lambda: (self.root.parent / name).exists(), f"{name} was never made", seconds)


def seconds_to_end(project: Project) -> float:
    """How long a command takes here and now to leave after its program's last line: what a prompt ending is measured against."""
    marker = project.root.parent / "last"
    project.program(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n")
    process = project.start("up", "-s", "lab", "--yes", "--skip-preview")
    project.reach("last")
    begun = time.monotonic()
    process.communicate()
    return time.monotonic() - begun


def wait_until(true: object, complaint: str, seconds: float = 900.0) -> None:
    """Polls a condition; fails with the complaint."""
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, complaint
        time.sleep(0.05)


@pytest.fixture(scope="session")
def settled_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which stack `lab` exists, to be copied: making a stack costs two seconds."""
    made = Project(tmp_path_factory.mktemp("settled"))
    made.pulumi("stack", "-s", "lab")
    return made.home


@pytest.fixture
def project(fresh: Project, settled_home: Path) -> Project:
    """A project whose stack exists, with nothing in it."""
    shutil.copytree(settled_home, fresh.home)
    return fresh


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Project]:
    """A project that has never been used; whatever it started is gone when the test is over."""
    assert SHIM.exists(), f"{SHIM} is missing: run `make venv`"
    made = Project(tmp_path)
    yield made
    for pid in made.processes():
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
