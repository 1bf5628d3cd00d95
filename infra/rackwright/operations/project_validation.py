"""Validation of a whole project folder: format, stack files, playbooks and tests. Needs no cloud account, no container and no GPU."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import Final

from rackwright import layout
from rackwright.drivers import ansible, process
from rackwright.drivers.failure_reason import reason_in_output
from rackwright.inventory import site_playbooks
from rackwright.model.finding import Finding, Severity, has_errors
from rackwright.operations import validation
from rackwright.operations.stack import ValidatedStack

_TEXTS: Final = ("stacks/*.yaml", "stacks/*.yml", "site/**/*.yaml", "site/**/*.yml", ".github/workflows/*.yml", "tests/**/*.py")
"""Files of a project whose format is checked."""
_SITE: Final = "site"
_TESTS: Final = "tests"
_PLAYBOOKS_LIMIT_S: Final = 120.0
_TESTS_LIMIT_S: Final = 600.0
"""Time limits; chosen: a run takes seconds, and one that hangs must not block CI for hours."""
_FOR_TESTS: Final = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1", "COLUMNS": "400"}
"""No program finds a GPU, and pytest does not shorten why a test failed."""
_NO_TESTS: Final = 5
"""Exit status of pytest that collected no test."""
_SHOWN: Final = 5
"""Findings about the format of one file; the others follow from the same cause."""
_FAILED_TEST: Final = re.compile(r"(?:FAILED|ERROR) (?P<test>\S+)(?: - (?P<reason>.*))?")


@dataclass(frozen=True, slots=True)
class ValidationStep:
    """Result of one step."""

    name: str
    summary: str
    """What was checked; for a skipped step, why."""
    findings: tuple[Finding, ...] = ()
    skipped: bool = False

    @property
    def ok(self) -> bool:
        """Return whether no finding is an error."""
        return not has_errors(self.findings)


def validate_project(root: Path, on_step: Callable[[ValidationStep], None]) -> tuple[ValidationStep, ...]:
    """Run every step in the project folder, also after one has failed, and report each when it ends."""
    done = []
    for step in (_format, _stacks, _playbooks, _tests):
        done.append(step(root))
        on_step(done[-1])
    return tuple(done)


def _format(root: Path) -> ValidationStep:
    files = sorted({file for pattern in _TEXTS for file in root.glob(pattern) if file.is_file()})
    findings = [finding for file in files for finding in list(_format_findings(file, str(file.relative_to(root))))[:_SHOWN]]
    return ValidationStep("format", _counted(len(files), "file"), tuple(findings))


def _format_findings(file: Path, name: str) -> Iterator[Finding]:
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        yield _error("format", name, "is not UTF-8 text", "save it as UTF-8")
        return
    if text and not text.endswith("\n"):
        yield _error("format", name, "the last line has no line end", "add one")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.endswith("\r"):
            yield _error("format", f"{name}:{number}", "the line ends with CR LF", "save the file with the line ends of Unix (LF)")
        elif line != line.rstrip():
            yield _error("format", f"{name}:{number}", "blanks at the end of the line", "remove them")
        elif "\t" in line[: len(line) - len(line.lstrip())]:
            yield _error("format", f"{name}:{number}", "a tab indents the line", "indent with blanks")


def _stack_files(root: Path) -> list[Path]:
    return sorted(root.glob(f"{layout.STACKS}/Pulumi.*.yaml"))


def _stacks(root: Path) -> ValidationStep:
    files = _stack_files(root)
    if not files:
        return ValidationStep("stacks", f"no stack file in {layout.STACKS}/", skipped=True)
    judged = {file: validation.validate(str(file), online=False).stack for file in files}
    findings = [_placed(finding, file.relative_to(root)) for file, stack in judged.items() for finding in stack.findings]
    return ValidationStep("stacks", ", ".join(_described(stack) for stack in judged.values()), tuple(findings))


def _described(judged: ValidatedStack) -> str:
    return f"{judged.loaded.stack} ({'valid' if judged.ok else 'invalid'})"


def _placed(finding: Finding, file: Path) -> Finding:
    """Return a finding about a stack file with the name of the file."""
    return finding if finding.path.startswith(str(file)) else replace(finding, path=f"{file}: {finding.path}")


def _playbooks(root: Path) -> ValidationStep:
    """Run ansible-lint where it is installed, else Ansible's own check of syntax."""
    playbooks = _site_playbooks(root)
    if not playbooks:
        return ValidationStep("playbooks", f"no playbook in {_SITE}/", skipped=True)
    linter = which("ansible-lint")
    findings = _lint(linter, root) if linter else _syntax(root, playbooks)
    used = "ansible-lint" if linter else "syntax only: ansible-lint is not installed"
    return ValidationStep("playbooks", f"{_counted(len(playbooks), 'playbook')} ({used})", tuple(findings))


