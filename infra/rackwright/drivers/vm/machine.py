"""Life of one virtual machine, by its folder alone: created, started, stopped, removed. Blocking calls.

The process outlives the run that starts it. It is identified by process id, start time and its arguments, never by a name.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackwright.drivers.daemon import is_exiting, is_running, terminate
from rackwright.drivers.vm import cloud_image, cloud_init, credentials, machine_spec, qmp
from rackwright.drivers.vm.command_line import BINARY, CONSOLE, OVERLAY, QMP, command_line
from rackwright.drivers.vm.emulated_processor import emulated_processor, qemu_version
from rackwright.drivers.vm.identity import Identity
from rackwright.drivers.vm.image_build import INITRD, KERNEL, ROOT
from rackwright.drivers.vm.machine_spec import MachineSpec
from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.files import write_atomic
from rackwright.processes import start_time
from rackwright.time_limits import slowness

ABSENT, STOPPED, RUNNING, PAUSED, PANICKED = "absent", "stopped", "running", "paused", "panicked"
LAST_CONSOLE: Final = f"{CONSOLE}.1"
"""The console of the start before."""
_PROCESS: Final = "process.json"
_LOG: Final = "qemu.log"
_LAST_LOG: Final = f"{_LOG}.1"
_PANIC_LOG: Final = "panic.log"
"""Why the kernel of this start panicked."""
_START: Final = 10.0
"""Seconds until QEMU accepts commands; longer on a slow machine. It takes less than one."""
_END: Final = 5.0
"""Seconds to end after SIGTERM, which ends QEMU without the guest."""
_PAUSE: Final = 0.05
"""Seconds between two looks at a process that starts. Chosen: short against its start."""
_CLOUD_DISK: Final = 16 * 2**30
"""Bytes of a disk on top of a cloud image, as of the image that is built here. The file is sparse."""
_INHERITED: Final = ("PATH", "HOME", "USER", "TMPDIR", "LANG")
_PREFIX: Final = re.compile(r"^qemu[\w-]*: (?:-[\w-]+ (?:\{.*\}|\S+): )?")
"""Program and option at the start of QEMU's messages (7.2)."""
_PANIC: Final = 3.0
"""Seconds in which a panicked kernel prints its reason; longer on a slow machine. It reboots 10 s later (panic=10)."""
_PANIC_END: Final = re.compile(r"end Kernel panic|Rebooting in \d+ seconds")
_PANIC_SIZE: Final = 4096
"""Last characters of the console in which that end is searched: earlier boots of the guest may have panicked, too."""
_PANIC_LINE: Final = re.compile(r"Kernel panic - not syncing|Oops: |BUG: |general protection fault|RIP: 0010:")
"""What of an oops says where and why; the other lines are registers and the stack."""
_TERMINAL_CODE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""Codes of a terminal: control sequences, strings that end with BEL or ST, and shorter ones (ECMA-48, 5.3 to 5.6)."""
_WAITING: Final = re.compile(r"\[[ *]+\] ")
"""The start of a line that systemd prints again and again while it waits for a unit (257, src/core/manager.c)."""
_STATES: Final = {"running": RUNNING, "guest-panicked": PANICKED}
"""Run states of QMP (query-status); every other one is a stop of some kind."""


@dataclass(frozen=True)
class LiveMachine:
    """State of a machine. `instance_uid` changes with every start of its process, and not when the guest reboots."""

    status: str
    instance_uid: str = ""


def create(folder: Path, spec: MachineSpec, identity: Identity) -> LiveMachine:
    """Create the machine's folder, disk and credentials, and start it. Raises RackwrightError with QEMU's reason; the folder is removed."""
    with _locked(folder):
        try:
            named = _prepared(folder, spec, identity)
            _start(folder, named)
        except BaseException:
            _remove(folder)
            raise
    return look(folder)


def start(folder: Path) -> LiveMachine:
    """Start a machine that is not running, from its disk as it is."""
    if not (folder / machine_spec.FILE).is_file():
        raise RackwrightError("has no machine", path=str(folder), hint="run `up` to create it")
    with _locked(folder):
        spec = machine_spec.read(folder)
        if spec is None:
            raise RackwrightError("has no machine", path=str(folder), hint="run `up` to create it")
        if _process(folder) is None:
            stop(folder)
            _start(folder, spec)
    return look(folder)


def look(folder: Path) -> LiveMachine:
    """Return the machine's state. Raises UndeterminedError if its process does not respond."""
    if not (folder / machine_spec.FILE).is_file():
        return LiveMachine(ABSENT)
    process = _process(folder)
    if process is None:
        return LiveMachine(STOPPED)
    try:
        state = str(qmp.execute(folder, "query-status")["status"])
    except UndeterminedError:
        if _process(folder) is None:  # It ended while it was asked.
            return LiveMachine(STOPPED)
        raise
    status = _STATES.get(state, PAUSED)
    return LiveMachine(PANICKED if status == PAUSED and (folder / _PANIC_LOG).exists() else status, process[2])


