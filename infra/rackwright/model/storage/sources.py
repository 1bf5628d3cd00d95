"""Sources of existing file systems, in the forms of mount.nfs(8) and mount.lustre(8). A source is written into a systemd unit unchanged."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema

from rackwright.model.notation import refuse

_HOST: Final = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_PATH: Final = r"/[A-Za-z0-9/._@+=~-]*"
"""No `%` and no spaces: systemd expands the first and splits at the second (systemd.unit(5))."""
_NFS: Final = re.compile(rf"(?P<host>{_HOST}|\[(?P<address>[^\]]*)\]):(?P<path>{_PATH})")
_FSNAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,7}"
"""At most eight characters (mkfs.lustre(8), --fsname)."""
_LNET: Final = r"(tcp|o2ib|kfi|gni)[0-9]*"
"""LNet networks of clients (Lustre: include/uapi/linux/lnet/nidstr.h)."""
_NID: Final = re.compile(rf"(?P<host>{_HOST})@(?P<network>{_LNET})")
_LUSTRE: Final = re.compile(rf"(?P<servers>[^/]+):/(?P<name>{_FSNAME})(?P<folder>{_PATH})?")
_NFS_HINT: Final = "write server:/folder, for example nas.example.org:/export/home"
_LUSTRE_HINT: Final = (
    "write the NIDs of the management servers and the file system's name, for example 10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch"
)


def parse_nfs_source(text: object) -> str:
    """Return the source of an NFS mount: a name, an IPv4 address or a bracketed IPv6 address, and the exported folder.

    >>> parse_nfs_source("nas.example.org:/export/home")
    'nas.example.org:/export/home'
    """
    found = _NFS.fullmatch(text) if isinstance(text, str) and not text.startswith("nfs://") else None
    if found is None:
        refuse("nfs-source", f"{text!r} is not a source of an NFS mount", _nfs_hint(str(text)))
    if found["address"] is not None:
        _require_address6(str(text), found["address"])
    elif re.fullmatch(r"[0-9.]+", found["host"]):
        _require_address4("nfs-source", str(text), found["host"], _NFS_HINT)
    _require_plain_path("nfs-source", str(text), found["path"])
    return str(text)


def parse_lustre_source(text: object) -> str:
    """Return the source of a Lustre mount: NIDs of the management servers, the file system's name, and optionally a folder in it.

    A colon separates servers, a comma the NIDs of one server. IPv6 is refused: its colons cannot be distinguished from separators.

    >>> parse_lustre_source("10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch")
    '10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch'
    """
    if isinstance(text, str) and "[" in text:
        refuse("lustre-source", f"{text!r} has an IPv6 address, which Lustre before 2.16 does not know", "write names or IPv4 addresses")
    found = _LUSTRE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        refuse("lustre-source", f"{text!r} is not a source of a Lustre mount", _LUSTRE_HINT)
    for word in re.split("[:,]", found["servers"]):
        nid = _NID.fullmatch(word)
        if nid is None:
            refuse("lustre-source", f"{word!r} in {text!r} is not an LNet NID", "write address@network, for example 10.0.0.1@tcp or @o2ib")
        if re.fullmatch(r"[0-9.]+", nid["host"]):
            _require_address4("lustre-source", str(text), nid["host"], _LUSTRE_HINT)
    _require_plain_path("lustre-source", str(text), found["folder"] or "/")
    return str(text)


def is_ipv6(source: str) -> bool:
    """Return whether the source of an NFS mount names its server by an IPv6 address."""
    return source.startswith("[")


def _nfs_hint(text: str) -> str:
    url = re.fullmatch(r"nfs://([^/]+)(/.*)", text)
    if url:
        return f"write {url[1]}:{url[2]}"
    if "," in text.partition(":/")[0]:
        return "name one server: mount.nfs does not fail over between servers; use the address that the servers share"
    bare = text.rpartition(":/")
    return f"write [{bare[0]}]:/{bare[2]}" if bare[0].count(":") > 1 else _NFS_HINT


def _require_address6(text: str, address: str) -> None:
    try:
        known = IPv6Address(address)
    except AddressValueError:
        refuse("nfs-source", f"{text!r}: {address} is not an IPv6 address", _NFS_HINT)
    if known.is_link_local:
        cause = f"{text!r}: {address} is a link-local address, which is valid on one interface only"
        refuse("nfs-source", cause, "use a routed address or a name")


def _require_address4(rule: str, text: str, address: str, hint: str) -> None:
    try:
        IPv4Address(address)
    except AddressValueError:
        refuse(rule, f"{text!r}: {address} is not an IPv4 address", hint)


def _require_plain_path(rule: str, text: str, path: str) -> None:
    if "//" in path or {".", ".."}.intersection(path.split("/")):
        refuse(rule, f"{text!r}: the folder contains `//`, `.` or `..`", "write the path that the server exports")


NfsSource = Annotated[
    str, BeforeValidator(parse_nfs_source), WithJsonSchema({"type": "string", "pattern": rf"^({_HOST}|\[[^\]]+\]):{_PATH}$"})
]
LustreSource = Annotated[
    str, BeforeValidator(parse_lustre_source), WithJsonSchema({"type": "string", "pattern": rf"^[^/\[]+@[^/\[]+:/{_FSNAME}({_PATH})?$"})
]
