"""Probe of NVLinks: the rate of each link, as `nvidia-smi nvlink --status` lists them. This module has its only parser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, gpu_tool_seconds
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, decimal, is_cut, lines_of, quoted, read_values
from rackwright.checks.cluster.probes.nvidia_smi import ENDS
from rackwright.errors import UndeterminedError

_IN_MIG_MODE: Final = re.compile(r"nvlink queries are not supported for devices in mig mode", re.IGNORECASE)
"""Line below a GPU in MIG mode (driver 590.48, H100 and H200; utkuozdemir/nvidia_gpu_exporter, internal/captures)."""
_NO_LINKS: Final = re.compile(r"all links are inactive|does not have or support nvlink", re.IGNORECASE)


def parse_nvlinks(text: str) -> Mapping[int, tuple[float | UnreadableValue, ...]]:
    """Return GB/s of each link by GPU from `nvlink --status`: 0 for an inactive link, none for a GPU without links that are up.

    A link whose line is missing or was not read is UnreadableValue, and so is the one entry of a GPU in MIG mode.
    Raises UndeterminedError if no GPU is named, or the text ends before the first link.
    """
    links = dict[int, dict[int, float | UnreadableValue]]()
    gpu, last = None, 0
    lines = lines_of(text)
    for line in lines:
        title = re.match(r"GPU (\d+)\s*:", line)
        link = re.match(r"\s*Link (\d+)\s*:\s*(.*?)\s*$", line)
        if title:
            gpu = int(title[1])
            links.setdefault(gpu, {})
        elif link and gpu is not None:
            last, value = int(link[1]), _rate(link[2], f"GPU {gpu} link {link[1]}", line)
            before = links[gpu].setdefault(last, value)
            if not isinstance(before, UnreadableValue) and (isinstance(value, UnreadableValue) or before != value):
                links[gpu][last] = UnreadableValue(f"GPU {gpu} link {last}", link[2], line)
        elif gpu is not None and _IN_MIG_MODE.search(line):
            links[gpu] = {0: UnreadableValue(f"the state of the links of GPU {gpu}", "not listed in MIG mode", line)}
        elif gpu is not None and line[0].isspace() and not _NO_LINKS.search(line):
            links[gpu][len(links[gpu])] = UnreadableValue(f"GPU {gpu} link", line.strip(), line)
    if not links or (is_cut(text) and not any(links.values())):
        raise UndeterminedError(
            f'nvidia-smi nvlink listed no links: "{quoted(lines[0])}"' if lines else "nvidia-smi nvlink printed nothing"
        )
    if is_cut(text) and gpu is not None:
        links[gpu][last + 1] = UnreadableValue(f"GPU {gpu} link {last + 1}", None, lines[-1])
    return {number: _in_order(number, found) for number, found in links.items()}


def _rate(value: str, subject: str, line: str) -> float | UnreadableValue:
    found = re.fullmatch(r"(\S+) GB/s", value)
    if value.lower() == "<inactive>":
        return 0.0
    try:
        return decimal(found[1]) if found else UnreadableValue(subject, value, line)
    except ValueError:
        return UnreadableValue(subject, value, line)


def _in_order(gpu: int, links: Mapping[int, float | UnreadableValue]) -> tuple[float | UnreadableValue, ...]:
    """Return the links by number; a missing one below the highest number is UnreadableValue."""
    numbers = range(max(links, default=-1) + 1)
    return tuple(links[number] if number in links else UnreadableValue(f"GPU {gpu} link {number}", None, "") for number in numbers)


def down_links(links: Mapping[int, tuple[float | UnreadableValue, ...]]) -> dict[str, str | UnreadableValue]:
    """Return for each GPU how many of its links are up, or why that is unknown; GPUs whose links are all up are left out."""
    most = max(map(_listed, links.values()), default=0)
    found = {f"GPU {gpu}": _down(each, most) for gpu, each in links.items()}
    return {label: value for label, value in found.items() if isinstance(value, UnreadableValue) or value}


def _listed(links: tuple[float | UnreadableValue, ...]) -> int:
    """Return the number of links that the output lists, without the one that may follow where it ends early."""
    cut = bool(links) and isinstance(links[-1], UnreadableValue) and links[-1].said is None
    return len(links) - cut if read_values(links) else 0


def _down(links: tuple[float | UnreadableValue, ...], most: int) -> str | UnreadableValue:
    """Return how many links of a GPU are up, or why that is unknown; empty if all are."""
    known = read_values(links)
    if links and not known:
        return next(link for link in links if isinstance(link, UnreadableValue))
    if len(links) < most or not all(known) or not most:
        return f"{sum(map(bool, known))} of {most}"
    return next((link for link in links if isinstance(link, UnreadableValue)), "")


NVLINKS = Probe(
    "nvlinks", on="nvlink", command="nvidia-smi nvlink --status 2>&1", parse=parse_nvlinks, statuses=ENDS, planned_timeout=gpu_tool_seconds
)
