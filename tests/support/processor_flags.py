"""Run on a machine: print whether its processor changes flags in cmpxchg16b that the instruction must keep.

QEMU before 8.0 emulates it with an operand of an earlier comparison in place of the flags (target/i386, helper_cmpxchg16b). A kernel then
gets the trap flag or the nested-task flag, and panics after an exception that it does not expect.
"""

import ctypes
import mmap
from pathlib import Path

CODE = bytes.fromhex("539c5e41b8004400004531c9569deb0031db31c931c031d24d39c1480fc70f9c58569d4831f048252af7ffff5bc3")
"""Load a number with the bit of the nested-task flag; restore the flags; compare with the number; cmpxchg16b; return the flags that differ
from those before, apart from those of arithmetic (Intel, Software Developer's Manual, volume 1, 3.4.3)."""

if "cx16" not in Path("/proc/cpuinfo").read_text(encoding="ascii").split():
    print("no cmpxchg16b")
else:
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(CODE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    changed = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(start)(start + 2048)
    print(f"changed flags: {changed:#x}")
