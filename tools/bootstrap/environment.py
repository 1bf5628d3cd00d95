"""The virtual environment: created from requirements.lock, with this checkout's package and the `pulumi` shim.

The runtime set (for `make up`) is requirements.lock. The dev set (for `make test`, `make check`) adds requirements-dev.lock.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage, Stages

OLDEST = (3, 11)
"""The package's own lower bound (pyproject.toml)."""

SUPPLIED = "3.12"
"""Python version that uv installs if the system's Python is older."""

_STAMP = "rackwright-installed"

_START_OF_CHECKOUT = b'"$venv/../tools/pulumi/start_shim.py"'

_NOTE = 70
"""Maximum number of characters of a note about packages."""


def create(machine: Machine, stages: Stages, checkout: Path, dev: bool = False) -> None:
    """Update .venv to the runtime set or the dev set; return at once if the stamp has the fingerprint of that set."""
    venv = checkout / ".venv"
    if not is_current(checkout, dev):
        with stages.stage(f"Python environment, {'dev' if dev else 'runtime'} packages") as stage:
            if not _usable(venv):
                _make(machine, venv, stage)
            (venv / _STAMP).unlink(missing_ok=True)  # an interrupted installation matches no set
            _fill(machine, checkout, venv, locks(dev), stage)
        sets = [f"runtime {fingerprint(checkout)}", *([f"dev {fingerprint(checkout, dev)}"] if dev else [])]
        (venv / _STAMP).write_text("\n".join(sets) + "\n", encoding="utf-8")
    install_shim(checkout, venv)


def locks(dev: bool) -> tuple[str, ...]:
    """Return the names of the lock files of a set."""
    return ("requirements.lock", "requirements-dev.lock") if dev else ("requirements.lock",)


def fingerprint(checkout: Path, dev: bool = False) -> str:
    """Return a digest of the inputs of a set: its locks, the package metadata and the checkout's path."""
    digest = hashlib.sha256(str(checkout).encode())
    for name in (*locks(dev), "pyproject.toml"):
        digest.update(b"\0" + (checkout / name).read_bytes())
    return digest.hexdigest()


def is_current(checkout: Path, dev: bool = False) -> bool:
    """Return whether `create` has nothing to install. A dev environment is a current runtime environment as well."""
    return f"{'dev' if dev else 'runtime'} {fingerprint(checkout, dev)}" in _stamped(checkout / ".venv")


def install_shim(checkout: Path, venv: Path) -> None:
    """Write `bin/pulumi` of the environment: a copy, because the file finds the checkout from where it lies.

    In another environment it names the files of the installed wheel. Raises Failure if another package installed `pulumi` there.
    """
    tools, target = checkout / "tools" / "pulumi", venv / "bin" / "pulumi"
    text = (tools / "shim.sh").read_bytes()
    if venv.parent != checkout:
        text = text.replace(_START_OF_CHECKOUT, shlex.quote(str(tools / "start_shim.py")).encode())
        if target.exists() and b"start_shim.py" not in target.read_bytes():
            raise Failure(
                f"{target} belongs to another package, and rackwright does not replace it. "
                "Install rackwright in an environment of its own (`uv tool install`, `pipx`)."
            )
    if not target.exists() or target.read_bytes() != text:
        target.unlink(missing_ok=True)
        target.write_bytes(text)
        target.chmod(0o755)


def _stamped(venv: Path) -> list[str]:
    """Return the installed sets, each as its name and fingerprint."""
    try:
        return (venv / _STAMP).read_text(encoding="utf-8").splitlines() if (venv / "bin" / "python").exists() else []
    except OSError:
        return []


def _usable(venv: Path) -> bool:
    """Return whether the environment's interpreter starts, is new enough and is in the folder where it was created."""
    python = venv / "bin" / "python"
    if not python.exists():
        return False
    code = f"import sys; sys.exit(sys.version_info < {OLDEST} or sys.prefix != {str(venv)!r})"
    return subprocess.run([str(python), "-I", "-c", code], capture_output=True, check=False).returncode == 0