def _site_playbooks(root: Path) -> list[str]:
    """Return the playbooks directly in `site/`, and those that a stack file names and that exist."""
    clusters = [validation.validate(str(file), online=False).stack.loaded.cluster for file in _stack_files(root)]
    named = {book for cluster in clusters if cluster for books in site_playbooks.listed(cluster).values() for book in books}
    found = {str(file.relative_to(root)) for ending in ("yml", "yaml") for file in root.glob(f"{_SITE}/*.{ending}")}
    return sorted(found | {book for book in named if (root / book).is_file()})


def _lint(linter: str, root: Path) -> Iterator[Finding]:
    ended = _run([linter, "--offline", "--nocolor", "--parseable", _SITE], root, _PLAYBOOKS_LIMIT_S)
    for line in ended.stdout.splitlines() if not ended.ok else ():
        place, _, cause = line.partition(": ")
        yield _error("playbooks", place, cause or "ansible-lint failed", f"run `ansible-lint --offline {_SITE}`")
    if not ended.ok and not ended.stdout.strip():
        yield _error("playbooks", _SITE, reason_in_output(ended.stderr), f"run `ansible-lint --offline {_SITE}`")


def _syntax(root: Path, playbooks: list[str]) -> Iterator[Finding]:
    """Check all playbooks at once, and each of them only if that fails."""
    if _checked(root, playbooks).ok:
        return
    for playbook in playbooks:
        ended = _checked(root, [playbook])
        if not ended.ok:
            hint = f"run `ansible-playbook --syntax-check {playbook}`"
            yield _error("playbooks", playbook, reason_in_output(ended.stderr or ended.stdout), hint)


def _checked(root: Path, playbooks: list[str]) -> process.CompletedProcess:
    command = [sys.executable, "-m", "ansible.cli.playbook", "--syntax-check", "--inventory", "localhost,", *playbooks]
    return _run(command, root, _PLAYBOOKS_LIMIT_S, {**ansible.environment(layout.product_root()), "ANSIBLE_STRATEGY": "linear"})


def _tests(root: Path) -> ValidationStep:
    if root == layout.product_root():
        return ValidationStep("tests", "this is a checkout of rackwright, whose tests run with `make unit`", skipped=True)
    if not any((root / _TESTS).glob("**/test_*.py")):
        return ValidationStep("tests", f"no test in {_TESTS}/", skipped=True)
    marker = "markers=gpu: needs a GPU; `rackwright validate` leaves it out"
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--no-header", "-p", "no:cacheprovider", "-o", marker, "-m", "not gpu", _TESTS]
    ended = _run(command, root, _TESTS_LIMIT_S, {**os.environ, **_FOR_TESTS})
    last = next((line for line in reversed(ended.stdout.splitlines()) if line.strip()), "")
    if ended.status in (0, _NO_TESTS):
        return ValidationStep("tests", last.strip("= "))
    return ValidationStep("tests", last.strip("= "), tuple(_failed_tests(ended)))


def _failed_tests(ended: process.CompletedProcess) -> Iterator[Finding]:
    hint = f"run `{Path(sys.executable).name} -m pytest {_TESTS}`"
    found = [match for line in ended.stdout.splitlines() if (match := _FAILED_TEST.match(line))]
    for match in found:
        yield _error("tests", match["test"], match["reason"] or "failed", hint)
    if not found:
        yield _error("tests", _TESTS, reason_in_output(ended.stderr or ended.stdout), hint)


def _run(command: list[str], root: Path, limit_s: float, environment: dict[str, str] | None = None) -> process.CompletedProcess:
    """Run a program in the project folder; one that exceeds its time is a failure with the time as its reason."""
    placed = ["env", f"--chdir={root}", *command]
    try:
        return asyncio.run(process.run(placed, timeout=limit_s, env=environment))
    except process.ProcessTimeoutError:
        return process.CompletedProcess(tuple(command), 124, "", f"no end after {limit_s:.0f} s")


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _error(rule: str, path: str, cause: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, rule, path, cause, hint)


def errors_of(steps: Iterable[ValidationStep]) -> int:
    """Return the number of errors of all steps."""
    return sum(finding.is_error for step in steps for finding in step.findings)