def is_up(folder: Path, instance_uid: str) -> bool:
    """Return whether the process of this start runs; the guest is not asked."""
    process = _process(folder)
    return process is not None and process[2] == instance_uid


def process_id(folder: Path) -> int | None:
    """Return the id of the machine's process; None if it has ended."""
    process = _process(folder)
    return None if process is None else process[0]


def resume(folder: Path) -> None:
    """Continue a paused machine."""
    qmp.execute(folder, "cont")


def set_link(folder: Path, interface: str, *, up: bool) -> None:
    """Plug or unplug the cable of a card: the guest sees its carrier change."""
    qmp.execute(folder, "set_link", name=interface, up=up)


def stop(folder: Path) -> None:
    """End the machine's process without the guest's help. Raises RackwrightError if it does not exit.

    A run that was killed just after it started QEMU has recorded no process: one that works in the machine's folder is the machine's.
    """
    for pid, since in _working_in(folder):
        if not terminate(pid, since, (BINARY,), patience=_END * slowness()):
            raise RackwrightError(f"{folder.name}: process {pid} does not exit", hint=f"run `kill -9 {pid}`, then the command again")


def remove(folder: Path) -> None:
    """Stop the machine and delete its folder; do nothing if there is none."""
    if folder.exists():
        with _locked(folder):
            _remove(folder)


def last_lines(folder: Path, number: int) -> list[str]:
    """Return the last lines of QEMU's own messages and of the console, without the codes that move the cursor and colour a terminal.

    Of successive lines in which systemd counts how long it waits, the last one is kept.
    """
    return [line for name in (_LOG, CONSOLE) for line in _readable(_text(folder / name))[-number:]]


def _readable(text: str) -> list[str]:
    found: list[str] = []
    for line in _TERMINAL_CODE.sub("", text).splitlines():
        words = line.strip(" \t\0")
        if found and _WAITING.match(found[-1]) and _WAITING.match(words):
            found[-1] = words
        elif words:
            found.append(words)
    return found


def panic_lines(folder: Path) -> list[str]:
    """Return the lines in which the kernel of a panicked machine says why, the last panic last.

    QEMU pauses the guest within the panic, and Linux 6.12 prints an oops of an interrupt only later (panic() in kernel/panic.c). The first
    call lets the guest run until it has printed the reason, and pauses it again; it stays a panicked one.
    """
    reason = folder / _PANIC_LOG
    if not reason.exists():
        with suppress(RackwrightError):
            qmp.execute(folder, "cont")
        deadline = time.monotonic() + _PANIC * slowness()
        while not _PANIC_END.search(_text(folder / CONSOLE)[-_PANIC_SIZE:]) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        lines = [line.strip() for line in _text(folder / CONSOLE).splitlines() if _PANIC_LINE.search(line)]
        write_atomic(reason, "".join(f"{line}\n" for line in dict.fromkeys(lines)), mode=0o600)
        with suppress(RackwrightError):
            qmp.execute(folder, "stop")
    return _text(reason).splitlines()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _prepared(folder: Path, spec: MachineSpec, identity: Identity) -> MachineSpec:
    names: tuple[str, ...] = ()
    if spec.cloud_image:
        cloud_init.write(folder, identity, spec.id)
    else:
        names = credentials.write(folder, identity)
    _require_image(spec)
    command = ["qemu-img", "create", "-q", "-f", "qcow2", *_base(spec)]
    _run(command, folder, f"the disk of {spec.name} cannot be created")
    named = MachineSpec(**{**spec.__dict__, "credentials": names})
    named.write(folder)
    return named


def _base(spec: MachineSpec) -> list[str]:
    """Return the arguments that create the disk on top of the image. Cloud images are small; cloud-init extends their file system."""
    image = Path(spec.image)
    if not spec.cloud_image:
        return ["-F", "raw", "-b", str(image / ROOT), OVERLAY]
    size = max(cloud_image.virtual_size(image), _CLOUD_DISK)
    return ["-F", cloud_image.disk_format(image), "-b", str(image / cloud_image.DISK), OVERLAY, str(size)]


def _require_image(spec: MachineSpec) -> None:
    for name in (cloud_image.DISK,) if spec.cloud_image else (KERNEL, INITRD, ROOT):
        if not (file := Path(spec.image) / name).is_file():
            does = "copies" if spec.cloud_image else "builds"
            raise RackwrightError("is missing", path=str(file), hint=f"run `up` again: it {does} the image")


