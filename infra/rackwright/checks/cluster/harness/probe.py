"""A question to a node: one shell command and the pure function that reads its answer.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rackwright.errors import UndeterminedError

if TYPE_CHECKING:  # a node that looks at itself has no report
    from rackwright.inventory.reader import Inventory

T = TypeVar("T")
_MISSING = {126: "cannot be executed", 127: "is not installed"}


class NodeBusy(Exception):
    """The nodes that a job check is about run users' jobs, so that it sent none there."""


class DaemonDown(UndeterminedError):
    """A node has no answer because one of its daemons is down, which another check of the run reports."""


class Stage(IntEnum):
    """When a question is asked. A later one may be made of earlier answers; job stages start together with the passive ones."""

    LOOK = 0
    LOOK_AGAIN = 1
    JOBS = 2
    AFTER_JOBS = 3


@dataclass(frozen=True)
class Raw:
    """What a command on a node gave back."""

    rc: int = 0
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    sent: float = 0.0
    """When the round was sent, in seconds of this machine's clock."""
    arrived: float = 0.0
    """When the answer was here, in seconds of this machine's clock."""
    trouble: str = ""
    """Why there is no answer; empty when there is one."""
    lacked: float | None = None
    """Where the time was not enough: seconds of its own that it was not given, because others had taken them."""
    held: str = ""
    """Where the node did not run the command, or nobody waited for it: the unit that it needs and that is suspended."""


def scaled(seconds: int) -> str:
    """Return a time limit for a shell command, in seconds: as many times longer as the node is slow (rackwright.remote.programs.commands).

    >>> scaled(3)
    '$((3 * ${RACKWRIGHT_SLOWNESS:-1}))'
    """
    return f"$(({seconds} * ${{RACKWRIGHT_SLOWNESS:-1}}))"


class Place(Protocol):
    """Where a question is asked: the node's record, the plan, and answers that were given before."""

    @property
    def node(self) -> Mapping[str, Any]:
        """The record of the node."""

    @property
    def declared(self) -> Inventory:
        """The plan."""

    def before(self, probe: Probe[Any], node: str) -> Any:
        """An earlier answer, parsed; raises UndeterminedError where there is none."""

    def speaks(self, node: str) -> bool:
        """Whether a node answers at all."""


@dataclass(frozen=True, eq=False)
class Probe(Generic[T]):
    """One question: who is asked (a group), the command, and how its answer is read."""

    name: str
    on: str
    command: str | Callable[[Place], str]
    parse: Callable[[str], T]
    timeout: float = 8.0
    """Seconds after which nothing was told."""
    stage: Stage = Stage.LOOK
    needs: tuple[str, ...] = ()
    """Units of the same node without which the command waits for ever: where one is suspended, the command is not run."""
    statuses: frozenset[int] = frozenset({0})
    """Exit statuses that are an answer; any other means that nothing was told."""

    def __post_init__(self) -> None:
        if self.name in PROBES:
            raise ValueError(f"two probes are named {self.name}")
        PROBES[self.name] = self

    def command_at(self, place: Place) -> str:
        """The shell command for one node."""
        return self.command if isinstance(self.command, str) else self.command(place)

    def read(self, raw: Raw) -> T:
        """The answer as data; raises UndeterminedError where the command gave none or an unreadable one."""
        if raw.trouble:
            raise UndeterminedError(raw.trouble)
        if raw.rc not in self.statuses:
            what = _MISSING.get(raw.rc, f"ended with status {raw.rc}")
            raise UndeterminedError(f"{self.name}: the command {what}: {_last_line(raw.err or raw.out)}")
        try:
            return self.parse(raw.out)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            where = "" if '"' in str(error) else f": {_last_line(raw.out)}"  # a reader of rows quotes the line that it could not read
            raise UndeterminedError(f"{self.name}: unreadable answer ({error}){where}") from None


PROBES: dict[str, Probe[Any]] = {}
"""Every probe there is, by name."""


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no output"
