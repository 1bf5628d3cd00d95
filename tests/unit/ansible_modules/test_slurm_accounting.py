"""rackwright_slurm_accounting: what it adds, against a sacctmgr that answers from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.modules import rackwright_slurm_accounting as accounting

# As printed by 24.11.5.
EMPTY = ""
REGISTERED = "lab|root|\nlab|root|root\n"
COMPLETE = "lab|root|\nlab|root|root\nlab|default|\nlab|default|alice\nlab|default|bob\n"
ASKED = {"cluster": "lab", "account": "default", "users": ["alice", "bob"]}


@pytest.fixture
def sacctmgr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sacctmgr that prints `answer` and notes what it was told to add in `said`."""
    program = tmp_path / "sacctmgr"
    program.write_text(f'#!/bin/sh\ncase $1 in --noheader) cat {tmp_path}/answer ;; *) echo "$@" >>{tmp_path}/said ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def said(folder: Path) -> list[str]:
    """What was added, as sacctmgr heard it."""
    return (folder / "said").read_text().splitlines() if (folder / "said").exists() else []


@pytest.mark.parametrize(
    ("answer", "added", "words"),
    [
        (
            EMPTY,
            ["cluster lab", "account default", "user alice, user bob"],
            ["cluster lab", "account default cluster=lab", "user alice,bob"],
        ),
        (REGISTERED, ["account default", "user alice, user bob"], ["account default cluster=lab", "user alice,bob"]),
        (COMPLETE.replace("lab|default|bob\n", ""), ["user bob"], ["user bob account=default cluster=lab"]),
        (
            COMPLETE.replace("lab|", "other|") + REGISTERED,
            ["account default", "user alice, user bob"],
            ["account default", "user alice,bob"],
        ),
        (COMPLETE, [], []),
    ],
    ids=["nothing is there", "the cluster registered itself", "a user is new", "another cluster has them", "all is there"],
)
def test_adds_what_is_missing(run: Any, sacctmgr: Path, answer: str, added: list[str], words: list[str]) -> None:
    (sacctmgr / "answer").write_text(answer)
    told = run(accounting, ASKED, diff=True)
    assert told["added"] == added
    assert told["changed"] is bool(added)
    heard = said(sacctmgr)
    assert len(heard) == len(words)
    assert all(line.startswith(f"--immediate --quiet add {start}") for line, start in zip(heard, words, strict=True))


def test_check_mode_only_tells(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "answer").write_text(REGISTERED)
    told = run(accounting, ASKED, check=True)
    assert told["changed"] and told["added"] == ["account default", "user alice, user bob"]
    assert said(sacctmgr) == []


def test_names_are_lower_case_in_the_accounting(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "answer").write_text(COMPLETE)
    assert not run(accounting, {"cluster": "Lab", "account": "Default", "users": ["Alice"]})["changed"]


def test_a_database_that_is_away_is_an_error(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "sacctmgr").write_text("#!/bin/sh\necho 'sacctmgr: error: Sending PersistInit msg: Connection refused' >&2; exit 1\n")
    told = run(accounting, ASKED)
    assert told["failed"]
    assert "Connection refused" in told["msg"] and "journalctl -u slurmdbd" in told["msg"]
    assert run(accounting, ASKED, check=True)["changed"]


def test_other_output_is_an_error(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "answer").write_text("lab|root\n")
    told = run(accounting, ASKED)
    assert told["failed"] and "has its output format changed" in told["msg"]
