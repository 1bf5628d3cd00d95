"""Lines that NCCL prints when NCCL_DEBUG is INFO: connections, networks and providers. Forms of NCCL 2.4 to 2.30 and of RCCL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Transport(StrEnum):
    """The path over which two ranks exchange data."""

    NVLINK = "P2P"
    """Peer to peer inside a node; NCCL does not report whether over NVLink or PCIe."""
    MULTI_NODE_NVLINK = "MNNVL"
    """Peer to peer in an NVLink domain of several nodes; NCCL then prints it for peers on the same node, too."""
    SHARED_MEMORY = "SHM"
    INFINIBAND = "IB"
    """InfiniBand or RoCE: NCCL calls both IB."""
    LIBFABRIC = "Libfabric"
    """EFA, through aws-ofi-nccl."""
    SOCKET = "Socket"
    OTHER_NETWORK = "NET"
    UNKNOWN = "unknown"
    """A path that no known release prints."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One channel between two ranks."""

    host: str
    """Host that reports the connection, as it names itself."""
    transport: Transport
    direct: bool
    """Whether the NIC accesses GPU memory directly (GDRDMA)."""
    sends: bool = False
    """Whether the rank sends; receivers and peers on one node do not."""
    path: str = ""
    """The path as NCCL prints it."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of NCCL's log, or a part of a line of another program."""

    host: str
    text: str


_LABEL: Final = re.compile(r"^\s*(?:[^\[\]<>]*\[[^\[\]<>]+\]<std(?:out|err)>:|\[(?:rank)?\d+\]:?\s|\d+:\s)")
"""Prefix of a line by `mpirun --tag-output`, other launchers and `srun --label`."""
_LOG: Final = re.compile(r"(?:\[\d{4}-[^\]]*\] )?([\w.-]+):\d+:\d+ \[\d+\] (.*?[NR]CCL (?:INFO|WARN|TRACE|ABORT|CALL|VERSION) .*)$")
_CELL_AND_HOST: Final = re.compile(r"(-1|0|[1-9]\d*(?:\.\d+)?(?:e\+\d+)?|N/A)?(.*)$")
_CHANNEL: Final = re.compile(
    r"[NR]CCL INFO (?:Channel|Ring) [\d/]+ : \d+\S* -> \d+\S* (?:\[(send|receive)\] )?via (\S+.*?)(?: comm 0x\S+.*)?\s*$"
)
_NETWORK: Final = re.compile(r"[NR]CCL INFO Using network (.+?)\s*$")
_PROVIDER: Final = re.compile(r"NET/OFI Selected [Pp]rovider is ([^\s,(]+)")
_NETWORKS: Final = {
    "libfabric": Transport.LIBFABRIC,
    "ib": Transport.INFINIBAND,
    "gib": Transport.INFINIBAND,
    "socket": Transport.SOCKET,
    "fastsocket": Transport.SOCKET,
}
"""Names of networks, of which plugins add a number and their maker: `IBext_v8` of HPC-X; `gIB` and `FastSocket` of Google Cloud."""


def split_log(line: str) -> tuple[str, LogLine | None]:
    """Return the part of a line before NCCL's log, without the launcher's label; and the log.

    nccl-tests writes a row in parts. NCCL continues the line where it prints in between.

    >>> split_log("0: worker0:41:42 [0] NCCL INFO Using network IB")
    ('', LogLine(host='worker0', text='NCCL INFO Using network IB'))
    >>> split_log("  8  2  float  sum  -1worker0:41:42 [0] NCCL INFO Connected all rings")
    ('  8  2  float  sum  -1', LogLine(host='worker0', text='NCCL INFO Connected all rings'))
    """
    plain = _LABEL.sub("", line)
    found = _LOG.search(plain) if "CCL " in plain else None
    if found is None:
        return plain, None
    before, host = plain[: found.start(1)], found.group(1)
    glued = _CELL_AND_HOST.match(host) if before.strip() and not found.group(0).startswith("[") else None
    if glued is not None:
        return f"{before}{glued.group(1) or ''}", LogLine(glued.group(2), found.group(2))
    return plain[: found.start()], LogLine(host, found.group(2))


def connections(lines: Iterable[LogLine]) -> Iterator[Connection]:
    """Yield the connections that ranks report."""
    for line in lines:
        found = _CHANNEL.match(line.text)
        if found:
            direction, path = found.groups()
            yield Connection(line.host, transport_of(path), "GDRDMA" in path, direction == "send", path)


def networks(lines: Iterable[LogLine]) -> frozenset[str]:
    """Return the networks that ranks use."""
    return frozenset(network_of(found.group(1)) for line in lines if (found := _NETWORK.search(line.text)))


def providers(lines: Iterable[LogLine]) -> frozenset[tuple[str, str]]:
    """Return the hosts and their providers of libfabric: `efa`, `tcp`, `cxi`."""
    return frozenset((line.host, found.group(1).partition(";")[0]) for line in lines if (found := _PROVIDER.search(line.text)))


def transport_of(path: str) -> Transport:
    """Return the transport after `via`.

    >>> [transport_of(path).name for path in ("P2P/CUMEM/read", "direct shared memory", "NET/AWS Libfabric/3/GDRDMA", "NET/IB/0(8)")]
    ['NVLINK', 'SHARED_MEMORY', 'LIBFABRIC', 'INFINIBAND']
    """
    if path.startswith("NET/"):
        network = network_of(path.split("/")[1])
        return next((each for each in Transport if each.value == network), Transport.OTHER_NETWORK)
    if path.startswith("P2P"):
        return Transport.MULTI_NODE_NVLINK if "MNNVL" in path else Transport.NVLINK
    return Transport.SHARED_MEMORY if path.startswith(("SHM", "direct shared memory")) else Transport.UNKNOWN


def network_of(name: str) -> str:
    """Return the plain name of a network; the name itself if it is not known.

    >>> network_of("AWS Libfabric"), network_of("IBext_v8"), network_of("FastSocket"), network_of("UCX")
    ('Libfabric', 'IB', 'Socket', 'UCX')
    """
    plain = name.lower().removeprefix("aws ")
    return next((each.value for key, each in _NETWORKS.items() if plain.startswith(key)), name)
