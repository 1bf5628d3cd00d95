"""Accounts, users and QOS from `sacctmgr --parsable2` of Slurm 22.05 to 25.05, and their differences from the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.damage import damages

from rackwright.drift.difference import Category
from rackwright.drift.host_baseline.baseline import Baseline
from rackwright.drift.host_baseline.compare import differences
from rackwright.remote.programs import host_baseline
from rackwright.remote.programs.slurm_entries import ASSOCIATION, QUALITY, QUERIES, USER, read_administrators, read_entries
from rackwright.remote.programs.unread_lines import UNREAD

ROOT = "root"
"""User and account that slurmdbd creates with a cluster: sacctmgr(1)."""
FOLDER = Path(__file__).parent / "captured"
EMPTY = {"associations": "|".join(ASSOCIATION) + "\n", "qos": "|".join(QUALITY) + "\n", "user": "|".join(USER) + "\n"}


def text(kind, release):
    return (FOLDER / kind / f"good-{release}.txt").read_text(encoding="utf-8")


def entries(associations="", qos="", user=""):
    return read_entries({"associations": associations or EMPTY["associations"], "qos": qos or EMPTY["qos"], "user": user or EMPTY["user"]})


def association(name, **cells):
    """Return the listing of one association, by its columns."""
    account, _, user = name.partition("/")
    values = {"Cluster": "lab", "Account": account, "User": user, "Fairshare": "1", "QOS": "normal", **cells}
    return EMPTY["associations"] + "|".join(values.get(column, "") for column in ASSOCIATION) + "\n"


def quality(name, **cells):
    return EMPTY["qos"] + "|".join({"Name": name, "Priority": "0", **cells}.get(column, "") for column in QUALITY) + "\n"


def test_associations_are_read_in_each_release():
    assert entries(text("associations", "22.05")) == {
        "account lab/root": "Fairshare 1, QOS normal",
        f"user lab/{ROOT}/{ROOT}": "Fairshare 1, QOS normal",
        "account lab/default": "ParentName root, Fairshare 1, QOS normal",
        "user lab/default/alice": "Fairshare 1, QOS normal",
        "account lab/research": "ParentName root, Fairshare 3, GrpTRES cpu=4,gres/gpu=16, GrpJobs 5, QOS normal,urgent, DefaultQOS urgent",
        "user lab/research/bob": "Fairshare parent, QOS normal,urgent, DefaultQOS urgent",
    }
    found = entries(text("associations", "25.05"))
    assert set(found) == {
        *("account lab/root", f"user lab/{ROOT}/{ROOT}", "account lab/chem_1", "user lab/chem_1/carol@example.org"),
        *("user lab/chem_1/dave-x/gpu", "user lab/chem_1/dave-x/cpu_long"),
    }
    assert "MaxWall 1-00:00:00, MaxJobs 50, MaxSubmitJobs 500" in found["account lab/chem_1"]


def test_qos_are_read():
    found = entries(qos=text("qos", "24.11"))
    assert found["qos normal"] == "Priority 0, GraceTime 00:00:00, PreemptMode cluster, UsageFactor 1.000000"
    assert "MaxWall 1-02:00:00, MaxTRESPerUser gres/gpu=8, MaxJobsPerUser 4" in found["qos urgent"]
    assert "Preempt normal,sparewarmer" in found["qos gpu_debug"] and "MinTRES cpu=1" in found["qos gpu_debug"]


def test_users_and_administrators_are_read():
    listing = text("users", "23.11")
    assert entries(user=listing)["user bob"] == "DefaultAccount research"
    assert read_administrators(listing) == {
        "root": "AdminLevel Administrator",
        "bob": "AdminLevel Operator",
        "carol": "Coordinators chem,physics",
    }


@pytest.mark.parametrize("level", ["", "None", "Not Set"])
def test_ordinary_user_is_no_administrator(level):
    assert read_administrators(EMPTY["user"] + f"eve|physics|{level}|\n") == {}


def test_order_of_lists_is_no_difference():
    one = entries(association("physics", QOS="normal,urgent", GrpTRES="cpu=4,gres/gpu=8"))
    assert one == entries(association("physics", QOS="urgent,normal", GrpTRES="gres/gpu=8,cpu=4"))


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("GrpTRES", "billing=200,cpu=512,fs/lustre=3,gres/gpu:h100=8,license/matlab@db=2,mem=512000M,node=4"),
        ("GrpTRESMins", "cpu=6000000"),
        ("MaxTRES", "mem=1.50T"),
        ("MaxTRES", "gres/gpu:nvidia_h100_80gb_hbm3_3g.40gb=8"),
        ("MaxWall", "365-00:00:00"),
        ("GrpWall", "UNLIMITED"),
        ("Fairshare", "parent"),
        ("Fairshare", "2147483647"),
        ("Priority", "4294967294"),
        ("DefaultQOS", "gpu-long"),
        ("MaxSubmitJobs", "0"),
    ],
)
def test_limit_of_each_form_is_read(column, cell):
    shown = ",".join(sorted(cell.split(","))) if "TRES" in column else cell
    assert f"{column} {shown}" in entries(association("physics", **{column: cell}))["account lab/physics"]


@pytest.mark.parametrize(
    "name", ["physics/EXAMPLE\\eve", "physics/eve@example.org", "physics/eve.müller", "phys:2026/eve", "p-1.2_x/0815", "phys&chem/eve#2"]
)
def test_name_of_each_directory_is_read(name):
    found = entries(association(name))
    assert list(found) == [f"user lab/{name}"]


@pytest.mark.parametrize(
    ("column", "cell"),
    [("Flags", "DenyOnLimit,NoDecay,Relative"), ("PreemptMode", "requeue"), ("Preempt", "gpu:long,low"), ("PreemptMode", "GANG,SUSPEND")],
)
def test_words_of_a_qos_are_read(column, cell):
    assert f"{column} {cell}" in entries(qos=quality("fast", **{column: cell}))["qos fast"]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(("GrpJobs", "ERR!"), ("GrpJobs", "3.35544e+07"), ("GrpTRES", "gres/gpu=many"), ("GrpTRES", "cpu"), ("MaxWall", "soon")),
        *(("MaxWall", "1:2:3:4"), ("Fairshare", "[N/A]"), ("Fairshare", "1,5"), ("Priority", "-"), ("QOS", "\x1b[0m")),
    ],
)
def test_unreadable_limit_is_unknown_for_that_entry(column, cell):
    rows = association("physics", **{column: cell}) + association("chem", GrpJobs="5").partition("\n")[2]
    found = entries(rows)
    assert found["account lab/physics"] == UNREAD and found[UNREAD].startswith("account lab/physics cannot be read: ")
    assert "GrpJobs 5" in found["account lab/chem"]
    was = {"accounting": entries(association("physics", GrpJobs="3") + association("chem", GrpJobs="6").partition("\n")[2])}
    assert [one.subject for one in differences("lab", "login0", was, {"accounting": found})] == ["baseline.accounting account lab/chem"]


CELLS = len(ASSOCIATION)


@pytest.mark.parametrize(
    "row",
    ["lab|physics|", "lab|physics" + "|" * CELLS, "|" * (CELLS - 1), "lab|phys ics!" + "|" * (CELLS - 2), "lab||alice" + "|" * (CELLS - 3)],
    ids=["short", "long", "empty", "odd-name", "no-account"],
)
def test_unreadable_row_hides_no_removal_as_one(row):
    """The row may hold any name: an account that is missing from the others is unknown."""
    was = {"accounting": entries(association("physics"))}
    now = entries(EMPTY["associations"] + row + "\n" + association("chem").partition("\n")[2])
    assert now[UNREAD].startswith("a row of sacctmgr cannot be read: ")
    assert [one.subject for one in differences("lab", "login0", was, {"accounting": now})] == ["baseline.accounting account lab/chem"]


def test_row_with_another_value_is_unknown():
    one, other = association("physics", GrpJobs="3"), association("physics", GrpJobs="4").partition("\n")[2]
    assert entries(one + other)["account lab/physics"] == UNREAD
    assert entries(one + one.partition("\n")[2]) == entries(one)


@pytest.mark.parametrize(
    "listing", ["", "\n", "sacctmgr: error: slurmdbd: connection refused\n", "lab|physics|\n", "Cluster|Account|User\n"]
)
def test_listing_without_titles_is_refused(listing):
    with pytest.raises(ValueError, match="no titles"):
        read_entries({**EMPTY, "associations": listing})


def test_warning_and_line_ends_change_nothing():
    whole = text("associations", "22.05")
    odd = "sacctmgr: warning: can't read TLS config\r\n" + whole.replace("\n", "\r\n")
    assert entries(odd) == entries(whole)


CASES = {
    "added-account": {"account lab/physics": Category.BENIGN},
    "added-user": {"user lab/default/eve": Category.BENIGN, "user eve": Category.BENIGN},
    "added-qos": {"qos fast": Category.BENIGN},
    "changed-limit-of-account": {"account lab/research": Category.BREAKING},
    "changed-limit-of-user": {"user lab/default/alice": Category.BREAKING},
    "changed-limit-of-qos": {"qos urgent": Category.BREAKING},
    "removed-user": {"user lab/research/bob": Category.BREAKING},
    "other-default-account": {"user alice": Category.BREAKING},
}


def changed(case):
    """Return the three listings after a change by hand."""
    associations, qos, user = text("associations", "22.05"), text("qos", "24.11"), text("users", "23.11")
    if case == "added-account":
        associations += association("physics").partition("\n")[2]
    elif case == "added-user":
        associations += association("default/eve").partition("\n")[2]
        user += "eve|default|None|\n"
    elif case == "added-qos":
        qos += quality("fast", Priority="9000").partition("\n")[2]
    elif case == "changed-limit-of-account":
        associations = associations.replace("gres/gpu=16", "gres/gpu=64")
    elif case == "changed-limit-of-user":
        row = association("default/alice").partition("\n")[2]
        associations = associations.replace(row, association("default/alice", MaxJobs="0").partition("\n")[2])
    elif case == "changed-limit-of-qos":
        qos = qos.replace("1-02:00:00", "7-00:00:00")
    elif case == "removed-user":
        associations = "".join(line for line in associations.splitlines(keepends=True) if "bob" not in line)
    else:
        user = user.replace("alice|default", "alice|research")
    return entries(associations, qos, user)


@pytest.mark.parametrize("case", CASES)
def test_change_by_hand_is_named_with_its_category(case):
    was = {"accounting": entries(text("associations", "22.05"), text("qos", "24.11"), text("users", "23.11"))}
    found = list(differences("lab", "login0", was, {"accounting": changed(case)}))
    assert {one.subject.removeprefix("baseline.accounting "): one.category for one in found} == CASES[case]
    assert all("add the account, user or QOS to the stack file" in one.remedy for one in found)


def test_new_administrator_is_a_security_difference():
    was, now = ({"administrators": read_administrators(EMPTY["user"] + f"eve|physics|{level}|\n")} for level in ("None", "Administrator"))
    (only,) = differences("lab", "login0", was, now)
    assert (only.subject, only.category, only.live) == ("baseline.administrators eve", Category.SECURITY, "AdminLevel Administrator")


@pytest.mark.parametrize(
    ("kind", "release", "columns"),
    [
        ("associations", "22.05", "associations"),
        ("associations", "25.05", "associations"),
        ("qos", "24.11", "qos"),
        ("users", "23.11", "user"),
    ],
)
def test_damage_changes_only_the_damaged_entry(kind, release, columns):
    """A damaged name is another name: it is added, and the former one is missing. A truncated listing removes nothing."""
    whole = text(kind, release)
    was = {"accounting": entries(**{columns: whole})}
    for damaged in damages(whole, most=60):
        try:
            now = read_entries({**EMPTY, columns: damaged.text})
        except ValueError:
            assert damaged.line, damaged.what
            continue
        found = list(differences("lab", "login0", was, {"accounting": now}))
        allowed = 0 if not damaged.line else 2 if "->" in damaged.what else 1
        if damaged.what.startswith("cut") and not damaged.text.endswith("\n"):
            allowed = 0
        elif damaged.what.startswith("cut"):
            continue
        assert len(found) <= allowed, (damaged.what, found)


@pytest.mark.parametrize(
    ("running", "suspended", "has_file", "is_asked"),
    [
        (("slurmdbd", "munged", "mariadbd"), {}, True, True),
        (("slurmdbd", "munged", "mysqld"), {}, True, True),
        (("slurmctld", "munged"), {}, True, False),
        (("slurmdbd", "munged"), {}, True, False),
        (("slurmdbd", "mariadbd"), {}, True, False),
        (("slurmdbd", "munged", "mariadbd"), {"mariadb.service": "frozen"}, True, False),
        (("slurmdbd", "munged", "mariadbd"), {}, False, False),
    ],
    ids=["mariadb", "mysql", "controller", "no-database", "no-munge", "frozen", "no-slurm-conf"],
)
def test_accounting_is_queried_only_where_it_responds(monkeypatch, running, suspended, has_file, is_asked):
    listings = {"associations": text("associations", "22.05"), "qos": text("qos", "24.11"), "user": text("users", "23.11")}
    monkeypatch.setattr(host_baseline, "runs", running.__contains__)
    monkeypatch.setattr(host_baseline, "suspended", lambda names: suspended)
    monkeypatch.setattr(host_baseline, "SLURM_CONF", ("/",) if has_file else ())
    asked = {arguments: listings[name] for name, arguments in QUERIES.items()}
    monkeypatch.setattr(host_baseline, "run", lambda *command, strict: asked[command[3:]])
    assert (host_baseline.accounting() is not None, host_baseline.administrators() is not None) == (is_asked, is_asked)


def test_unread_part_keeps_its_baseline():
    was = {"accounting": {"account lab/a": "Fairshare 1", "account lab/b": "Fairshare 1"}, "node": {"life": "1"}}
    now = {"accounting": {"account lab/a": UNREAD, "account lab/c": "Fairshare 2", UNREAD: "a row"}, "node": {"life": "1"}}
    kept = Baseline("old", {"login0": was}).renewed("new", {"login0": now}, (), ())
    assert kept.nodes["login0"]["accounting"] == {**was["accounting"], "account lab/c": "Fairshare 2"}