def _start(folder: Path, spec: MachineSpec) -> None:
    _require_image(spec)
    for left in (*folder.glob("*.sock"), folder / _PROCESS, folder / _PANIC_LOG):
        left.unlink(missing_ok=True)
    for name, kept in ((CONSOLE, LAST_CONSOLE), (_LOG, _LAST_LOG)):  # They say why the last start ended.
        with suppress(FileNotFoundError):
            (folder / name).replace(folder / kept)
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with (folder / _LOG).open("wb") as log:
        try:
            child = subprocess.Popen(
                command_line(spec, emulated_processor(qemu_version())),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
            )
        except FileNotFoundError:
            raise RackwrightError(f"{BINARY} is not installed", hint=_INSTALL) from None
    row = {"pid": child.pid, "since": start_time(child.pid), "instance": f"{spec.id[:12]}@{time.time():.3f}"}
    write_atomic(folder / _PROCESS, json.dumps(row) + "\n", mode=0o600)
    deadline = time.monotonic() + _START * slowness()
    while not _answers(folder):
        if child.poll() is not None:
            raise _failure(folder, spec, child.returncode)
        if time.monotonic() > deadline:
            child.kill()
            child.wait()
            raise RackwrightError(f"{spec.name}: QEMU accepts no commands after {_START:.0f} s", hint=f"see {folder / _LOG}")
        time.sleep(_PAUSE)


_INSTALL: Final = "install QEMU 7.2 or newer (Debian, Ubuntu: `sudo apt install qemu-system-x86 qemu-utils`)"


def _answers(folder: Path) -> bool:
    if not (folder / QMP).exists():
        return False
    with suppress(RackwrightError):
        qmp.execute(folder, "query-status")
        return True
    return False


def _failure(folder: Path, spec: MachineSpec, status: int) -> RackwrightError:
    """Return why QEMU ended at its start, in its own words."""
    words = _decisive((folder / _LOG).read_text(encoding="utf-8", errors="replace")) or f"QEMU ended with status {status}"
    hint = f"the command line follows from {machine_spec.FILE} of {folder}"
    if "Could not set up host forwarding" in words:
        hint = "another process uses that port: choose another access.port, or end it (`ss -ltnp`)"
    elif "lock" in words and "Failed to get" in words:
        hint = f"another process uses the machine's disk: `fuser -v {folder / OVERLAY}` names it"
    elif "dgram" in words or "Parameter 'type'" in words:
        hint = _INSTALL
    elif "memory" in words.lower():
        hint = "reduce `memory` of the groups, or end other programs"
    return RackwrightError(f"{spec.name}: QEMU does not start: {words}", hint=hint)


def _decisive(messages: str) -> str:
    """Return QEMU's line that says why it ended, without its program and option; other lines are warnings and questions.

    >>> _decisive('qemu-system-x86_64: -blockdev {"driver":"x"}: Failed to get "write" lock\\nIs another process using the image [d]?')
    'Failed to get "write" lock'
    """
    lines = [line for line in messages.splitlines() if line.strip() and ": warning: " not in line]
    line = next((line for line in lines if line.startswith("qemu")), lines[-1] if lines else "")
    return _PREFIX.sub("", line).strip()


def _remove(folder: Path) -> None:
    stop(folder)
    try:
        shutil.rmtree(folder)
    except OSError as error:
        cause = f"cannot be removed: {error.strerror}: {error.filename}"
        raise RackwrightError(cause, path=str(folder), hint="remove that file, then run the command again") from None


def _process(folder: Path) -> tuple[int, int, str] | None:
    """Return process id, start time and instance of the running process."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        row = json.loads((folder / _PROCESS).read_bytes())
        if is_running(int(row["pid"]), int(row["since"]), (BINARY,)):
            return int(row["pid"]), int(row["since"]), str(row["instance"])
    return None


def _working_in(folder: Path) -> list[tuple[int, int]]:
    """Return process id and start time of each QEMU whose working directory is this folder, and of each process that is exiting there."""
    found, place = [], os.path.realpath(folder)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") != place or (since := start_time(pid)) is None:
                continue
            if is_running(pid, since, (BINARY,)) or is_exiting(pid, since):
                found.append((pid, since))
    return found


def _run(command: list[str], folder: Path, what: str) -> None:
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RackwrightError(f"{command[0]} is not installed", hint=_INSTALL) from None
    if ended.returncode:
        raise RackwrightError(f"{what}: {ended.stderr.strip()}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the machine's lock, so that two runs do not start it twice. The lock is beside the folder, which may be deleted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
