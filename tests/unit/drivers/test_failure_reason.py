"""The decisive sentence of a failure comes first. Messages are those of real programs, with their length."""

from __future__ import annotations

from typing import Any

import pytest
from support.rows import each_row

from rackwright.drivers.failure_reason import HIDDEN, NO_REASON, failure_reason, message_of, reason_in_output

APT = (
    '\'/usr/bin/apt-get -y -o "Dpkg::Options::=--force-confdef" -o "Dpkg::Options::=--force-confold" -o DPkg::Lock::Timeout=60 '
    "     install 'slurmd=22.05.8-4+deb12u2' 'munge=0.5.15-2' -o APT::Install-Recommends=no' failed: "
)
PROGRESS = "\n".join(
    [
        "Reading package lists...",
        "Building dependency tree...",
        "Reading state information...",
        "The following NEW packages will be installed:",
        "  freeipmi-common libfreeipmi17 libipmimonitoring6 munge slurmd",
        "0 upgraded, 5 newly installed, 0 to remove and 3 not upgraded.",
        "Need to get 3412 kB of archives.",
        *[f"Get:{number} http://deb.debian.org/debian bookworm/main amd64 package{number} [21.4 kB]" for number in range(1, 6)],
        "Fetched 3412 kB in 1s (2811 kB/s)",
        "Selecting previously unselected package munge.",
        "Preparing to unpack .../munge_0.5.15-2_amd64.deb ...",
        "Unpacking munge (0.5.15-2) ...",
    ]
)
LOCK = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 24459 (unattended-upgr)"
FRONTEND = "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?"
SUBPROCESS = "E: Sub-process /usr/bin/dpkg returned an error code (1)"
POSTINST = "dpkg: error processing package slurmd (--configure):"
POSTINST_WHY = " installed slurmd package post-installation script subprocess returned error exit status 1"
SYSTEMD_END = [
    "{0}.service: Main process exited, code=exited, status=1/FAILURE",
    "{0}.service: Failed with result 'exit-code'.",
    "Failed to start {0}.service - the daemon.",
]


