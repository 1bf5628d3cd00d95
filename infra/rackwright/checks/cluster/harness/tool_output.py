"""Rows and cells of the output of a tool. A value that cannot be read is an `UnreadableValue`, with its line. Other values are kept.

Runs on the nodes, too (roles/slurm_worker, health): Python 3.9, standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar

from rackwright.errors import UndeterminedError

T = TypeVar("T")
_LONGEST: Final = 160
"""Maximum number of characters of a quoted line."""
ABSENT: Final = frozenset({"n/a", "not supported", "not available", "requested functionality has been deprecated"})
"""Words for a value that this hardware does not have (nvidia-smi; the brackets around them are left out)."""
_TROUBLE: Final = re.compile(
    r"^(\[.*\]|err!?|error|unknown( error)?|gpu (is lost|requires reset).*|insufficient permissions?)$", re.IGNORECASE
)
"""Words that the tool prints in place of a value that it could not read (nvml.h, nvmlErrorString; `ERR!` of nvidia-smi)."""


class UnreadableValue:
    """A value that could not be read. Any use as a value raises UndeterminedError, so that no check passes because of it."""

    def __init__(self, subject: str, said: str | None, line: str) -> None:
        self.said = said
        cell = "missing" if said is None else "empty" if not said else f'"{said}"'
        self.why = f'{subject} is {cell} in the line "{quoted(line)}"' if line else f"{subject} is {cell}"

    def __str__(self) -> str:
        return f'unknown ("{self.said}")' if self.said else "unknown"

    def __repr__(self) -> str:
        return f"<UnreadableValue: {self.why}>"

    def _refuse(self, *_: object) -> Any:
        raise UndeterminedError(self.why)

    def __bool__(self) -> bool:
        raise UndeterminedError(self.why)

    def __eq__(self, other: object) -> bool:
        raise UndeterminedError(self.why)

    __hash__ = object.__hash__
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __index__ = _refuse
    __iter__ = __len__ = __contains__ = __getitem__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __mod__ = __and__ = __rand__ = _refuse


_WITHOUT_ANSWER: Final = re.compile(
    r"no answer|timed?[- ]?out|deadline exceeded|temporarily unavailable|can't start new thread|too many open files|no buffer space"
    r"|cannot allocate memory",
    re.IGNORECASE,
)
"""Words of a request that timed out, or for which this side lacked threads, memory or files (errno(3): ETIMEDOUT, EAGAIN,
EMFILE, ENFILE, ENOBUFS, ENOMEM; Go: `i/o timeout`; munge: `Timed-out`)."""


class MissingAnswer(UnreadableValue):
    """The result of a request to a peer that did not respond in time, or that could not be sent."""

    def __init__(self, subject: str, said: str) -> None:
        super().__init__(subject, said, "")
        self.why = f"{subject}: {quoted(said)}"


def answer_of(subject: str, said: str) -> str | UnreadableValue:
    """Return the answer of a peer, or why it is unknown. A time-out is neither a refusal nor a fault.

    A refused connection, an HTTP status (also of a time-out behind the peer) and an unexpected word are answers.

    >>> answer_of("API", "status 504: timeout"), answer_of("API", "refused"), str(answer_of("API", "no answer within 6 s"))
    ('status 504: timeout', 'refused', 'unknown ("no answer within 6 s")')
    """
    return MissingAnswer(subject, said) if is_without_answer(said) and not said.startswith("status ") else said


def is_without_answer(said: str) -> bool:
    """Return whether these are the words of a request that timed out."""
    return bool(_WITHOUT_ANSWER.search(said))


def quoted(line: str) -> str:
    """Return a line as messages quote it: printable characters, one space between words, at most 160 characters."""
    text = " ".join("".join(character if character.isprintable() else " " for character in line).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank, without line ends of any kind, byte order mark and colours.

    >>> lines_of("\\ufeffa\\r\\n\\r\\n\\x1b[4mb\\x1b[0m\\n")
    ['a', 'b']
    """
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.lstrip("\ufeff"))
    return [line for line in re.split(r"\r\n|\r|\n", plain) if line.strip()]


