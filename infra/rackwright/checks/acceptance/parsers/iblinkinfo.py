"""Output of `iblinkinfo`: every link of the fabric, from both of its ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.tool_output import lines_of, refusing
from rackwright.errors import UndeterminedError

_OWNER: Final = re.compile(r"^(CA|Switch|RT): (?:0x([0-9a-f]+) )?(.+):$")
_LINK: Final = re.compile(
    r"^\s+(?:0x([0-9a-f]+)\s+)?(\d+)\s+(\d+)\[\s*\] ==\(\s*(?:(\d+)X\s+([\d.]+) Gbps\s+)?(\w+)/\s*(\w+)\s*\)"
    r'==>\s+(?:(?:0x[0-9a-f]+\s+)?(\d+)\s+(\d+)\[\s*\] "([^"]*)"|\[\s*\] "")'
)


@dataclass(frozen=True, slots=True)
class Link:
    """One port and its peer."""

    owner: str
    """Description of the node the port belongs to, for display: several nodes can have the same one."""
    guid: int | None
    """Identity of the owner in the fabric: GUID of an adapter's port, or of a switch; None if the tool printed none."""
    port: int
    width: int | None
    """Lanes; None if the link is down."""
    lane_gbit_s: float | None
    state: str
    physical: str
    peer: str
    """Description of the node at the other end; empty if there is none."""
    peer_guid: int | None
    """GUID of the device at the other end, which the tool names by LID; None if its own lines are missing."""
    peer_port: int | None
    slower: bool
    """Whether the tool reports that the link could be faster or wider."""

    @property
    def gbit_s(self) -> float:
        """Return the rate of all lanes; 0 if the link is down."""
        return (self.width or 0) * (self.lane_gbit_s or 0)


@refusing("iblinkinfo")
def parse(text: str) -> tuple[Link, ...]:
    """Return all ports; warnings between them are skipped. Raises UndeterminedError if none was listed, or one cannot be read."""
    links, owner = list[Link](), ""
    lines = lines_of(text)
    guids = _guids(lines)
    own: int | None = None
    for line in lines:
        title = _OWNER.match(line)
        if title:
            owner, own = title.group(3), int(title.group(2), 16) if title.group(2) else None
            continue
        found = _LINK.match(line)
        if found and owner:
            guid, _, port, width, speed, state, physical, peer_lid, peer_port, peer = found.groups()
            links.append(
                Link(
                    owner=owner,
                    guid=int(guid, 16) if guid else own,
                    port=int(port),
                    width=int(width) if width else None,
                    lane_gbit_s=float(speed) if speed else None,
                    state=state,
                    physical=physical,
                    peer=peer or "",
                    peer_guid=guids.get(peer_lid) if peer_lid else None,
                    peer_port=int(peer_port) if peer_port else None,
                    slower="Could be" in line,
                )
            )
        elif "==(" in line or ("==" in line and ">" in line) or line is lines[-1]:
            raise UndeterminedError(f"iblinkinfo printed an unexpected line: {line.strip()[:120]}")
    if not links:
        raise UndeterminedError("iblinkinfo listed no link")
    return tuple(links)


def _guids(lines: list[str]) -> dict[str, int]:
    """Return LID -> GUID of the device that has it, from its own lines."""
    found: dict[str, int] = {}
    own = ""
    for line in lines:
        if title := _OWNER.match(line):
            own = title.group(2) or ""
        elif (link := _LINK.match(line)) and (guid := link.group(1) or own) and link.group(2) != "0":
            found[link.group(2)] = int(guid, 16)
    return found
