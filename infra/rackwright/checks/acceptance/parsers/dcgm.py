"""Output of `dcgmi diag`: JSON of DCGM 3 and 4, and the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from rackwright.checks.cluster.harness.tool_output import is_absent, refusing
from rackwright.errors import UndeterminedError


class Status(StrEnum):
    """How one test of the diagnostic ended."""

    PASS = "Pass"
    FAIL = "Fail"
    WARN = "Warn"
    SKIP = "Skip"
    NOT_RUN = "Not Run"
    UNREAD = "UnreadableValue"
    """The result is missing, or its status is not a known word."""


@dataclass(frozen=True, slots=True)
class Test:
    """One test on one GPU; `gpu` is None where the test is about the node."""

    name: str
    gpu: int | None
    status: Status
    message: str
    """Warnings and errors in one line; the status as DCGM prints it if it is none of those above."""
    category: str = ""
    """Deployment, Integration, Hardware or Stress; empty for an error of the whole run."""


_NAMES: Final = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""The key in DCGM 4 and in DCGM 3."""


@refusing("dcgmi diag")
def parse(text: str) -> tuple[Test, ...]:
    """Return all tests, from either form. Raises UndeterminedError if there are none."""
    tests = tuple(_from_json(text) if "{" in text else _from_table(text))
    if not tests:
        excerpt = " ".join(text.split())[:120]
        raise UndeterminedError(f"dcgmi diag gave no result: {excerpt or 'it printed nothing'}")
    return tests


def _from_json(text: str) -> Iterator[Test]:
    try:
        document, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
    except ValueError as error:
        raise UndeterminedError(f"the JSON of dcgmi diag is cut short: {error}") from None
    body = next((document[name] for name in _NAMES if name in document), None)
    if body is None:
        raise UndeterminedError(f"not output of dcgmi diag: {', '.join(document)}")
    if why := body.get("runtime_error") or document.get("runtime_error"):
        raise UndeterminedError(f"dcgmi diag: {why}")
    for category in _listed(body, "test_categories"):
        for test in _listed(category, "tests"):
            yield from _of_test(test, str(category.get("category") or ""))
        yield from _of_run(category)
    yield from _of_run(body)
    yield from _of_run(document)


def _of_run(body: Mapping[str, Any]) -> Iterator[Test]:
    """Yield the warnings and errors that belong to no result: of the whole run, of a category or of a test."""
    if warnings := _warnings(body):
        yield Test(str(body.get("category") or body.get("name") or "dcgmi diag"), None, Status.WARN, warnings)


def _of_test(test: Mapping[str, Any], category: str) -> Iterator[Test]:
    """Yield the results of one test, and its summary if that is worse."""
    name, found = str(test.get("name") or "a test without a name"), list[Test]()
    for result in _listed(test, "results"):
        warnings = _warnings(result)
        status, word = _status(result.get("status"), warnings)
        found += [Test(name, gpu, status, warnings or word, category) for gpu in _gpus(result)]
    yield from found
    summary = test.get("test_summary")
    if isinstance(summary, Mapping) or not found:
        summary = summary if isinstance(summary, Mapping) else {}
        warnings = _warnings(summary)
        status, word = _status(summary.get("status"), warnings)
        if not found or (status in BAD and not {each.status for each in found} & BAD):
            yield Test(name, None, status, warnings or word, category)
    yield from (replace(each, category=category) for each in _of_run(test))


def _listed(row: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list; an element that is no object becomes an empty one."""
    found = row.get(key) or ()
    return [each if isinstance(each, Mapping) else {} for each in found if each is not None] if isinstance(found, list) else []


def _gpus(result: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Return the GPUs of a result: DCGM 4 names an entity of a group; DCGM 3 a GPU, or several with commas."""
    if "entity_id" in result:
        number = str(result["entity_id"])
        return (int(number) if result.get("entity_group") == "GPU" and number.isdigit() else None,)
    return _numbers(str(result.get("gpu_id", result.get("gpu_ids", ""))))


def _numbers(text: str) -> tuple[int | None, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)) or (None,)


_TROUBLE: Final = re.compile(r"warning|error", re.IGNORECASE)
"""Keys of warnings and errors: `warnings`, and `Warning` beside the whole document (DCGM 4, NvvsJsonStrings.h)."""


