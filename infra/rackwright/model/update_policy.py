"""Change policies: the effect of an edited field on a running stack. Declared with the field, read by `stackfile.diff`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class UpdatePolicy(StrEnum):
    """The most disruptive effect of an edited field on a running cluster."""

    RUN = "run"
    """Affects how commands run; nothing on any node changes."""
    NEW = "new"
    """Applies to resources that are created later; existing ones stay unchanged."""
    LIVE = "live"
    """Applied in place: sessions, jobs and daemons continue."""
    RESTART = "restart"
    """Daemons reload their configuration, or restart if they cannot reload. Jobs continue."""
    RECABLE = "recable"
    """People move cables or configure switches; checks fail until the cabling matches the stack file."""
    ADOPT = "adopt"
    """The machine is validated again, and the run fails if it does not match the stack file."""
    MEMBERS = "members"
    """Nodes are added or removed, or change their roles."""
    REPLACE = "replace"
    """Nodes are recreated under their names, all at once and without a drain; volumes are kept."""
    DATA_LOSS = "data-loss"
    """Data is deleted."""
    RENUMBER = "renumber"
    """Refused if an existing node would get another address or name, otherwise no effect."""
    FORBIDDEN = "forbidden"
    """Refused: `up` would leave a cluster that matches neither the old nor the new stack file."""


@dataclass(frozen=True, init=False)
class OnTarget:
    """A different policy on some targets: `OnTarget(hosts=UpdatePolicy.ADOPT)`."""

    targets: dict[str, UpdatePolicy]

    def __init__(self, **targets: UpdatePolicy) -> None:
        object.__setattr__(self, "targets", targets)
