"""Probes: a probe is one shell command that runs on a node, and a pure function that parses its output.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from rackwright.errors import UndeterminedError

if TYPE_CHECKING:  # the health check on a node has no report
    from rackwright.inventory.reader import Inventory

T = TypeVar("T")
NO_END = ": no end after "
"""Words of a round that exceeded its time limit."""
TOOL_SECONDS: Final = 8.0
"""Time limit of a command, in seconds, unless its probe has another one."""
GPU_TOOL_SECONDS: Final = 30.0
"""Time limit of a command that uses the driver of real GPUs, in seconds. Without persistence mode nvidia-smi initializes eight GPUs, with 1
to 3 s for each (NVIDIA, Driver Persistence, Overview)."""
_MISSING = {126: "cannot be executed", 127: "is not installed"}


class NodeBusyError(Exception):
    """The nodes of a job check run jobs of users, so that no test job was sent to them."""


class EarlierTimeoutError(UndeterminedError):
    """A command cannot be built, because an earlier probe of the same node exceeded its time limit."""


class KnownCauseError(UndeterminedError):
    """A probe has no result, and another check of the run reports the cause. The text names that result, `KEY[NODE]`."""


class DaemonDownError(KnownCauseError):
    """A daemon of the probe's node is down."""


class NodeSlowError(KnownCauseError):
    """The probe exceeded its time limit because the node is slow."""


class ProbeStage(IntEnum):
    """When a probe runs. Commands of a later stage may use earlier results. Job stages start together with the passive stages."""

    FIRST = 0
    SECOND = 1
    JOBS = 2
    AFTER_JOBS = 3


@dataclass(frozen=True)
class CommandOutput:
    """Raw result of a command on a node."""

    rc: int = 0
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    sent: float = 0.0
    """Time at which the round was sent, in seconds of this machine's clock."""
    arrived: float = 0.0
    """Time at which the output arrived, in seconds of this machine's clock."""
    error: str = ""
    """The reason why there is no output; empty when there is one."""
    starved_seconds: float | None = None
    """After a time-out: seconds of its time limit that the command did not get, because other commands of the round used them."""
    waits_for: str = ""
    """The suspended unit that the command needs, where the node did not run it or the run stopped waiting for it."""

    @property
    def timed_out(self) -> bool:
        """Return whether the command exceeded its time limit, or the round its own."""
        return self.starved_seconds is not None or NO_END in self.error


def scaled(seconds: int) -> str:
    """Return a time limit for a shell command, in seconds, multiplied by the slowness of the node (rackwright.remote.programs.commands).

    >>> scaled(3)
    '$((3 * ${RACKWRIGHT_SLOWNESS:-1}))'
    """
    return f"$(({seconds} * ${{RACKWRIGHT_SLOWNESS:-1}}))"


class ProbeContext(Protocol):
    """The context of a probe: the record of the node, the plan, and the results of earlier stages."""

    @property
    def node(self) -> Mapping[str, Any]:
        """The record of the node."""

    @property
    def declared(self) -> Inventory:
        """The plan."""

    def earlier_result(self, probe: Probe[Any], node: str) -> Any:
        """Return the parsed result of an earlier probe. Raise UndeterminedError where there is none."""

    def is_reachable(self, node: str) -> bool:
        """Return whether a node responds."""


def gpu_tool_seconds(context: ProbeContext) -> float:
    """Return the time limit of a command that uses the GPUs' driver, in seconds. Simulated GPUs need no initialization."""
    return TOOL_SECONDS if context.node["gpus"]["simulated"] else GPU_TOOL_SECONDS


@dataclass(frozen=True, eq=False)
class Probe(Generic[T]):
    """One probe: the group of nodes it runs on, its command, and the parser of the output."""

    name: str
    on: str
    command: str | Callable[[ProbeContext], str]
    parse: Callable[[str], T]
    timeout: float = TOOL_SECONDS
    """Time limit of the command, in seconds. Beyond it, the result is unknown."""
    stage: ProbeStage = ProbeStage.FIRST
    needs: tuple[str, ...] = ()
    """Units of the same node without which the command would not return. If one is suspended, the command is not run."""
    statuses: frozenset[int] = frozenset({0})
    """Exit statuses with a valid output. After any other status, the result is unknown."""
    planned_timeout: Callable[[ProbeContext], float] | None = None
    """Time limit of a command whose duration depends on the plan, in seconds; None if it is `timeout`."""

    def __post_init__(self) -> None:
        if self.name in PROBES:
            raise ValueError(f"two probes are named {self.name}")
        PROBES[self.name] = self

    def command_at(self, context: ProbeContext) -> str:
        """Return the shell command for one node."""
        return self.command if isinstance(self.command, str) else self.command(context)

    def timeout_at(self, context: ProbeContext) -> float:
        """Return the time limit for one node, in seconds."""
        return self.planned_timeout(context) if self.planned_timeout else self.timeout

    def read(self, raw: CommandOutput) -> T:
        """Return the parsed output. Raise UndeterminedError where there is no output or it cannot be parsed."""
        if raw.error:
            raise UndeterminedError(raw.error)
        if raw.rc not in self.statuses:
            what = _MISSING.get(raw.rc, f"ended with status {raw.rc}")
            raise UndeterminedError(f"{self.name}: the command {what}: {_last_line(raw.err or raw.out)}")
        try:
            return self.parse(raw.out)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            where = "" if '"' in str(error) else f": {_last_line(raw.out)}"  # the parser of rows quotes the line that it could not read
            raise UndeterminedError(f"{self.name}: unreadable answer ({error}){where}") from None


PROBES: dict[str, Probe[Any]] = {}
"""All probes by name."""


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no output"
