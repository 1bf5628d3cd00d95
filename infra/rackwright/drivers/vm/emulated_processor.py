"""The processor that QEMU emulates, without an instruction that early releases emulate wrongly."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from typing import Final

from rackwright.drivers.vm.command_line import BINARY

_CORRECT: Final = (8, 0)
"""First release with a correct cmpxchg16b (target/i386, "Inline cmpxchg16b"). The helper before it took the kind of the last flag operation
from memory, where the translator had not yet stored it: an operand of a comparison became the flags. Kernels, which allocate memory with
the instruction, panicked (double fault; QEMU 7.2). tests/support/processor_flags.py shows it: 7.2.22 is wrong, 10.0.13 is correct.
"""


def emulated_processor(version: str) -> str:
    """Return the model of the processor for a release of QEMU. Before 8.0 it lacks cmpxchg16b, which programs for x86-64-v2 require.

    >>> emulated_processor("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), emulated_processor("QEMU emulator version 10.0.13")
    ('max,-cx16', 'max')
    """
    found = re.search(r"version (\d+)\.(\d+)", version)
    return "max" if found and (int(found[1]), int(found[2])) >= _CORRECT else "max,-cx16"


def qemu_version() -> str:
    """Return the first line of `--version`; `none` without QEMU."""
    with suppress(OSError):
        return subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    return "none"
