"""Change policies: what an edit of a field does to a stack that is up. Declared beside the field, read by `model.change`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    """The worst that an edit of the field does to a cluster that is up."""

    RUN = "run"
    """Steers runs; nothing on any node changes."""
    NEW = "new"
    """Matters to what is made after it; what exists stays as it is."""
    LIVE = "live"
    """Applied in place: sessions, jobs and daemons go on."""
    RESTART = "restart"
    """Daemons read it anew: by a reload where they can, by a restart where they cannot. Jobs go on."""
    RECABLE = "recable"
    """People move cables or set switches; checks fail until the wiring is as described."""
    ADOPT = "adopt"
    """The machine is looked at anew, and the run ends where it is not as described."""
    MEMBERS = "members"
    """Nodes join, leave, or change what they do."""
    REPLACE = "replace"
    """Nodes are made anew under their names, all at once and not drained; volumes live on."""
    DATA_LOSS = "data-loss"
    """Data goes."""
    RENUMBER = "renumber"
    """Refused where a node that stays would get another address, otherwise nothing."""
    FORBIDDEN = "forbidden"
    """Refused: `up` would leave something behind that is neither the old cluster nor the new one."""


@dataclass(frozen=True, init=False)
class Except:
    """Another policy on some targets: `Except(hosts=Change.ADOPT)`."""

    targets: dict[str, Change]

    def __init__(self, **targets: Change) -> None:
        object.__setattr__(self, "targets", targets)
