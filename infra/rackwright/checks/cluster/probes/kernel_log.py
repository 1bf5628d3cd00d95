"""The command that reads the kernel log since boot.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

from typing import Final

KERNEL_LOG: Final = "journalctl --quiet --dmesg --boot --no-pager --output=cat"
"""Status 1 means no match, no journal, or no support for --grep (journalctl(1))."""
REQUIRE_KERNEL_LOG: Final = f"[ -n \"$({KERNEL_LOG} --lines=1 --grep=.)\" ] || {{ echo 'no log of the kernel' >&2; exit 3; }}"
"""Ends a command where no line of the kernel is found, so that an unreadable log is not one without errors."""