def _warnings(result: Mapping[str, Any]) -> str:
    """Return warnings and errors of a result, whatever the keys of their list and text. A number is a code of one, not its text."""
    found = list[str]()
    for entries in (value for key, value in result.items() if _TROUBLE.search(key) and not isinstance(value, int | float)):
        for each in entries if isinstance(entries, list) else (entries,) if entries else ():
            text = each.get("warning") or each.get("error") or each.get("message") if isinstance(each, Mapping) else None
            found.append(str(text or each))
    return "; ".join(found)


BAD: Final = frozenset({Status.FAIL, Status.WARN})
_BEGINNINGS: Final = {
    "pass": Status.PASS,
    "fail": Status.FAIL,
    "warn": Status.WARN,
    "skip": Status.SKIP,
    "not run": Status.NOT_RUN,
    "not_run": Status.NOT_RUN,
    "notrun": Status.NOT_RUN,
}


def _status(value: object, warnings: str) -> tuple[Status, str]:
    """Return the status, and the word if it is not one of DCGM's: such a word counts as a failure.

    A test that passed with a warning did not run completely.
    """
    word = str(value or "").strip()
    if not word or is_absent(word) or not re.search(r"[A-Za-z]", word):
        return (Status.WARN if warnings else Status.UNREAD), word
    status = _known(word)
    if status is Status.PASS and warnings:
        return Status.WARN, ""
    return (Status.FAIL, word) if status is None else (status, "")


def _known(word: str) -> Status | None:
    """Return the status of a word of DCGM, in whatever form; None for another word."""
    return next((found for start, found in _BEGINNINGS.items() if word.strip().lower().startswith(start)), None)


_LINE: Final = re.compile(r"^\|([^|]*)\|([^|]*)\|$")
_VERDICT: Final = re.compile(r"(?:GPU(\d+): )?([A-Z][A-Za-z]*(?: Run)?)(?: - (?:GPUs?: ([\d, ]+)|All|(.*)))?")
_WIDTH: Final = 45
"""Width of a cell in characters; longer text continues on the next line, also in the middle of a word."""


def _from_table(text: str) -> Iterator[Test]:
    """Yield the tests of the table, which must be complete up to its last rule."""
    if "| Diagnostic" not in text:
        return
    table = [line.strip() for line in text.splitlines() if line.strip().startswith(("|", "+"))]
    if not re.fullmatch(r"\+-+\+-+\+", table[-1]):
        raise UndeterminedError("the table of dcgmi diag is cut short")
    name, section, tests, remark = "", "", list[Test](), ""
    for line in text.splitlines():
        heading, found = _SECTION.match(line.strip()), _LINE.match(line.strip())
        if heading:
            yield from _tidy(tests)
            section, tests, remark = heading.group(1).strip(), [], ""
        if heading or not found or section == "Metadata":
            continue
        title, cell = found.group(1).strip(), found.group(2)[1 : _WIDTH + 1]
        said = title.partition(":")[0]
        if (title, cell.strip()) == ("Diagnostic", "Result"):
            continue
        verdict = None if said in _REMARKS else _VERDICT.fullmatch(cell.strip())
        if verdict and (title or verdict[1] or _known(verdict[2]) is not None):
            yield from _tidy(tests)
            name, remark = title or name, ""
            one, word, several, more = verdict.groups()
            status, other = _status(word, "")
            tests = [Test(name, gpu, status, more or other, section) for gpu in _numbers(one or several or "")]
        elif said in _REMARKS or not title:
            remark = said or remark
            if remark in _OF_SECTION and not tests:  # no test of the section ran
                tests = [Test(section or "dcgmi diag", None, _OF_SECTION[remark], "", section)]
            tests = [
                each if remark == "Info" else replace(each, status=_warned(each.status), message=f"{each.message}{cell}") for each in tests
            ]
        elif section:
            yield from _tidy(tests)
            tests = [Test(title, None, Status.UNREAD, cell.strip(), section)]
    yield from _tidy(tests)


_SECTION: Final = re.compile(r"^[|+]-----\s+(\S.*?)\s+-")
_REMARKS: Final = ("Warning", "Error", "Info")
"""Titles of the lines below a test that hold details of its verdict."""


_OF_SECTION: Final = {"Warning": Status.WARN, "Error": Status.FAIL}
"""Statuses of a section that begins with a remark, in place of its tests: `| Error | GPU 3 has … row remappings are pending |` (DCGM 2 and
3, a node with XID 64)."""


def _warned(status: Status) -> Status:
    return Status.WARN if status is Status.PASS else status


def _tidy(tests: list[Test]) -> list[Test]:
    return [replace(each, message=each.message.strip()) for each in tests]
