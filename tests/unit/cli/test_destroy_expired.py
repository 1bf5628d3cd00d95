"""`rackwright destroy-expired` destroys expired stacks, keeps others, and reports unknown expiries. Pulumi is a stand-in."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from rackwright.cli import main
from rackwright.errors import UndeterminedError
from rackwright.operations import expired_stacks
from rackwright.operations.expired_stacks import ExpiryOutcome, PulumiOutput, destroy_expired

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
LONG_AGO = "2020-01-01T08:00:00"
PAST, FUTURE = "2026-12-01T11:59:59", "2026-12-01T12:00:01"


@dataclass
class Engine:
    """Stacks by name with their outputs, and the requested actions."""

    stacks: dict[str, dict[str, object] | None]
    broken: frozenset[str] = frozenset()
    interrupted: frozenset[str] = frozenset()
    destroyed: list[str] = field(default_factory=list)

    def __call__(self, *arguments: str, shown: bool = False) -> PulumiOutput:
        """One `pulumi`."""
        match arguments:
            case ("stack", "ls", "--json"):
                rows = [
                    {"name": f"organization/rackwright/{name}", "resourceCount": 0 if outputs is None else 7}
                    for name, outputs in self.stacks.items()
                ]
                return PulumiOutput(0, json.dumps(rows), "")
            case ("stack", "output", "--json", "--stack", name):
                outputs = self.stacks[name]
                return (
                    PulumiOutput(255, "", "warning: old\nerror: incorrect passphrase\n")
                    if name == "locked"
                    else PulumiOutput(0, json.dumps(outputs), "")
                )
            case ("destroy", "--stack", name, "--yes", "--skip-preview"):
                assert shown, "the progress of a destroy is shown"
                self.destroyed.append(name)
                if name in self.interrupted:
                    return PulumiOutput(130, "", "", was_interrupted=True)
                return PulumiOutput(255 if name in self.broken else 0, "", "")
        raise AssertionError(arguments)


def fates(engine: Engine, *, dry_run: bool = False) -> dict[str, ExpiryOutcome]:
    """The result for each stack."""
    return {one.stack: one.outcome for one in destroy_expired(engine, NOW, dry_run=dry_run)}


def test_a_stack_whose_time_is_over_ends_and_the_others_stay() -> None:
    engine = Engine({"old": {"expires": PAST}, "young": {"expires": FUTURE}, "lab": {"verdict": "passed"}})
    assert fates(engine) == {"old": ExpiryOutcome.DESTROYED, "young": ExpiryOutcome.NOT_EXPIRED, "lab": ExpiryOutcome.NO_EXPIRY}
    assert engine.destroyed == ["old"]


def test_the_end_is_in_utc_whatever_zone_the_machine_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ8")
    time.tzset()
    engine = Engine({"a": {"expires": PAST}, "b": {"expires": "2026-12-01T13:30:00+02:00"}, "c": {"expires": FUTURE}})
    try:
        assert list(fates(engine).values()) == [ExpiryOutcome.DESTROYED, ExpiryOutcome.DESTROYED, ExpiryOutcome.NOT_EXPIRED]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_dry_run_ends_nothing() -> None:
    engine = Engine({"old": {"expires": PAST}})
    assert fates(engine, dry_run=True) == {"old": ExpiryOutcome.WOULD_DESTROY}
    assert engine.destroyed == []


def test_a_stack_without_resources_is_gone_already() -> None:
    assert fates(Engine({"gone": None})) == {}


def test_a_failure_spares_no_other() -> None:
    engine = Engine({"a": {"expires": PAST}, "b": {"expires": PAST}}, broken=frozenset({"a"}))
    assert fates(engine) == {"a": ExpiryOutcome.FAILED, "b": ExpiryOutcome.DESTROYED}


@pytest.mark.parametrize("expires", ["tomorrow", 17, None])
def test_an_end_that_cannot_be_read_is_unknown(expires: object) -> None:
    assert fates(Engine({"odd": {"expires": expires}})) == {"odd": ExpiryOutcome.UNKNOWN}


def test_outputs_that_cannot_be_read_are_unknown_with_the_engine_s_reason() -> None:
    (one,) = destroy_expired(Engine({"locked": {}}), NOW, dry_run=False)
    assert (one.outcome, one.reason) == (ExpiryOutcome.UNKNOWN, "incorrect passphrase")


@pytest.mark.parametrize("said", [PulumiOutput(255, "", "error: no backend"), PulumiOutput(0, "not json", "")])
def test_without_a_list_of_stacks_nothing_can_be_told(said: PulumiOutput) -> None:
    with pytest.raises(UndeterminedError, match="pulumi stack ls"):
        list(destroy_expired(lambda *_, **__: said, NOW, dry_run=False))


@pytest.mark.parametrize(
    ("stacks", "broken", "code", "words"),
    [
        ({"old": {"expires": LONG_AGO}}, (), 0, "old: destroyed; expired at 2020-01-01 08:00 UTC\n"),
        ({"lab": {}}, (), 0, "lab: has no recorded expiry\n"),
        ({}, (), 0, "the backend has no stack with resources\n"),
        ({"old": {"expires": LONG_AGO}}, ("old",), 1, "but `pulumi destroy` failed: exit code 255, see above\n"),
        ({"old": {"expires": LONG_AGO}, "locked": {}}, ("old",), 3, "locked: expiry unknown: incorrect passphrase\n"),
    ],
)
def test_exit_codes_and_words(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stacks: dict[str, dict[str, object] | None],
    broken: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """Unknown ranks above failed."""
    monkeypatch.setattr(expired_stacks, "run_pulumi", Engine(stacks, frozenset(broken)))
    monkeypatch.setattr(sys, "argv", ["rackwright", "destroy-expired"])
    with pytest.raises(SystemExit) as ended:
        main.app()
    assert (ended.value.code or 0) == code
    assert words in capsys.readouterr().out


def test_the_same_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(expired_stacks, "run_pulumi", Engine({"old": {"expires": LONG_AGO}}))
    monkeypatch.setattr(sys, "argv", ["rackwright", "destroy-expired", "--dry-run", "--json"])
    with pytest.raises(SystemExit):
        main.app()
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "schema": "rackwright.destroy-expired/1",
        "stacks": [{"stack": "old", "outcome": "would-destroy", "expires": "2020-01-01T08:00:00+00:00", "reason": ""}],
    }


def test_interrupted_destroy_is_the_last_one() -> None:
    engine = Engine({"old": {"expires": PAST}, "older": {"expires": PAST}}, interrupted=frozenset({"old"}))
    (one,) = destroy_expired(engine, NOW, dry_run=False)
    assert one.outcome == ExpiryOutcome.FAILED and "interrupted" in one.reason
    assert engine.destroyed == ["old"]
