"""What `rackwright` prints for an error that no command expects, and how it then exits."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final, NoReturn

_COULD_NOT_TELL: Final = 3
"""Exit code "undetermined" (`rackwright.cli.main.app`): a defect proves nothing about the cluster."""
_DEFECT_HINT: Final = "this is a bug in rackwright: run the command again with RACKWRIGHT_TRACEBACK=1 and report the output"
_OF_THE_MACHINE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE})
"""Errors of the disk, of permissions and of limits: no defect of the program."""
_MACHINE_HINT: Final = "check free space, permissions and limits (`df`, `ls -ld`, `ulimit -a`), then run the command again"


def report_defect(defect: Exception) -> NoReturn:
    """Exit with a report of an unexpected error, or raise it where the user asked for its traceback."""
    if os.environ.get("RACKWRIGHT_TRACEBACK"):
        raise defect
    print(f"{type(defect).__name__}: {defect}\n  {_DEFECT_HINT}", file=sys.stderr)
    sys.exit(_COULD_NOT_TELL)


def report_system_error(refused: OSError) -> NoReturn:
    """Exit with a report of an error of the disk, of permissions or of limits; any other error is a defect."""
    if refused.errno not in _OF_THE_MACHINE or os.environ.get("RACKWRIGHT_TRACEBACK"):
        report_defect(refused)
    print(f"{refused.filename or 'standard output'}: {refused.strerror}\n  {_MACHINE_HINT}", file=sys.stderr)
    # What is still buffered for a full disk would make Python report the error again at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    sys.exit(_COULD_NOT_TELL)
