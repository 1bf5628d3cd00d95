"""The engine as a child process: it receives each signal once, and it dies with this process."""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FROM_KERNEL = 0x80
"""si_code of a signal that the terminal's driver sends, always to the whole foreground group (sigaction(2), SI_KERNEL)."""
_DELIVERY = 0.05
"""Seconds in which a signal to the group has reached every member."""
_LOOK_EVERY = 1.0
"""Seconds between tests of the terminal: make, as leader of a session, gets SIGHUP alone and waits for its children."""
_PR_SET_PDEATHSIG = 1


class Child:
    """One engine. `interrupted_by` is the first signal that asked it to end, 0 without one."""

    def __init__(self, path: str, arguments: list[str], environ: Mapping[str, str]) -> None:
        self.interrupted_by = 0
        self._own_pid = os.getpid()
        self._inherited = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDING, signal.SIGQUIT, signal.SIGCHLD})
        self._pid = os.fork()
        if self._pid == 0:
            self._exec_engine(path, arguments, environ)
        self._witness = self._fork_witness()

    def wait(self) -> int:
        """Return the wait status of the engine."""
        had_terminal = os.isatty(2)
        while True:
            received = signal.sigtimedwait({*_ENDING, signal.SIGQUIT, signal.SIGCHLD}, _LOOK_EVERY)
            if received and received.si_signo in _ENDING:
                self._end(received.si_signo, received.si_code, received.si_pid)
            elif had_terminal and not self.interrupted_by and not os.isatty(2):
                self._end(signal.SIGHUP, 0, 0)
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                os.kill(self._witness, signal.SIGKILL)
                os.waitpid(self._witness, 0)
                if self.interrupted_by:  # A signal that is passed on again must not end this process before it prints how to continue.
                    for number in _ENDING:
                        signal.signal(number, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_SETMASK, self._inherited)
                return status

    def _exec_engine(self, path: str, arguments: list[str], environ: Mapping[str, str]) -> None:
        try:
            _die_with(self._own_pid)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._inherited)
            os.execve(path, ["pulumi", *arguments], environ)
        finally:
            os._exit(127)

    def _end(self, number: int, code: int, sender: int) -> None:
        """Send the engine a signal that reached this process alone. A second one would end it without cleaning up.

        `rackwright` starts this process and passes on, as SIGTERM, a signal that the group may have received as well.
        """
        if self.interrupted_by and number == signal.SIGTERM and sender == os.getppid():
            return
        self.interrupted_by = self.interrupted_by or number
        if number == signal.SIGHUP:
            number = signal.SIGINT  # A hangup ends the engine at once, with what it is creating unrecorded.
        elif code == _FROM_KERNEL or self._group_received_it():
            return
        os.kill(self._pid, number)

    def _group_received_it(self) -> bool:
        """Return whether the witness received the signal as well."""
        time.sleep(_DELIVERY)
        signal.sigtimedwait({signal.SIGTERM}, 0)  # Service managers signal the members one by one, the one that passes it on first.
        ended, _ = os.waitpid(self._witness, os.WNOHANG)
        if ended:
            self._witness = self._fork_witness()
        return bool(ended)

    def _fork_witness(self) -> int:
        """Fork a member of the process group that exits on each signal to the whole group."""
        pid = os.fork()
        if pid:
            return pid
        try:
            _die_with(self._own_pid)
            for number in _ENDING:
                signal.signal(number, signal.SIG_DFL)
            os.closerange(0, 3)
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            while True:
                signal.pause()
        finally:
            os._exit(0)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process with its parent: a killed `pulumi` must not leave a running engine."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
