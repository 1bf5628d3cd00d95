"""Why a driver holds a GPU's clock below its maximum, and which of the reasons are faults.

Source: nvml.h of driver 580, `nvmlClocksEventReason…`; nvidia-smi prints their sum as `clocks_event_reasons.active`.
An H100 at full load shows `software power cap` all the time: its power limit, not its clock limit, bounds dense BF16 products.
"""

from __future__ import annotations

from typing import Final

NORMAL: Final = {
    0x1: "GPU idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x10: "sync boost",
    0x100: "display clock",
}
"""A healthy GPU has these when it idles, when it works at its power limit, and when somebody set its clocks."""
FAULTS: Final = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Heat, or a power supply that asks for less."""


def clock_faults(reasons: int) -> tuple[str, ...]:
    """Return the faults among the reasons, lowest bit first; a bit that nvml.h does not define counts as one.

    >>> clock_faults(0x4 | 0x1)
    ()
    >>> clock_faults(0x48), clock_faults(0x200)
    (('hardware slowdown', 'hardware thermal slowdown'), ('undefined reason 0x200',))
    """
    bits = (1 << number for number in range(reasons.bit_length()) if reasons >> number & 1)
    return tuple(FAULTS.get(bit, f"undefined reason {bit:#x}") for bit in bits if bit not in NORMAL)
