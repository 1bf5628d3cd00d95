"""One virtual machine of a test run: started, reached over SSH, and removed by the run's id."""

from __future__ import annotations

import base64
import contextlib
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from support.command import CommandResult

from newcomer import qemu
from newcomer.errors import MachineError
from newcomer.image import Image
from newcomer.process import Process

ADMINISTRATOR, ORDINARY = "ada", "guest"
"""Users of every image: one with sudo, one without."""
MEMORY = 7168
"""MiB: the stack `lab` takes 1 GiB, its packages and images the rest."""
CPUS = 2
_BOOT_SECONDS = {"kvm": 120.0, "tcg": 600.0}
_SOCKET_PATH = 80
"""Longest path of the machine's folder: ssh appends a suffix, and a socket's path ends at 107 characters."""
_SSH_CONFIG = """\
Host *
  HostName 127.0.0.1
  HostKeyAlias newcomer
  Port {port}
  IdentityFile "{folder}/user_key"
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking yes
  UserKnownHostsFile "{folder}/known_hosts"
  GlobalKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 20
  ServerAliveInterval 15
  ServerAliveCountMax 20
  ControlPath "{folder}/master-%r"
"""


@dataclass
class Machine:
    """A machine in a folder of its own; `run_id` stands in the name of the QEMU process."""

    folder: Path
    run_id: str
    image: Image
    accel: str
    memory: int = MEMORY
    cpus: int = CPUS
    port: int = field(default_factory=qemu.free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Return the name of the QEMU process."""
        return f"rackwright-newcomer.{self.run_id}.{self.folder.name}"

    @property
    def settings(self) -> qemu.Settings:
        """Return what QEMU is started with."""
        credentials = (self.folder / "tmpfiles.smbios",)
        return qemu.Settings(self.name, self.folder, self.image, self.port, self.accel, self.memory, self.cpus, credentials)

    def start(self) -> None:
        """Create the disk and the keys, and start QEMU in a session of its own."""
        if len(str(self.folder)) > _SOCKET_PATH:
            raise MachineError(f"{self.folder}: path too long for sockets (expected at most {_SOCKET_PATH} characters); set XDG_CACHE_HOME")
        self.folder.mkdir(parents=True)
        (self.folder / "image").write_text(str(self.image.folder), encoding="utf-8")
        self._write_keys()
        subprocess.run(qemu.overlay_command(self.settings), check=True, capture_output=True)
        with (self.folder / "qemu.log").open("wb") as log:
            self._process = subprocess.Popen(
                qemu.qemu_command(self.settings), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        if process := Process.observe(self._process.pid):
            process.record(self.folder / "process")

    def _write_keys(self) -> None:
        for name in ("user_key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", str(self.folder / name)]
            subprocess.run(command, check=True, capture_output=True)
        host = (self.folder / "host_key.pub").read_text(encoding="utf-8")
        (self.folder / "known_hosts").write_text(f"newcomer {host}", encoding="utf-8")
        (self.folder / "ssh_config").write_text(_SSH_CONFIG.format(folder=self.folder, port=self.port), encoding="utf-8")
        lines = tmpfiles_lines((self.folder / "user_key.pub").read_bytes(), (self.folder / "host_key").read_bytes())
        # On a command line every user of the machine could read the key.
        credential = self.settings.credentials[0]
        credential.touch(mode=0o600)
        credential.write_text(smbios_credential("tmpfiles.extra", lines), encoding="utf-8")

    def wait_for_ssh(self, seconds: float | None = None) -> float:
        """Wait until the administrator can log in. Return the seconds since the call."""
        started = time.monotonic()
        budget = _BOOT_SECONDS[self.accel] if seconds is None else seconds
        while time.monotonic() - started < budget:
            if self._process is not None and self._process.poll() is not None:
                log = (self.folder / "qemu.log").read_text(encoding="utf-8", errors="replace")
                raise MachineError(f"{self.name}: QEMU ended with {self._process.returncode}\n{log}")
            if self._answers():
                return time.monotonic() - started
            time.sleep(1)
        raise MachineError(f"{self.name}: no SSH login within {budget:.0f} s ({self.accel})\n{self._console_end()}")

    def _answers(self) -> bool:
        command = [*self._ssh(ADMINISTRATOR), "true"]
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def _console_end(self) -> str:
        if not self.settings.console.exists():
            return "the console is empty"
        return "\n".join(self.settings.console.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])

    def _ssh(self, user: str) -> list[str]:
        return ["ssh", "-F", str(self.folder / "ssh_config"), "-l", user, "newcomer"]

    def log_in(self, user: str) -> None:
        """Open a connection that stays: the user's session lasts as long as it, as at a terminal."""
        if (self.folder / f"master-{user}").exists():
            return
        options = ["-M", "-N", "-f", "-o", "ControlPersist=yes"]
        config, *rest = self._ssh(user)
        # A connection in the background would hold pipes open.
        ended = subprocess.run(
            [config, *options, *rest],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        if ended.returncode != 0:
            raise MachineError(f"{self.name}: {user} cannot log in (ssh ended with {ended.returncode})\n{self._console_end()}")

    def log_out(self) -> None:
        """Close the connections that stay."""
        for master in self.folder.glob("master-*"):
            command = self._ssh(master.name.removeprefix("master-"))
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([command[0], "-O", "exit", *command[1:]], capture_output=True, timeout=30, check=False)
            master.unlink(missing_ok=True)

    def run(self, user: str, command: str, timeout: float = 600.0, stdin: IO[bytes] | None = None) -> CommandResult:
        """Run a command in the user's login shell. Raise MachineError if it does not end within `timeout` seconds."""
        self.log_in(user)
        started = time.monotonic()
        output = self.folder / "output"
        with output.open("wb") as sink:
            child = subprocess.Popen(
                [*self._ssh(user), f"exec bash -lc {shlex.quote(command)}"],
                stdin=stdin or subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
            try:
                status = child.wait(timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                status = None
        seconds = time.monotonic() - started
        result = CommandResult(command, -1 if status is None else status, output.read_text(encoding="utf-8", errors="replace"), seconds)
        if status is None:
            raise MachineError(f"{self.name}: no end within {timeout:.0f} s: {result.end}")
        return result

    def require(self, user: str, command: str, timeout: float = 600.0, stdin: IO[bytes] | None = None) -> CommandResult:
        """Run a command that has to end with 0."""
        result = self.run(user, command, timeout, stdin)
        if not result.ok:
            raise MachineError(f"{self.name}: {result.end}")
        return result

    def copy_file(self, user: str, source: Path, target: str) -> None:
        """Copy a file of this machine to a path in the user's home."""
        with source.open("rb") as content:
            self.require(user, f"cat > {shlex.quote(target)}", 3600, content)

    def copy_folder(self, user: str, source: Path, target: str) -> None:
        """Copy a folder of this machine to a path in the user's home."""
        quoted = shlex.quote(target)
        with subprocess.Popen(["tar", "-cf", "-", "-C", str(source), "."], stdout=subprocess.PIPE) as archive:
            self.require(user, f"mkdir -p {quoted} && tar -xf - -C {quoted} --no-same-owner", 3600, archive.stdout)

    def clone(self, user: str, checkout: Path, target: str = "rackwright") -> None:
        """Clone what the checkout has committed, with its history."""
        bundle = self.folder / "checkout.bundle"
        subprocess.run(["git", "-C", str(checkout), "bundle", "create", "-q", str(bundle), "HEAD"], check=True, capture_output=True)
        self.copy_file(user, bundle, ".checkout.bundle")
        quoted = shlex.quote(target)
        self.require(user, f"git clone -q .checkout.bundle {quoted} && git -C {quoted} switch -q -c main && rm .checkout.bundle", 1200)

    def reboot(self, seconds: float | None = None) -> float:
        """Reboot as the administrator does, and wait for the next boot. Return the seconds it took."""
        started = time.monotonic()
        before = self._boot_id()
        # The connection may end before the answer comes.
        self.run(ADMINISTRATOR, "sudo systemctl reboot", 120)
        self.log_out()
        budget = 2 * _BOOT_SECONDS[self.accel] if seconds is None else seconds
        while time.monotonic() - started < budget:
            self.wait_for_ssh(budget)
            with contextlib.suppress(MachineError):
                if self._boot_id() != before:
                    return time.monotonic() - started
            self.log_out()
            time.sleep(2)
        raise MachineError(f"{self.name}: no other boot id within {budget:.0f} s\n{self._console_end()}")

    def _boot_id(self) -> str:
        return self.require(ADMINISTRATOR, "cat /proc/sys/kernel/random/boot_id", 120).output.strip()

    def power_off(self, seconds: float = 300.0) -> None:
        """Press the power button and wait until QEMU has ended."""
        self.log_out()
        qemu.execute(self.settings.monitor, "system_powerdown")
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise MachineError(f"{self.name}: still on {seconds:.0f} s after the power button\n{self._console_end()}") from None

    def destroy(self) -> None:
        """End QEMU, whatever state it is in, and remove the machine's folder."""
        self.log_out()
        destroy_folder(self.folder)
        if self._process is not None:
            self._process.wait(30)


def destroy_folder(folder: Path) -> None:
    """End the QEMU process that is recorded in a machine's folder, and remove the folder."""
    process = Process.read(folder / "process")
    if process is not None:
        process.end()
    shutil.rmtree(folder, ignore_errors=True)


def tmpfiles_lines(user_key: bytes, host_key: bytes) -> str:
    """Return lines of tmpfiles.d that install the users' authorized key and the host's key."""
    authorized, host = (base64.b64encode(key).decode() for key in (user_key, host_key))
    lines = [f"f+~ /etc/ssh/ssh_host_ed25519_key 0600 root root - {host}"]
    for user in (ADMINISTRATOR, ORDINARY):
        lines.append(f"d /home/{user}/.ssh 0700 {user} {user} -")
        lines.append(f"f+~ /home/{user}/.ssh/authorized_keys 0600 {user} {user} - {authorized}")
    return "\n".join(lines) + "\n"


def smbios_credential(name: str, text: str) -> str:
    """Return the SMBIOS string that systemd reads as a credential."""
    return f"io.systemd.credential.binary:{name}={base64.b64encode(text.encode()).decode()}"
