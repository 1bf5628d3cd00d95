"""Probe of MIG: the mode of each GPU and its instances, as nvidia-smi lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, gpu_tool_seconds
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, is_absent, lines_of, quoted, whole_lines
from rackwright.checks.cluster.probes.nvidia_smi import ENDS, lost_gpu

_WORD: Final = r"(Enabled|Disabled|\[?N/A\]?|\[Not Supported\])"
_MODE: Final = re.compile(rf"(\d+), *{_WORD}, *{_WORD}")
_GPU: Final = re.compile(r"GPU (\d+): ")
_INSTANCE: Final = re.compile(r"MIG (\S+)\s+Device\s+(\d+): \(UUID: MIG-[0-9A-Za-z/-]+\)")


@dataclass(frozen=True)
class MigGpu:
    """A GPU with or without MIG."""

    index: int
    mode: str
    """enabled, disabled, or `disabled, enabled after a reset`."""
    profiles: tuple[str, ...]
    """Profiles of its instances, sorted: 3g.40gb. A compute instance of a part of a GPU instance has a longer name: 1c.3g.40gb."""

    @property
    def described(self) -> str:
        """Return the text of a result: `2 × 3g.40gb`, `whole`, `enabled without instances`.

        >>> MigGpu(0, "enabled", ("1g.10gb", "1g.10gb", "3g.40gb")).described, MigGpu(0, "disabled", ()).described
        ('2 × 1g.10gb, 1 × 3g.40gb', 'whole')
        """
        if self.mode == "enabled":
            return described(self.profiles) if self.profiles else "enabled without instances"
        return "whole" if self.mode == "disabled" and not self.profiles else self.mode


def described(profiles: tuple[str, ...]) -> str:
    """Return the number of instances of each profile; `whole` for none."""
    return ", ".join(f"{profiles.count(name)} × {name}" for name in sorted(set(profiles))) or "whole"


def parse_mig(text: str) -> tuple[MigGpu | UnreadableValue, ...]:
    """Return GPUs from lines `index, current mode, pending mode`, then `nvidia-smi -L`. Raise ValueError where the list is cut or empty.

    A GPU of which a line was not read, and one that does not respond, is UnreadableValue. A warning is ignored.

    >>> text = "0, Enabled, Enabled\\nGPU 0: A (UUID: GPU-1-a)\\n  MIG 3g.40gb     Device  0: (UUID: MIG-2-b)\\n"
    >>> parse_mig(text)
    (MigGpu(index=0, mode='enabled', profiles=('3g.40gb',)),)
    """
    _, partial = whole_lines(text)
    if partial:  # instances may be missing
        raise ValueError(f'the list of GPUs is cut: "{quoted(partial[0])}"')
    listed = _Listing()
    for line in (line.strip() for line in lines_of(text)):
        listed.read(line)
    if not listed.modes and not listed.profiles:
        raise ValueError(f'no GPU is listed: "{quoted(text)}"')
    return (*listed.gpus(), *listed.lost)


@dataclass
class _Listing:
    """The lines that were read so far."""

    modes: dict[int, str] = field(default_factory=dict)
    profiles: dict[int, list[str]] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    """Line by GPU that was not read."""
    lost: list[UnreadableValue] = field(default_factory=list)
    current: int = -1

    def read(self, line: str) -> None:
        """Add what a line describes."""
        if mode := re.match(r"(\d+),", line):
            index, words = int(mode[1]), _MODE.fullmatch(line)
            if index in self.modes or not words:
                self.unread[index] = line
            if words and is_absent(words[2]) and not is_absent(words[3]):
                self.unread[index] = line
            self.modes.setdefault(index, _mode(words[2], words[3]) if words else "")
        elif gpu := _GPU.match(line):
            self.current = int(gpu[1])
            if self.current in self.profiles:
                self.unread[self.current] = line
            self.profiles.setdefault(self.current, [])
        elif location := lost_gpu(line):
            self.lost.append(UnreadableValue(f"MIG of {location}, which does not respond,", None, line))
        elif re.match(r"MIG\b", line) or re.search(r"\bUUID\b|\bDevice\s+\d", line):
            self._read_instance(line)

    def _read_instance(self, line: str) -> None:
        instance, known = _INSTANCE.fullmatch(line), self.profiles.get(self.current)
        if instance and known is not None and int(instance[2]) == len(known):
            known.append(instance[1])
        else:
            self.unread[self.current] = line

    def gpus(self) -> Iterator[MigGpu | UnreadableValue]:
        """Yield the GPUs by index."""
        for index in sorted({*self.modes, *self.profiles}):
            line = self.unread.get(index, "" if index in self.modes and index in self.profiles else "it is in one of two lists only")
            good = not line and index in self.modes
            profiles = tuple(sorted(self.profiles.get(index, ())))
            yield MigGpu(index, self.modes[index], profiles) if good else UnreadableValue(f"MIG of GPU {index}", None, line)


def _mode(current: str, pending: str) -> str:
    """Return the mode of a GPU. One without MIG has neither word and is whole; a pending mode that is absent is the current one."""
    now = "disabled" if is_absent(current) else current.lower()
    later = now if is_absent(pending) else pending.lower()
    return now if now == later else f"{now}, {later} after a reset"


MIG = Probe(
    "mig",
    on="mig",
    command="nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv,noheader 2>&1; nvidia-smi -L 2>&1",
    parse=parse_mig,
    statuses=ENDS,
    planned_timeout=gpu_tool_seconds,
)
