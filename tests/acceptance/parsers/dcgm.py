"""What `dcgmi diag` prints: JSON of DCGM 3 and 4, and the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from rackwright.errors import CouldNotTell


class Status(StrEnum):
    """How one test of the diagnostic ended."""

    PASS = "Pass"
    FAIL = "Fail"
    WARN = "Warn"
    SKIP = "Skip"
    NOT_RUN = "Not Run"


@dataclass(frozen=True, slots=True)
class Test:
    """One test on one GPU; `gpu` is None where the test is about the node."""

    name: str
    gpu: int | None
    status: Status
    said: str
    """Its warnings, in one line."""


_NAMES: Final = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""The key in DCGM 4 and in DCGM 3."""


def parse(text: str) -> tuple[Test, ...]:
    """All tests, from either form. CouldNotTell where there are none."""
    tests = tuple(_from_json(text) if "{" in text else _from_table(text))
    if not tests:
        said = " ".join(text.split())[:120]
        raise CouldNotTell(f"dcgmi diag gave no result: {said or 'it printed nothing'}")
    return tests


def _from_json(text: str) -> Iterator[Test]:
    try:
        document = json.loads(text[text.index("{") :])
    except ValueError as error:
        raise CouldNotTell(f"the JSON of dcgmi diag is cut short: {error}") from None
    body = next((document[name] for name in _NAMES if name in document), None)
    if body is None:
        raise CouldNotTell(f"this is no output of dcgmi diag: {', '.join(document)}")
    if body.get("runtime_error"):
        raise CouldNotTell(f"dcgmi diag: {body['runtime_error']}")
    for category in body.get("test_categories", ()):
        for test in filter(None, category["tests"]):
            for result in test["results"]:
                for gpu in _gpus(result):
                    yield Test(test["name"], gpu, _status(result["status"]), _warnings(result))


def _gpus(result: Mapping[str, Any]) -> tuple[int | None, ...]:
    """DCGM 4 names an entity of a group; DCGM 3 a GPU, or several with commas."""
    if "entity_id" in result:
        return (int(result["entity_id"]) if result.get("entity_group") == "GPU" else None,)
    return _numbers(str(result.get("gpu_id", result.get("gpu_ids", ""))))


def _numbers(text: str) -> tuple[int | None, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)) or (None,)


def _warnings(result: Mapping[str, Any]) -> str:
    warnings = result.get("warnings") or ()
    if isinstance(warnings, str):
        return warnings
    return "; ".join(str(each.get("warning", each)) if isinstance(each, Mapping) else str(each) for each in warnings)


def _status(word: str) -> Status:
    """A word of DCGM; CouldNotTell for one that is not known."""
    for status in Status:
        if word.strip().lower() in (status.value.lower(), f"{status.value.lower()}ped"):
            return status
    raise CouldNotTell(f"dcgmi diag says {word!r}, which is none of {', '.join(Status)}")


_LINE: Final = re.compile(r"^\|([^|]*)\|([^|]*)\|$")
_VERDICT: Final = re.compile(r"(?:GPU(\d+): )?(Pass|Fail|Warn|Skip|Not Run)(?: - (?:GPUs?: ([\d, ]+)|All|(.*)))?", re.IGNORECASE)
_WIDTH: Final = 45
"""Characters of a cell; longer text goes on in the next line, also in the middle of a word."""


def _from_table(text: str) -> Iterator[Test]:
    """Rows of the table; it must have come to its last rule."""
    if "| Diagnostic" not in text:
        return
    if not re.fullmatch(r"\+-+\+-+\+", text.rstrip().splitlines()[-1]):
        raise CouldNotTell("the table of dcgmi diag is cut short")
    name, tests = "", list[Test]()
    for line in text.splitlines():
        found = _LINE.match(line.strip())
        if not found or found.group(1).startswith("---"):
            continue
        title, cell = found.group(1).strip(), found.group(2)[1 : _WIDTH + 1]
        verdict = _VERDICT.fullmatch(cell.strip())
        if verdict:
            yield from _tidy(tests)
            name = title or name
            one, word, several, more = verdict.groups()
            tests = [Test(name, gpu, _status(word), more or "") for gpu in _numbers(one or several or "")]
        elif tests and title in ("", "Warning", "Error"):
            tests = [Test(each.name, each.gpu, each.status, f"{each.said}{cell}") for each in tests]
    yield from _tidy(tests)


def _tidy(tests: list[Test]) -> list[Test]:
    return [Test(each.name, each.gpu, each.status, each.said.strip()) for each in tests]
