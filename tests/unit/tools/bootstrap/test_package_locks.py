"""The set-up waits for another process that installs packages, and names it."""

from __future__ import annotations

import os

import pytest

from bootstrap import package_locks
from bootstrap.failure import Failure

LOCK = "var/lib/dpkg/lock-frontend"


@pytest.fixture
def machine(make_machine):
    """A machine with the lock file and no lock."""
    return make_machine({LOCK: "", "proc/locks": "", "proc/1981/comm": "unattended-upgr\n"})


def hold(machine, kind="POSIX  ADVISORY  WRITE", mark=""):
    """Write /proc/locks as the kernel does while process 1981 holds the lock (proc_locks(5))."""
    found = os.stat(machine.root / LOCK)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    (machine.root / "proc/locks").write_text(
        f"1: FLOCK  ADVISORY  WRITE 700 00:1a:{found.st_ino} 0 EOF\n2: {mark}{kind} 1981 {place} 0 EOF\n3: broken\n"
    )


def test_process_that_holds_the_lock_is_named(machine):
    hold(machine)
    assert package_locks.find_holder(machine) == f"process 1981 (unattended-upgr) holds /{LOCK}"
    (machine.root / "proc/1981/comm").unlink()
    assert package_locks.find_holder(machine) == f"process 1981 holds /{LOCK}"


def test_lock_of_another_file_a_waiting_process_and_no_proc_are_no_holder(machine):
    assert package_locks.find_holder(machine) is None
    hold(machine, mark="-> ")
    assert package_locks.find_holder(machine) is None
    (machine.root / "proc/locks").unlink()
    assert package_locks.find_holder(machine) is None


def test_set_up_waits_until_the_process_ends(machine):
    hold(machine)
    notes, sleeps = [], []

    def sleep(seconds):
        sleeps.append(seconds)
        if len(sleeps) == 3:
            (machine.root / "proc/locks").write_text("")

    package_locks.wait_until_free(machine, notes.append, sleep, lambda: sum(sleeps))
    assert len(sleeps) == 3 and set(notes) == {f"waits: process 1981 (unattended-upgr) holds /{LOCK}"}


def test_process_that_does_not_end_is_a_failure_that_names_it(machine):
    hold(machine)
    sleeps = []
    with pytest.raises(Failure, match=r"process 1981 \(unattended-upgr\) holds /var/lib/dpkg/lock-frontend, for 10 min\. Wait"):
        package_locks.wait_until_free(machine, lambda _: None, sleeps.append, lambda: sum(sleeps))
    assert sum(sleeps) > package_locks.LONGEST
