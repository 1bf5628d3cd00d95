"""Commands that query the whole fabric from one node: through an active adapter of the plan, once for each subnet."""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Callable
from typing import Final

from rackwright.checks.cluster.harness.probe import ProbeContext

PACKED: Final = "== packed "
"""First word of an output that was too long for the runner, packed with gzip and base64."""
_LONGEST: Final = 900000
"""Characters up to which an output is sent as it is. The runner keeps 1000000 (rackwright.remote.programs.commands, MAX_OUTPUT)."""
_PATIENCE: Final = 8.0
"""Time limit of a small fabric, in seconds."""
_RUN: Final = (
    'run() {{ {{ said=$({tool} "$@" 2>&3); status=$?; }} 3>&1; if [ ${{#said}} -gt {longest} ]; then '
    "echo \"{packed}$(printf '%s\\n' \"$said\" | gzip -c | base64 | tr -d '\\n')\"; else printf '%s\\n' \"$said\"; fi; "
    'case $status in 0|1) ;; *) echo "== ${{2:-fabric}} ended with status $status";; esac; }}; '
    "command -v {name} > /dev/null || exit 127; "
)
# Warnings come before the output. Written concurrently, both would mix within lines.
_RAILS: Final = (
    "state() {{ cat /sys/class/infiniband/$1/ports/1/$2 2> /dev/null; }}; seen=' ' linked=''; for hca in {rails}; do "
    '[ "$(state $hca link_layer)" = InfiniBand ] || continue; '
    '[ -n "$linked" ] || [ "$(state $hca phys_state)" != \'5: LinkUp\' ] || linked=$hca; '
    "[ \"$(state $hca state)\" = '4: ACTIVE' ] || continue; manager={manager}; "
    'case "$seen" in *" ${{manager:-none}} "*) continue;; esac; seen="$seen${{manager:-none}} "; run -C $hca -P 1; done; '
    "[ \"$seen\" != ' ' ] || run -C ${{linked:-{first}}} -P 1; exit 0"
)
_MANAGER: Final = "$(timeout 2 sminfo -C $hca -P 1 2> /dev/null | sed -n 's/.* sm guid \\(0x[0-9a-f]*\\).*/\\1/p')"
"""GUID of the port that manages the subnet of an adapter: it differs between subnets, unlike LIDs and prefixes of GIDs."""


def on_each_subnet(tool: str) -> Callable[[ProbeContext], str]:
    """Return a command that runs a tool through the first active adapter of each subnet of a node.

    Without an active port, the first one with a link is used. A simulated fabric has one subnet, and no folders in the kernel.
    """

    def command(place: ProbeContext) -> str:
        assert place.declared.fabric is not None
        run = _RUN.format(tool=tool, name=tool.split()[0], longest=_LONGEST, packed=PACKED)
        rails = [shlex.quote(rail) for rail in place.node["rails"]]
        if place.declared.fabric["simulated"]:
            return f"{run}run; exit 0"
        manager = _MANAGER if len(rails) > 1 else "one"
        return run + _RAILS.format(rails=" ".join(rails), first=rails[0], manager=manager)

    return command


def unpacked(text: str) -> str:
    """Return an output as the tool printed it. Raise ValueError if a packed output is damaged.

    >>> unpacked("a\\nb\\n")
    'a\\nb\\n'
    """
    if PACKED not in text:
        return text
    return "".join(_unpacked(line) for line in text.splitlines(keepends=True))


def _unpacked(line: str) -> str:
    if not line.startswith(PACKED):
        return line
    try:
        return gzip.decompress(base64.b64decode(line.removeprefix(PACKED), validate=False)).decode("utf-8", "replace")
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"the packed output is damaged: {error}") from None


def patience(cables_per_second: float) -> Callable[[ProbeContext], float]:
    """Return a function for the time limit of a query, in seconds, which grows with the number of planned cables."""

    def limit(place: ProbeContext) -> float:
        assert place.declared.fabric is not None
        return _PATIENCE + len(place.declared.fabric["cables"]) / cables_per_second

    return limit
