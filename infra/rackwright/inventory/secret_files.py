"""Files with secrets that a stack file names: whether they can be what the stack file says, before anything is created.

A finding never quotes the content, and a secret is not kept.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rackwright.model.cluster import Cluster
from rackwright.model.monitoring import Monitoring
from rackwright.model.receivers import secret_file
from rackwright.model.targets.hosts import HostsTarget

_LONGEST: Final = 4096
"""Bytes; a URL of 2 KiB is already longer than most servers accept. Chosen."""
_URL: Final = re.compile(r"https?://[^\s/?#]+\S*")
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_FORMS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "webhook": (_URL, "an http or https URL"),
    "deadman": (_URL, "an http or https URL"),
    "slack": (re.compile(r"https://[^\s/?#]+/\S+"), "an https URL with a path"),
    # Integration keys of PagerDuty have 32 letters and digits (support.pagerduty.com, Services and Integrations).
    "pagerduty": (re.compile(r"[A-Za-z0-9]{32}"), "an integration key of 32 letters and digits"),
    "email": (re.compile(r"\S(.*\S)?"), "a password"),
    "bmc": (re.compile(r"\S(.*\S)?"), "a password"),
}
"""By kind: the form of its secret, and its name."""


def secret_file_problems(cluster: Cluster | None) -> dict[str, str]:
    """Return what is wrong with a file, by its path in the stack file."""
    found = {}
    for path, kind, file in _named(cluster):
        problem = _problem(kind, Path(file).expanduser())
        if problem:
            found[path] = f"{file} {problem}"
    return found


def _named(cluster: Cluster | None) -> Iterator[tuple[str, str, str]]:
    """Yield path in the stack file, kind of the secret, and file."""
    if cluster and isinstance(cluster.target, HostsTarget):
        yield from _of_bmcs(cluster.target)
    declared = cluster.monitoring if cluster else None
    if not isinstance(declared, Monitoring):
        return
    for name, receiver in declared.receivers.items():
        secret = secret_file(receiver)
        if secret:
            yield f"monitoring.receivers.{name}.{secret[0]}", receiver.kind, secret[1]
    if declared.deadman:
        yield "monitoring.deadman.url_file", "deadman", declared.deadman.url_file


def _of_bmcs(target: HostsTarget) -> Iterator[tuple[str, str, str]]:
    """Yield each password file of BMCs where it is declared, once."""
    shared = {"target.power": target.power, **{f"target.machines.{key}.power": one.power for key, one in target.machines.items()}}
    for path, bmc in shared.items():
        if bmc and bmc.password_file:
            yield f"{path}.password_file", "bmc", bmc.password_file


def _problem(kind: str, file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(_LONGEST + 1)
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if kind == "bmc" and mode & _OF_OTHERS:
        return f"can be read by other users (expected mode 0600, found {mode:04o})"
    pattern, form = _FORMS[kind]
    try:
        lines = content.decode("utf-8").strip().splitlines()
    except UnicodeDecodeError:
        return f"is not text (expected one line, {form})"
    if len(content) > _LONGEST or len(lines) != 1:
        return f"has {'too much text' if len(content) > _LONGEST else f'{len(lines)} lines'} (expected one line, {form})"
    return "" if pattern.fullmatch(lines[0].strip()) else f"does not contain {form}"
