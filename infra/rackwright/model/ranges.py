"""Keys for several machines: `worker[0-63]` is worker0 to worker63, `node[001-003]` is node001 to node003."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from rackwright.model.groups import MAX_NODES
from rackwright.model.hostlists import HOST_LIST_PATTERN, expand_host_list, require_labels
from rackwright.model.names import is_label
from rackwright.model.notation import refuse


def names(key: str) -> tuple[str, ...]:
    """Return the node names of a key: those of a host list, else the key itself.

    >>> names("worker[0-2]"), names("node[001-002]"), names("login0")
    (('worker0', 'worker1', 'worker2'), ('node001', 'node002'), ('login0',))
    """
    return expand_host_list(key) if is_range(key) else (key,)


def is_range(key: str) -> bool:
    """Return whether a key is a host list, even of a single machine."""
    return "[" in key or "," in key


def _machine_name(value: object) -> str:
    hint = "use a node name, or names with ranges, like worker[0-63] or node[001-003,007]"
    if not isinstance(value, str):
        refuse("machine-name", f"{value!r} is not a node name", hint)
    if is_label(value):
        return value
    if not is_range(value):
        refuse("machine-name", f"`{value}` is neither a node name nor a range", hint)
    try:
        found = expand_host_list(value)
    except ValueError as error:
        refuse("machine-name", str(error), hint)
    if len(found) > MAX_NODES:
        refuse("machine-name", f"`{value}` has too many machines", f"use a range of at most {MAX_NODES} nodes")
    require_labels(found, "machine-name", hint)
    return value


MachineName = Annotated[str, BeforeValidator(_machine_name), WithJsonSchema({"type": "string", "pattern": HOST_LIST_PATTERN})]