_DOCUMENT: Final = re.compile(r"^[ \t]*(?=[\[{]\s*[\[\]{}\"])", re.MULTILINE)
"""Start of a JSON object, or of a list of objects: `[WARN] …` is none."""


def json_documents(text: str) -> list[Any]:
    """Return the JSON documents of an output, objects or lists of objects, in order. Lines between them are warnings.

    Raise ValueError for a broken document, or if there is none.

    >>> json_documents('[WARN] slow\\n[{"a": 1},\\n{}]\\n# note\\n{}\\n')
    [[{'a': 1}, {}], {}]
    """
    found, place, decoder = list[Any](), 0, json.JSONDecoder()
    while start := _DOCUMENT.search(text, place):
        document, place = decoder.raw_decode(text, start.end())
        found.append(document)
    if not found:
        raise ValueError(f'no JSON: "{quoted(text)}"')
    return found


def is_cut(text: str) -> bool:
    """Return whether the last line has no line end, so that its last cell may be truncated."""
    return bool(text) and not text.endswith(("\n", "\r"))


def whole_lines(text: str) -> tuple[list[str], list[str]]:
    """Return the complete lines, and separately the last line if it has no line end: its values may be truncated.

    >>> whole_lines("a\\nstate=id"), whole_lines("a\\n"), whole_lines("a")
    ((['a'], ['state=id']), (['a'], []), ([], ['a']))
    """
    lines = lines_of(text)
    return (lines[:-1], lines[-1:]) if is_cut(text) else (lines, [])


def is_absent(cell: str) -> bool:
    """Return whether a cell means that the hardware has no such value.

    >>> [is_absent(cell) for cell in ("[N/A]", "Not Supported", "[Unknown Error]", "0")]
    [True, True, False, False]
    """
    return cell.strip().strip("[]").strip().lower() in ABSENT


def integer(cell: str) -> int:
    """Return the whole number in a cell. Raise ValueError for all else: a separator of thousands may be a decimal separator.

    >>> integer("81559"), integer("3.35544e+07"), integer("1 048 576")
    (81559, 33554400, 1048576)
    """
    text = re.sub(r"(?<=\d)[ \u00a0\u202f'’](?=\d{3}(?!\d))", "", cell.strip())  # noqa: RUF001 - separators of thousands
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?\d+(\.\d+)?[eE][+-]?\d+", text) and float(text).is_integer():
        return int(float(text))
    raise ValueError(f'"{cell}" is not a whole number')


def decimal(cell: str) -> float:
    """Return the number in a cell. A decimal comma is accepted where it is unambiguous. Raise ValueError for all else.

    >>> decimal("10.25"), decimal("10,25"), decimal("3.35544e+07")
    (10.25, 10.25, 33554400.0)
    """
    text = cell.strip()
    if re.fullmatch(r"[+-]?\d+,(\d{1,2}|\d{4,})", text):
        text = text.replace(",", ".")
    if re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text):
        return float(text)
    raise ValueError(f'"{cell}" is not a number')


def hexadecimal(cell: str) -> int:
    """Return the number of a cell that begins with 0x. Raise ValueError for all else."""
    if not re.fullmatch(r"0[xX][0-9a-fA-F]+", cell.strip()):
        raise ValueError(f'"{cell}" is not a hexadecimal number')
    return int(cell, 16)


def words(cell: str) -> str:
    """Return the text of a cell. Raise ValueError where it is empty or stands for a value that the tool could not read."""
    text = cell.strip()
    if not text or is_absent(text) or _TROUBLE.match(text):
        raise ValueError(f'"{cell}" is not text')
    return text


def release(cell: str) -> str:
    """Return the version in a cell, such as 580.95.05. Raise ValueError for all else."""
    if not re.fullmatch(r"\d+(\.\d+)+", cell.strip()):
        raise ValueError(f'"{cell}" is not a version')
    return cell.strip()


def flag(cell: str) -> bool:
    """Return whether a cell means yes. Raise ValueError for a word that means neither yes nor no.

    >>> flag("Yes"), flag("Disabled"), flag("Not Active"), flag("1")
    (True, False, False, True)
    """
    text = cell.strip().lower()
    if text in ("yes", "enabled", "active", "true", "on", "1"):
        return True
    if text in ("no", "disabled", "not active", "false", "off", "0", "none"):
        return False
    raise ValueError(f'"{cell}" is neither yes nor no')


