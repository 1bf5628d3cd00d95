"""Run on the node, imported by host_baseline: accounts, users and qualities of service in Slurm's accounting database.

Python 3.9, standard library only.
"""

from __future__ import annotations

import re

from rackwright.remote.programs.unread_lines import UNREAD, note_unread

TYPE_CHECKING = False  # typing.TYPE_CHECKING without the import of typing
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIMITS = (
    "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "GrpJobs", "GrpSubmitJobs", "GrpWall",
    "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MaxWall",
)  # fmt: skip
"""Limits that associations and qualities of service have in common: sacctmgr(1)."""
PLACE = ("Cluster", "Account", "User", "Partition")
ASSOCIATION = (*PLACE, "ParentName", "Fairshare", "Priority", *LIMITS, "MaxJobs", "MaxSubmitJobs", "QOS", "DefaultQOS")
QUALITY = (
    "Name", "Priority", "GraceTime", "Preempt", "PreemptMode", "PreemptExemptTime", "Flags", "UsageThreshold", "UsageFactor", *LIMITS,
    "MaxTRESPerUser", "MaxTRESRunMinsPerUser", "MaxJobsPerUser", "MaxSubmitJobsPerUser",
    "MaxTRESPerAccount", "MaxTRESRunMinsPerAccount", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount", "MinTRES",
)  # fmt: skip
USER = ("User", "DefaultAccount", "AdminLevel", "Coordinators")
"""Columns of the listings, by names that sacctmgr accepts (src/sacctmgr/common.c). Its titles vary by release: `Par Name`, `ParentName`."""
QUERIES = {
    "associations": ("associations", "format=" + ",".join(ASSOCIATION)),
    "qos": ("qos", "format=" + ",".join(QUALITY)),
    "user": ("user", "withcoord", "format=" + ",".join(USER)),
}
"""Arguments of `sacctmgr --parsable2 show`."""
LISTS = ("QOS", "Preempt", "Flags", "Coordinators")
"""Columns whose names have no order."""
NAME = re.compile(r'[^\s\[\]()!|,"]+')
"""A name of an account, user, cluster, partition or QOS. Directories have users such as `EXAMPLE\\eve`."""
FORMS = (
    (re.compile(r".*TRES"), re.compile(r"([\w/:.@-]+=\d+(\.\d+)?[KMGTPE]?(,|$))*")),
    (re.compile(r".*(Wall|Time)"), re.compile(r"((\d+-)?\d+:\d\d(:\d\d)?|UNLIMITED|INFINITE)?")),
    (re.compile(r"Priority|.*Jobs"), re.compile(r"\d*")),
    (re.compile(r"Usage"), re.compile(r"(\d+(\.\d+)?)?")),
    (re.compile(r"Fairshare"), re.compile(r"\d*|parent")),
    (re.compile(r""), re.compile(r'[^\[\]!|"]*')),
)
"""Forms of cells by column, the first that applies: limits on resources, times, numbers, names."""
NO_RIGHTS = ("", "None", "Not Set")
"""Words of AdminLevel for an ordinary user: slurmdb_admin_level_str (src/common/slurmdb_defs.c)."""


def read_entries(listings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of each account, user and quality of service by kind and name: those that are set, as `name value`."""
    found: dict[str, str] = {}
    for cells, line in rows(found, listings["associations"], ASSOCIATION):
        place = "/".join(cells[name] for name in PLACE if cells[name])
        add_entry(found, ("user " if cells["User"] else "account ") + place, settings(cells, ASSOCIATION[len(PLACE) :]), line)
    for cells, line in rows(found, listings["qos"], QUALITY):
        add_entry(found, "qos " + cells["Name"], settings(cells, QUALITY[1:]), line)
    for cells, line in rows(found, listings["user"], USER):
        add_entry(found, "user " + cells["User"], settings(cells, ("DefaultAccount",)), line)
    return found


def read_administrators(listing: str) -> dict[str, str]:
    """Return the users with an administrator level, or that coordinate accounts, with their rights."""
    found: dict[str, str] = {}
    for cells, line in rows(found, listing, USER):
        level = "" if cells["AdminLevel"] in NO_RIGHTS else cells["AdminLevel"]
        if level or cells["Coordinators"]:
            add_entry(found, cells["User"], settings({**cells, "AdminLevel": level}, ("AdminLevel", "Coordinators")), line)
    return found


def rows(found: dict[str, str], text: str, names: tuple[str, ...]) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the cells of each row by column, and the row. A row with another number of cells, or without its names, is noted.

    Raises ValueError for a listing without titles: a listing of nothing has titles. Lines without separators are warnings.
    """
    *whole, cut = text.lstrip("\ufeff").split("\n")
    lines = [line.strip("\r") for line in whole if "|" in line]
    titles = lines[0].split("|") if lines else []
    if len(titles) != len(names) or titles[0] != names[0]:
        raise ValueError("sacctmgr printed no titles: " + repr(text[:80]))
    if cut.strip():
        note_unread(found, "a row of sacctmgr", cut)
    for line in lines[1:]:
        cells = dict(zip(names, (cell.strip() for cell in line.split("|"))))
        if line.count("|") != len(names) - 1 or not is_named(cells, names):
            note_unread(found, "a row of sacctmgr", line)
        else:
            yield cells, line


def is_named(cells: Mapping[str, str], names: tuple[str, ...]) -> bool:
    """Return whether the names of a row are names: all of an association, where user and partition may be empty, or the first."""
    keys = PLACE if names is ASSOCIATION else names[:1]
    may_be_empty = PLACE[2:] if names is ASSOCIATION else ()
    return all((NAME.fullmatch(cells[key]) and cells[key].isprintable()) or (not cells[key] and key in may_be_empty) for key in keys)


def add_entry(found: dict[str, str], name: str, value: str, line: str) -> None:
    """Add an entry. If its value cannot be read, or it is listed twice with different values, its value is UNREAD."""
    if value == UNREAD or found.get(name, value) != value:
        note_unread(found, name, line)
        value = UNREAD
    found[name] = value


def settings(cells: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the settings that are set, in the order of the columns; names and limits of a list in the order of their names.

    UNREAD if the cell of one has another form.
    """
    if not all(is_form(name, cells[name]) for name in names):
        return UNREAD
    shown = [(name, ordered(name, cells[name])) for name in names]
    return ", ".join(name + " " + value for name, value in shown if value) or "no settings"


def is_form(name: str, cell: str) -> bool:
    """Return whether a cell has the form of its column."""
    return cell.isprintable() and next(form for column, form in FORMS if column.match(name)).fullmatch(cell) is not None


def ordered(name: str, cell: str) -> str:
    """Return a cell with its names or limits in the order of their names."""
    return ",".join(sorted(filter(None, cell.split(",")))) if name in LISTS or "TRES" in name else cell
