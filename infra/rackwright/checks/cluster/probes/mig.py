"""Probe of MIG: the mode of each GPU and its instances, as nvidia-smi lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import lines_of, quoted, whole_lines

_MODE: Final = re.compile(r"(\d+), *(Enabled|Disabled|\[?N/A\]?), *(Enabled|Disabled|\[?N/A\]?)")
_GPU: Final = re.compile(r"GPU (\d+): .*\(UUID: GPU-[0-9a-f-]+\)")
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


def parse_mig(text: str) -> tuple[MigGpu, ...]:
    """Return GPUs from lines `index, current mode, pending mode`, then `nvidia-smi -L`. Raise ValueError for other lines.

    >>> text = "0, Enabled, Enabled\\nGPU 0: A (UUID: GPU-1-a)\\n  MIG 3g.40gb     Device  0: (UUID: MIG-2-b)\\n"
    >>> parse_mig(text)
    (MigGpu(index=0, mode='enabled', profiles=('3g.40gb',)),)
    """
    modes, found, current = dict[int, str](), dict[int, list[str]](), -1
    _, partial = whole_lines(text)
    if partial:  # instances may be missing
        raise ValueError(f'the list of GPUs is cut: "{quoted(partial[0])}"')
    for line in (line.strip() for line in lines_of(text)):
        if mode := _MODE.fullmatch(line):
            index = int(mode[1])
            if index in modes:
                raise ValueError(f'GPU {index} is listed twice: "{quoted(line)}"')
            modes[index] = _mode(mode[2], mode[3])
        elif gpu := _GPU.fullmatch(line):
            current = int(gpu[1])
            if current in found:
                raise ValueError(f'GPU {current} is listed twice: "{quoted(line)}"')
            found[current] = []
        elif (instance := _INSTANCE.fullmatch(line)) and current in found and int(instance[2]) == len(found[current]):
            found[current].append(instance[1])
        else:
            raise ValueError(f'neither a GPU nor an instance: "{quoted(line)}"')
    if not modes or set(modes) != set(found):
        raise ValueError(f"modes of the GPUs {sorted(modes)}, instances of the GPUs {sorted(found)}")
    return tuple(MigGpu(index, mode, tuple(sorted(found[index]))) for index, mode in sorted(modes.items()))


def _mode(current: str, pending: str) -> str:
    words = ["disabled" if "N/A" in word else word.lower() for word in (current, pending)]
    return words[0] if words[0] == words[1] else f"{words[0]}, {words[1]} after a reset"


MIG = Probe(
    "mig",
    on="mig",
    command="nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv,noheader && nvidia-smi -L",
    parse=parse_mig,
)