def unit_failure(unit: str, what: str, *journal: str) -> dict[str, Any]:
    """Return the result of module systemd_units for a unit that did not start: 15 lines of its journal."""
    older = [f"{unit}: debug: line {number} of the start before" for number in range(15)]
    lines = [*older, *journal, *(line.format(unit) for line in SYSTEMD_END)][-15:]
    return {"msg": f"{unit}.service: {what}; last lines of its journal:\n" + "\n".join(lines)}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "apt-lock-held": (
        {"msg": f"{APT}{LOCK}\n{FRONTEND}\n", "stderr": f"{LOCK}\n{FRONTEND}\n", "stdout": "", "rc": 100},
        f"apt-get failed: {LOCK}",
    ),
    "apt-package-unknown": (
        {"msg": f"{APT}E: Unable to locate package slurmd\n", "stderr": "E: Unable to locate package slurmd\n", "stdout": PROGRESS},
        "apt-get failed: E: Unable to locate package slurmd",
    ),
    "apt-held-packages": (
        {
            "msg": f"{APT}E: Unable to correct problems, you have held broken packages.\n",
            "stderr": "E: Unable to correct problems, you have held broken packages.\n",
            "stdout": f"{PROGRESS}\nThe following packages have unmet dependencies:\n"
            " slurmd : Depends: libhwloc15 (>= 2.9.0) but 2.4.1+dfsg-1 is to be installed\n",
        },
        "apt-get failed: slurmd : Depends: libhwloc15 (>= 2.9.0) but 2.4.1+dfsg-1 is to be installed",
    ),
    "apt-download": (
        {
            "msg": f"{APT}E: Failed to fetch http://deb.debian.org/debian/pool/main/m/munge.deb  404  Not Found [IP: 151.101.2.132 80]\n"
            "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n",
            "stdout": PROGRESS,
        },
        "apt-get failed: E: Failed to fetch http://deb.debian.org/debian/pool/main/m/munge.deb  404  Not Found [IP: 151.101.2.132 80]",
    ),
    "dpkg-interrupted": (
        {"msg": f"{APT}E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n", "stdout": ""},
        "apt-get failed: E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.",
    ),
    "dpkg-script": (
        {
            "msg": f"{APT}{SUBPROCESS}\n",
            "stderr": f"{SUBPROCESS}\n",
            "stdout": f"{PROGRESS}\nSetting up slurmd (22.05.8-4+deb12u2) ...\n{POSTINST}\n{POSTINST_WHY}\n"
            "Processing triggers for man-db (2.11.2-2) ...\nErrors were encountered while processing:\n slurmd\n",
        },
        f"apt-get failed: {POSTINST}{POSTINST_WHY}",
    ),
    "dpkg-script-after-progress-with-carriage-returns": (
        {
            "msg": f"{APT}\rExtracting templates from packages: 19%\rExtracting templates from packages: 100%\n{SUBPROCESS}\n",
            "stderr": f"\rExtracting templates from packages: 19%\rExtracting templates from packages: 100%\n{SUBPROCESS}\n",
            "stdout": f"{PROGRESS}\n{POSTINST}\n{POSTINST_WHY}\n",
        },
        f"apt-get failed: {POSTINST}{POSTINST_WHY}",
    ),
    "dpkg-path": (
        {
            "msg": f"{APT}E: Sub-process /usr/bin/dpkg returned an error code (2)\n",
            "stdout": f"{PROGRESS}\ndpkg: warning: 'ldconfig' not found in PATH or not executable\n"
            "dpkg: error: 2 expected programs not found in PATH or not executable\n",
        },
        "apt-get failed: dpkg: error: 2 expected programs not found in PATH or not executable",
    ),
    "systemd-service-module": (
        {
            "msg": "Unable to start service vector: Job for vector.service failed because the control process exited with error code.\n"
            'See "systemctl status vector.service" and "journalctl -xeu vector.service" for details.\n'
        },
        "Unable to start service vector: Job for vector.service failed because the control process exited with error code.",
    ),
    "slurmd-name": (
        unit_failure("slurmd", "start failed (failed, exit-code)", "slurmd: fatal: Unable to determine this slurmd's NodeName"),
        "slurmd.service: start failed (failed, exit-code): slurmd: fatal: Unable to determine this slurmd's NodeName",
    ),
    "slurmd-configless": (
        unit_failure(
            "slurmd",
            "start failed (failed, exit-code)",
            "slurmd: error: _fetch_child: failed to fetch remote configs: Unable to contact slurm controller (connect failure)",
            "slurmd: error: _establish_configuration: failed to load configs",
            "slurmd: error: slurmd initialization failed",
            "error: _fetch_child: failed to fetch remote configs: Unable to contact slurm controller (connect failure)",
        ),
        "slurmd.service: start failed (failed, exit-code): "
        "slurmd: error: _fetch_child: failed to fetch remote configs: Unable to contact slurm controller (connect failure)",
    ),
    "slurmctld-duplicate": (
        unit_failure(
            "slurmctld",
            "restart failed (failed, exit-code)",
            "slurmctld: error: Duplicated NodeHostName worker0 in the config file",
            "slurmctld: error: Duplicated NodeHostName worker1 in the config file",
            "slurmctld: fatal: Duplicated NodeHostName worker0 in config file",
        ),
        "slurmctld.service: restart failed (failed, exit-code): slurmctld: fatal: Duplicated NodeHostName worker0 in config file",
    ),
    "sshd-port-in-use": (
        unit_failure(
            "ssh",
            "start failed (failed, exit-code)",
            "error: Bind to port 22 on 0.0.0.0 failed: Address already in use.",
            "error: Bind to port 22 on :: failed: Address already in use.",
            "fatal: Cannot bind any address.",
        ),
        "ssh.service: start failed (failed, exit-code): error: Bind to port 22 on 0.0.0.0 failed: Address already in use.",
    ),
    "sshd-option": (
        unit_failure(
            "ssh",
            "reload failed (active, success)",
            "/etc/ssh/sshd_config.d/10-site.conf: line 82: Bad configuration option: RSAAuthentication",
            "/etc/ssh/sshd_config: terminating, 1 bad configuration options",
        ),
        "ssh.service: reload failed (active, success): "
        "/etc/ssh/sshd_config.d/10-site.conf: line 82: Bad configuration option: RSAAuthentication",
    ),
    "sshd-other-port": (
        {
            "msg": "ssh.service: runs, but after 30 s 127.0.0.1:2601 does not answer ([Errno 111] Connection refused) (active, running); "
            "last lines of its journal:\n" + "\n".join(f"Accepted publickey for admin from 10.0.2.2 port 4{n:04}" for n in range(15))
        },
        "ssh.service: runs, but after 30 s 127.0.0.1:2601 does not answer ([Errno 111] Connection refused) (active, running)",
    ),
    "command": (
        {
            "msg": "non-zero return code",
            "cmd": ["mount", "-a"],
            "rc": 32,
            "stderr": "mount.nfs: Connection refused for 10.0.2.7:/export on /home",
        },
        "`mount -a` ended with exit status 32: mount.nfs: Connection refused for 10.0.2.7:/export on /home",
    ),
    "command-that-prints-nothing": (
        {"msg": "non-zero return code", "cmd": "killall -q -9 x", "rc": 1, "stderr": "", "stdout": ""},
        "`killall -q -9 x` ended with exit status 1: it printed no reason",
    ),
    "traceback": (
        {
            "msg": "MODULE FAILURE\nSee stdout/stderr for the exact error",
            "module_stderr": "Traceback (most recent call last):\n"
            + "\n".join(f'  File "/x/{n}.py", line {n}, in f' for n in range(20))
            + "\nOSError: [Errno 28] No space left on device",
        },
        "OSError: [Errno 28] No space left on device",
    ),
    "loop": (
        {
            "msg": "One or more items failed",
            "results": [
                {"item": "a", "msg": "ok"},
                {"item": "nvidia-persistenced", "failed": True, "msg": "Could not find the requested service"},
            ],
        },
        "nvidia-persistenced: Could not find the requested service",
    ),
    "ansible-prefix": ({"msg": "Task failed: Module failed: /etc/fstab: line 4 is not valid"}, "/etc/fstab: line 4 is not valid"),
    "mitogen": (
        {"msg": "EOF on stream; last 100 lines received:\n" + "\n".join(f"banner line {number}" for number in range(40))},
        "EOF on stream; last 100 lines received:",
    ),
    "long-message": (
        {"msg": "worker0: 4 disks are declared, 3 were found\n" + "\n".join(f"sd{letter}: 1 TB" for letter in "abcdefghijklmnop")},
        "worker0: 4 disks are declared, 3 were found",
    ),
    "no-log": ({"censored": "the output has been hidden due to the fact that 'no_log: true' was specified for this result"}, HIDDEN),
    "nothing": ({}, NO_REASON),
}