@dataclass(frozen=True)
class Row:
    """Cells of one line by name. A missing cell was not printed. A cell of `unreliable` was printed twice, with different values."""

    subject: str
    cells: Mapping[str, str]
    line: str
    unreliable: frozenset[str] = frozenset()
    cut: str | None = None
    """Name of the cell at which the output ends without a line end."""

    def read(self, name: str, form: Callable[[str], T]) -> T | UnreadableValue:
        """Return a value, or why it is unknown."""
        cell = self.cells.get(name)
        if cell is None or name in self.unreliable:
            return self.unread(name)
        try:
            value = form(cell)
        except (ValueError, OverflowError):
            return self.unread(name)
        if name == self.cut and not isinstance(value, bool):
            return UnreadableValue(f"{self.subject} {name}", f"{cell}…", self.line)
        return value

    def counter(self, name: str, form: Callable[[str], T]) -> T | UnreadableValue | None:
        """Return a value, why it is unknown, or None where the hardware has none."""
        cell = self.cells.get(name)
        return None if cell is not None and name not in self.unreliable and is_absent(cell) else self.read(name, form)

    def unread(self, name: str) -> UnreadableValue:
        """Return the value as one that was not read."""
        return UnreadableValue(f"{self.subject} {name}", self.cells.get(name), self.line)


class Lines(dict[str, T]):
    """Values by name, parsed from lines. If a line was not read, the value of a missing name is unknown."""

    def __init__(self, values: Mapping[str, T] | Iterable[tuple[str, T]] = (), unread: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.unread = tuple(unread)
        """Lines that were not read."""

    def at(self, name: str) -> T | UnreadableValue | None:
        """Return a value; None where it is missing and all lines were read."""
        return self[name] if name in self else UnreadableValue(name, self.unread[0], "") if self.unread else None

    def __missing__(self, name: str) -> T:
        """Raise UndeterminedError: a value that the tool did not print is unknown."""
        raise UndeterminedError(f'a line cannot be read: "{quoted(self.unread[0])}"' if self.unread else f"{name} is not in the output")


def read_each_line(text: str, read: Callable[[str], tuple[str, T] | None]) -> Lines[T]:
    """Return what `read` returns for each line, without None. A line for which it raises is kept as unread.

    Raise ValueError where no line was read and there are some.
    """
    found, unread = list[tuple[str, T]](), list[str]()
    lines, partial = whole_lines(text)
    for line in lines:
        try:
            one = read(line)
        except (ValueError, LookupError, TypeError, AttributeError):
            unread.append(line)
        else:
            found += [one] if one else []
    unread += partial
    if unread and not found:
        raise ValueError(f'no line can be read: "{quoted(unread[0])}"')
    return Lines(found, unread)


def refusing(tool: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Return a decorator for a parser of a tool's output. An exception on an output of another form becomes UndeterminedError."""

    def decorate(read: Callable[..., T]) -> Callable[..., T]:
        @wraps(read)
        def reader(text: str) -> T:
            try:
                return read(text)
            except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
                raise UndeterminedError(f"{tool}: unreadable output: {error}") from None

        return reader

    return decorate


def read_values(values: Iterable[T | UnreadableValue]) -> list[T]:
    """Return the values that were read."""
    return [value for value in values if not isinstance(value, UnreadableValue)]


def unread_values(value: object) -> Iterator[UnreadableValue]:
    """Yield every unread value of a value and of the collections in it."""
    if isinstance(value, UnreadableValue):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from unread_values(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from unread_values(item)


def first_reasons(found: Iterable[UnreadableValue], most: int = 3) -> str:
    """Return the reasons why values are unknown, in one line. Reasons beyond the first `most` are counted."""
    reasons = list(dict.fromkeys(value.why for value in found))
    more = f"; and {len(reasons) - most} more" if len(reasons) > most else ""
    return "; ".join(reasons[:most]) + more
