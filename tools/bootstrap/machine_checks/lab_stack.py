"""The numbers of a lab's stack file that the checks need, read without a YAML package, because none is installed yet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ASSUMED_NODES = 4
"""Nodes of the committed stack `lab`; assumed if the nodes of the stack file cannot be counted."""
_PORT = 2222
_LISTEN = "127.0.0.1"
"""Defaults of infra/rackwright/model/network.py (Access)."""


class LabStack(NamedTuple):
    """Values of a stack file that the checks use."""

    name: str
    counted_nodes: int | None
    """None if the groups could not be counted."""
    is_kubernetes: bool
    ports: tuple[int, ...]
    listen: str

    @property
    def nodes(self) -> int:
        """Return the number of nodes, or the assumed number if they could not be counted."""
        return ASSUMED_NODES if self.counted_nodes is None else self.counted_nodes

    @property
    def nodes_text(self) -> str:
        """Return `4 nodes`, with a remark if the number is assumed."""
        return f"{self.nodes} nodes" + (" (assumed: the stack file's groups could not be counted)" if self.counted_nodes is None else "")


def read_stack(checkout: Path, name: str) -> LabStack:
    """Read `stacks/Pulumi.<name>.yaml`; a missing file gives the defaults."""
    try:
        text = (checkout / "stacks" / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
    except OSError:
        text = ""
    return parse_stack(name, text)


def parse_stack(name: str, text: str) -> LabStack:
    """Parse the text of a stack file."""
    cluster = entries(entries(entries(text).get("config", "")).get("rackwright:cluster", ""))
    access = entries(cluster.get("access", ""))
    port = int(access["port"]) if access.get("port", "").strip().isdigit() else _PORT
    counts = _group_counts(cluster.get("groups", ""))
    published = max(1, counts.get("login") or 1)
    kind = entries(cluster.get("scheduler", "")).get("kind", "").strip()
    return LabStack(
        name=name,
        counted_nodes=sum(count for count in counts.values() if count is not None) if counts and None not in counts.values() else None,
        is_kubernetes=kind == "kubernetes",
        ports=tuple(range(port, port + published)),
        listen=access.get("bind_address", "").strip().strip("\"'") or _LISTEN,
    )


def _group_counts(text: str) -> dict[str, int | None]:
    counts = {name: entries(group).get("count", "").strip() for name, group in entries(text).items()}
    return {name: int(count) if count.isdigit() else None for name, count in counts.items()}


def entries(text: str) -> dict[str, str]:
    """Return the keys of a YAML mapping and the text of each value; an empty dict for any other text."""
    return _flow_entries(text.strip()) if text.strip().startswith("{") else _block_entries(text)


def _block_entries(text: str) -> dict[str, str]:
    lines = [line for line in (re.sub(r"(^|\s)#.*$", "", each).rstrip() for each in text.splitlines()) if line]
    indent = _indent(lines[0]) if lines else 0
    found: dict[str, str] = {}
    key = ""
    for line in lines:
        if _indent(line) == indent:
            match = re.match(r"\s*([^\s{}\[\]][^{}\[\]]*?):(?:\s+(.*))?$", line)
            if match is None:
                return {}
            key = match[1].strip("\"'")
            found[key] = match[2] or ""
        elif key and _indent(line) > indent:
            found[key] += "\n" + line
        else:
            return {}
    return found


def _flow_entries(text: str) -> dict[str, str]:
    parts, depth = [""], 0
    for character in " ".join(text.split())[1:]:
        depth += (character in "{[") - (character in "}]")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    pairs = (part.partition(":") for part in parts)
    return {key.strip().strip("\"'"): value.strip() for key, colon, value in pairs if colon}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
