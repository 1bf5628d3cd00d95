"""History of drift: every scan, and the first and last scan of every difference, with the time of its resolution."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from rackwright.drift.difference import CLUSTER, Category, DriftItem, Layer
from rackwright.drift.document import DriftReport, State
from rackwright.errors import UndeterminedError

_VERSION: Final = 1
"""Version of the tables below, kept in the database as `user_version` (https://www.sqlite.org/pragma.html#pragma_user_version)."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS scans (
  started TEXT PRIMARY KEY, seconds REAL NOT NULL, state TEXT NOT NULL, differences INTEGER NOT NULL, plan TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS differences (
  first TEXT NOT NULL, last TEXT NOT NULL, healed TEXT, layer TEXT NOT NULL, node TEXT NOT NULL, subject TEXT NOT NULL,
  declared TEXT NOT NULL, live TEXT NOT NULL, class TEXT NOT NULL, remedy TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS notifications (what TEXT PRIMARY KEY);
CREATE UNIQUE INDEX IF NOT EXISTS still ON differences (layer, node, subject) WHERE healed IS NULL;
"""


@dataclass(frozen=True, slots=True)
class DriftRecord:
    """A difference with its first and last scan."""

    difference: DriftItem
    first: datetime
    last: datetime
    resolved: datetime | None


@dataclass(frozen=True, slots=True)
class ScanRecord:
    """A recorded scan."""

    started: datetime
    seconds: float
    state: State
    differences: int


@dataclass(frozen=True, slots=True)
class HistoryDelta:
    """Changes that one scan made to the history."""

    new: tuple[DriftItem, ...]
    resolved: tuple[DriftItem, ...]
    before: State | None
    """State of the previous scan."""


class History:
    """The scans of one stack, in one SQLite file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def check(self) -> None:
        """Read the whole history; raise UndeterminedError where `record` would. A missing file is a history without scans."""
        if not self._file.exists():
            return
        with self._open() as base:
            found = base.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        self.scans(-1)
        self.differences()

    def record(self, drift: DriftReport) -> HistoryDelta:
        """Record a scan. A missing difference is resolved only if its layer was scanned and its node responded."""
        at = drift.started.isoformat()
        with self._open() as base:
            past = base.execute("SELECT state FROM scans ORDER BY started DESC LIMIT 1").fetchone()
            row = (at, drift.seconds, drift.state.value, len(drift.differences), drift.plan)
            base.execute("INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?)", row)
            known = {seen.difference.id: seen for seen in _seen(base, "healed IS NULL")}
            now = {one.id: one for one in drift.differences}
            for one in now.values():
                _write_difference(base, at, one, known=one.id in known)
            resolved = [seen.difference for id_, seen in known.items() if id_ not in now and _was_scanned(drift, seen.difference)]
            for one in resolved:
                where = "healed IS NULL AND layer = ? AND node = ? AND subject = ?"
                base.execute(f"UPDATE differences SET healed = ? WHERE {where}", (at, one.layer.value, one.node, one.subject))
        new = tuple(one for id_, one in now.items() if id_ not in known)
        return HistoryDelta(new, tuple(resolved), State(past[0]) if past else None)

    def scans(self, most: int) -> list[ScanRecord]:
        """Return the last scans, the newest first; all if `most` is negative."""
        with self._open() as base:
            rows = base.execute("SELECT started, seconds, state, differences FROM scans ORDER BY started DESC LIMIT ?", (most,)).fetchall()
            return [ScanRecord(datetime.fromisoformat(row[0]), row[1], State(row[2]), row[3]) for row in rows]

    def already_notified(self, what: str) -> bool:
        """Return whether this notification was sent before, and record it."""
        with self._open() as base:
            return base.execute("INSERT OR IGNORE INTO notifications VALUES (?)", (what,)).rowcount == 0

    def differences(self) -> list[DriftRecord]:
        """Return every recorded difference: open ones first, then by the time of the last scan that found them."""
        with self._open() as base:
            return sorted(_seen(base, "1"), key=lambda one: (one.resolved is not None, -one.last.timestamp()))

    def prune(self, older_than: timedelta, now: datetime) -> int:
        """Delete older scans and resolved differences; return the number of deleted scans."""
        limit = (now - older_than).isoformat()
        with self._open() as base:
            base.execute("DELETE FROM differences WHERE healed < ?", (limit,))
            return base.execute("DELETE FROM scans WHERE started < ?", (limit,)).rowcount

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield the database; raise UndeterminedError if it is damaged, cannot be written, or is locked for 10 s."""
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file.touch(mode=0o600)
            with closing(sqlite3.connect(self._file, timeout=10)) as base:
                with base:
                    base.executescript(_TABLES)
                    base.execute(f"PRAGMA user_version = {_VERSION}")
                with base:
                    yield base
        except sqlite3.OperationalError as refused:  # A full disk, a folder in its place, a lock: the content can be good.
            hint = "check the disk, and the file's type and mode"
            raise UndeterminedError(f"cannot open or write the drift history: {refused}", path=str(self._file), hint=hint) from None
        except sqlite3.DatabaseError as damaged:
            if type(damaged) is not sqlite3.DatabaseError:  # A subclass reports a mistake of a statement, not of the file.
                raise
            raise self._damaged(damaged) from None
        except ValueError as unknown:  # A time, state, layer or category that is none.
            raise self._damaged(unknown) from None
        except OSError as refused:
            hint = "check the disk, and the file's type and mode"
            raise UndeterminedError(f"cannot be written: {refused.strerror}", path=str(self._file), hint=hint) from None

    def _damaged(self, why: Exception) -> UndeterminedError:
        hint = "move the file away: the next `rackwright drift` starts a new history"
        return UndeterminedError(f"the drift history is damaged: {why}", path=str(self._file), hint=hint)


def _was_scanned(drift: DriftReport, one: DriftItem) -> bool:
    """Return whether the layer and the node were scanned: a node that was unreachable or not waited for resolves nothing."""
    unknown = {(layer, node) for layer, node, _ in drift.unknown} | {
        (scan.layer, node) for scan in drift.layers for node, _ in scan.incomplete
    }
    return one.layer not in drift.missing and not unknown & {(one.layer, one.node), (one.layer, CLUSTER)}


def _write_difference(base: sqlite3.Connection, at: str, one: DriftItem, *, known: bool) -> None:
    values = (one.declared, one.live, one.category.value, one.remedy)
    key = (one.layer.value, one.node, one.subject)
    if known:
        where = "healed IS NULL AND layer = ? AND node = ? AND subject = ?"
        base.execute(f"UPDATE differences SET last = ?, declared = ?, live = ?, class = ?, remedy = ? WHERE {where}", (at, *values, *key))
    else:
        base.execute("INSERT INTO differences VALUES (?, ?, NULL, ?, ?, ?, ?, ?, ?, ?)", (at, at, *key, *values))


def _seen(base: sqlite3.Connection, where: str) -> list[DriftRecord]:
    fields = "first, last, healed, layer, node, subject, declared, live, class, remedy"
    found = []
    for first, last, resolved, layer, node, subject, declared, live, category, remedy in base.execute(
        f"SELECT {fields} FROM differences WHERE {where}"
    ):
        one = DriftItem(Layer(layer), node, subject, declared, live, Category(category), remedy)
        ended = datetime.fromisoformat(resolved) if resolved else None
        found.append(DriftRecord(one, datetime.fromisoformat(first), datetime.fromisoformat(last), ended))
    return found
