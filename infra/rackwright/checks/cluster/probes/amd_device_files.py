"""Probes of the files through which programs use AMD GPUs, and of the installed ROCm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Row, is_cut, lines_of, quoted
from rackwright.checks.cluster.probes.amd_gpu import Text, unix_name


@dataclass(frozen=True)
class AmdDevice:
    """A device file with its access rights."""

    path: str
    """As it was printed: it does not begin with /dev/ in a damaged line."""
    kind: Text
    number: Text
    mode: Text
    """Access rights in octal, as in 660."""
    group: Text
    driver: Text | None
    """Driver of the GPU behind a render node; None for other files."""


_NULL: Final = "/dev/null"
"""A device that every node has. If stat does not list it, nothing is known of other devices."""
_DEVICES_COMMAND: Final = (
    "f='%n|%F|%t:%T|%a|%G|'; for r in /dev/dri/renderD*; do [ -e \"$r\" ] || continue; "
    'k=$(readlink "/sys/class/drm/${r##*/}/device/driver"); stat -c "$f${k##*/}|" "$r"; done 2> /dev/null; '
    f'stat -c "$f|" /dev/kfd {_NULL} 2> /dev/null; true'
)


def parse_amd_devices(text: str) -> tuple[AmdDevice, ...]:
    """Return the device files from lines `path|kind|major:minor|mode|group|driver|`, the last of which is /dev/null. Ignore other lines."""
    rows = {row.cells["path"]: row for row in map(_device_row, lines_of(text)) if len(row.cells) > 1}
    if not rows or rows.popitem()[0] != _NULL or is_cut(text):
        raise ValueError(f'the list of device files is incomplete: "{quoted(text)}"')
    return tuple(map(_device, rows.values()))


def _device_row(line: str) -> Row:
    cells = dict(zip(("path", "kind", "number", "mode", "group", "driver"), line.strip().split("|")))  # noqa: B905 - ends with a separator
    return Row(cells["path"], cells, line)


def _device(row: Row) -> AmdDevice:
    driver = None if row.cells.get("driver") == "" else row.read("driver", unix_name)
    return AmdDevice(
        row.subject,
        row.read("kind", _kind),
        row.read("number", _device_number),
        row.read("mode", _mode),
        row.read("group", unix_name),
        driver,
    )


_KINDS: Final = frozenset(
    {"regular file", "regular empty file", "directory", "symbolic link", "character special file", "block special file", "fifo", "socket"}
)
"""Kinds of files as stat(1) of GNU names them."""


def _kind(cell: str) -> str:
    if cell not in _KINDS:
        raise ValueError(f'"{cell}" is not a kind of file')
    return cell


def _device_number(cell: str) -> str:
    if not re.fullmatch(r"[0-9a-f]+:[0-9a-f]+", cell):
        raise ValueError(f'"{cell}" is not a device number')
    return cell


def _mode(cell: str) -> str:
    if not re.fullmatch(r"[0-7]{1,4}", cell):
        raise ValueError(f'"{cell}" is not a file mode')
    return cell


_RELEASE: Final = re.compile(r"^\s*(\d+\.\d+\.\d+)(-\S+)?\s*$")


def parse_rocm(text: str) -> str:
    """Return the release of ROCm, without its build, from its file `.info/version`. Raise ValueError where no line is one."""
    found = {match[1] for line in lines_of(text) if (match := _RELEASE.match(line))}
    if len(found) != 1 or is_cut(text):
        raise ValueError(f'no release: "{quoted(text)}"')
    return found.pop()


ROCM = Probe("rocm", on="amd_software", command="cat /opt/rocm/.info/version; echo", parse=parse_rocm)

AMD_DEVICES = Probe("amd-devices", on="amd_gpu", command=_DEVICES_COMMAND, parse=parse_amd_devices)