def _make(machine: Machine, venv: Path, stage: Stage) -> None:
    if venv.exists():
        shutil.rmtree(venv)
    python = suitable_python(machine)
    if python:
        stage.note(f"venv by {python}")
        stage.run([python, "-m", "venv", str(venv)])
        return
    stage.note(f"Python {SUPPLIED} by uv")
    try:
        stage.run([_uv(machine, stage), "venv", "--quiet", "--seed", "--python", SUPPLIED, str(venv)])
    except Failure as failure:
        raise Failure(f"{failure}\nPython 3.11 or newer from the system packages does as well; install it and run make again.") from None


def suitable_python(machine: Machine) -> str | None:
    """Return a Python of at least 3.11: the one that runs this, else a newer one on PATH; None if uv must install one."""
    if machine.python >= OLDEST and machine.makes_environments():
        return sys.executable
    return next((path for path in (machine.which(f"python3.{minor}") for minor in (14, 13, 12, 11)) if path and _starts(path)), None)


def _starts(python: str) -> bool:
    """Return whether the interpreter starts: pyenv puts a python3.12 on PATH that only prints that it is not installed."""
    return subprocess.run([python, "-c", "import ensurepip"], capture_output=True, check=False).returncode == 0


def _uv(machine: Machine, stage: Stage) -> str:
    """Return uv from PATH, else install it from the package index into the cache (tools/bootstrap/uv.txt pins it)."""
    found = machine.which("uv")
    if found:
        return found
    home = machine.cache() / "uv"
    if not (home / "bin" / "uv").exists():
        if machine.python < (3, 8):
            raise Failure("Python 3.8 or newer is needed to fetch uv, which brings the Python that rackwright runs on.")
        stage.run([sys.executable, "-m", "venv", str(home)])
        pins = Path(__file__).resolve().parent / "uv.txt"
        stage.run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(pins)])
    return str(home / "bin" / "uv")


def _fill(machine: Machine, checkout: Path, venv: Path, names: tuple[str, ...], stage: Stage) -> None:
    """Install the locked packages by digest, then this checkout itself, offline."""
    python = str(venv / "bin" / "python")
    wanted = ["--require-hashes", *[word for name in names for word in ("-r", str(checkout / name))]]
    stage.note("reads the locks")
    uv = machine.which("uv")
    if uv:
        stage.run([uv, "pip", "install", "--python", python, *wanted], on_line=installation_notes(stage.note))
    else:
        # Not compiled, as with uv: most of these modules are never imported.
        options = ["--disable-pip-version-check", "--progress-bar", "off", "--no-compile"]
        stage.run([python, "-m", "pip", "install", *options, *wanted], on_line=installation_notes(stage.note))
    stage.note("installs rackwright")
    own = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index", "-e", str(checkout)]
    stage.run([python, "-m", "pip", *own])


def installation_notes(note: Callable[[str], None]) -> Callable[[str], None]:
    """Return a reader of pip's or uv's output that notes which package is collected, downloaded or installed."""
    pending: dict[str, str] = {}  # uv downloads several packages at a time and reports the end of each, pip one at a time

    def read(line: str) -> None:
        verb, _, rest = line.strip().partition(" ")
        if verb == "Downloaded":
            pending.pop(rest, None)
        elif verb == "Downloading":
            pending[rest.split(" ")[0]] = rest
        elif verb in ("Collecting", "Installing", "Prepared"):
            pending.clear()
        if pending:
            note(f"downloads {', '.join(pending.values())}"[:_NOTE])
        elif verb == "Collecting":
            note(f"collects {rest.split(' ')[0]}"[:_NOTE])
        elif verb in ("Installing", "Prepared"):
            count = rest.count(",") + 1 if verb == "Installing" else rest.split(" ")[0]
            note(f"installs {count} packages")

    return read