@each_row(("result", "sentence"), CASES.values(), ids=CASES)
def test_decisive_sentence_comes_first(result: dict[str, Any], sentence: str) -> None:
    assert failure_reason(result).splitlines()[0] == sentence


@each_row("result", [result for result, _ in CASES.values()], ids=CASES)
def test_reason_is_short_and_says_what_it_leaves_out(result: dict[str, Any]) -> None:
    lines = failure_reason(result).splitlines()
    assert len(lines) <= 12 and "…" not in "".join(lines)
    everything = "\n".join([message_of(result), *(str(result.get(name, "")) for name in ("stdout", "stderr", "module_stderr"))])
    if len(set(everything.split("\n"))) > 20:
        assert lines[-1].endswith("more lines in the run's record)")


def test_lines_below_keep_their_order_and_the_telling_ones() -> None:
    result = {"msg": "cannot configure", "stdout": "\n".join([f"line {n}" for n in range(30)] + ["error: first cause"] + ["end"] * 3)}
    lines = failure_reason(result).splitlines()
    assert lines[0] == "cannot configure" and "error: first cause" in lines
    assert lines[1:4] == ["line 22", "line 23", "line 24"] and lines[-1] == "(22 more lines in the run's record)"


def test_huge_line_is_cut_at_its_end() -> None:
    (line,) = failure_reason({"msg": "unexpected answer: " + "x" * 5000}).splitlines()
    assert line.startswith("unexpected answer: xx") and line.endswith("x (4419 more characters in the run's record)")


def test_loop_item_with_a_name_is_named_by_it() -> None:
    result = {"msg": "One or more items failed", "results": [{"item": {"name": "home", "size": 3}, "failed": True, "msg": "is full"}]}
    assert failure_reason(result) == "home: is full"


@pytest.mark.parametrize(
    ("printed", "first"),
    [
        ("", ""),
        (
            "Traceback (most recent call last):\n"
            + '  File "child.py", line 1\n' * 30
            + "FileNotFoundError: [Errno 2] No such file: 'site.yml'\n",
            "FileNotFoundError: [Errno 2] No such file: 'site.yml'",
        ),
        (
            "W: download is slow\nE: Unable to locate package systemd-resolved\nE: mmdebstrap failed to run\n",
            "E: Unable to locate package systemd-resolved",
        ),
        (
            "I: running apt-get update...\n"
            "E: Release file for http://deb.example.org/debian/dists/trixie/InRelease is expired (invalid since 24d 9h 19min 28s).\n"
            "E: apt-get update --error-on=any -oAPT::Status-Fd=<$fd> -oDpkg::Use-Pty=false failed\nE: mmdebstrap failed to run\n",
            "E: Release file for http://deb.example.org/debian/dists/trixie/InRelease is expired (invalid since 24d 9h 19min 28s).",
        ),
        ("starting\nstopped halfway\n", "stopped halfway"),
    ],
    ids=["nothing", "traceback", "mmdebstrap", "expired-archive", "no-sign-of-a-cause"],
)
def test_output_of_program_starts_with_its_cause(printed: str, first: str) -> None:
    assert reason_in_output(printed).partition("\n")[0] == first
