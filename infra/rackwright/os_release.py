"""Name of an operating system as stack files write it, from os-release(5). The one reader of that file for checks and drivers.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MAJOR_ONLY: Final = frozenset({"almalinux", "centos", "cloudlinux", "eurolinux", "miraclelinux", "ol", "rhel", "rocky", "scientific"})
"""IDs of Enterprise Linux, whose minor releases replace each other with updates, so that a plan names only the major release."""
_ROLLING: Final = "sid"
_ESCAPED: Final = re.compile(r'\\([$"\'`\\])')
"""Characters that os-release(5) escapes by a backslash."""


def read_os_release(text: str) -> dict[str, str]:
    r"""Return the values by name. Blank lines, comments and lines without an assignment are left out.

    >>> read_os_release('# by the vendor\nID="rocky"\r\nVERSION_ID=\'9.4\' # GA\nNAME="A \\"B\\""\n')
    {'ID': 'rocky', 'VERSION_ID': '9.4', 'NAME': 'A "B"'}
    """
    pairs = (re.match(r"\s*([A-Z][A-Z0-9_]*)=(.*)", line) for line in text.split("\n"))
    return {found[1]: unquote(found[2]) for found in pairs if found}


def unquote(value: str) -> str:
    """Return a value of os-release(5) without quotes, escapes and a comment behind it."""
    text = value.strip()
    quoted = re.match(r"""(["'])((?:\\.|(?!\1).)*)\1\s*(?:#.*)?$""", text)
    return _ESCAPED.sub(r"\1", quoted[2] if quoted else re.sub(r"\s+#.*", "", text)).strip()


def os_name(values: Mapping[str, str]) -> str:
    """Return distribution and release: debian-13, rocky-9. Without a release, the code name of Debian's rolling one, or the ID alone.

    Raise ValueError if there is no ID, or if ID or VERSION_ID holds other characters than os-release(5) permits.

    >>> os_name({"ID": "rocky", "VERSION_ID": "9.4"}), os_name({"ID": "debian", "VERSION_CODENAME": "sid"}), os_name({"ID": "arch"})
    ('rocky-9', 'debian-sid', 'arch')
    """
    name, release = values.get("ID", ""), values.get("VERSION_ID")
    if not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(f'"{name}" is no ID of a distribution')
    if release is None:
        return f"{name}-{_ROLLING}" if name == "debian" and _is_sid(values) else name
    if not re.fullmatch(r"[\w.+-]+", release):
        raise ValueError(f'"{release}" is no VERSION_ID')
    return f"{name}-{release.partition('.')[0]}" if name in MAJOR_ONLY else f"{name}-{release}"


def _is_sid(values: Mapping[str, str]) -> bool:
    """Return whether Debian is unstable: base-files of testing and unstable have no VERSION_ID, and both end PRETTY_NAME in `/sid`."""
    return values.get("VERSION_CODENAME") == _ROLLING or values.get("PRETTY_NAME", "").endswith(f"/{_ROLLING}")
