"""Findings as text: all of them for `make doctor`, errors and warnings for `make up`, and one block of commands."""

from __future__ import annotations

from collections.abc import Iterable

from bootstrap.machine_checks.finding import Finding, Group, Level, at_least

_WORDS = {Level.OK: "ok", Level.INFO: "info", Level.UNKNOWN: "unknown", Level.WARNING: "warning", Level.ERROR: "error"}


def format_groups(groups: Iterable[Group]) -> list[str]:
    """Format every finding, one line for each without a problem."""
    lines = []
    for group in groups:
        lines.append(f"{group.title}:")
        for finding in group.findings:
            lines += format_finding(finding)
        lines.append("")
    return lines


def format_finding(finding: Finding) -> list[str]:
    """Format one finding: the message, the reason, the commands, further steps."""
    lines = [f"  {_WORDS[finding.level]:8} {finding.subject}: {finding.found}"]
    if finding.reason:
        lines.append(f"           {finding.reason}")
    lines += [f"             {command}" for command in finding.commands]
    if finding.then:
        lines.append(f"           {finding.then}")
    return lines


def format_problems(groups: Iterable[Group]) -> list[str]:
    """Format errors and warnings, errors first."""
    findings = at_least(tuple(finding for group in groups for finding in group.findings), Level.WARNING)
    return [line for finding in findings for line in format_finding(finding)]


def has_errors(groups: Iterable[Group]) -> bool:
    """Return whether an error forbids creating anything."""
    return any(finding.level is Level.ERROR for group in groups for finding in group.findings)


def commands_for_root(groups: Iterable[Group], installs: Iterable[str]) -> list[str]:
    """Return every command that needs an administrator, each once: those of packages, of errors, then of warnings."""
    findings = at_least(tuple(finding for group in groups for finding in group.findings), Level.WARNING)
    repairs = (command for finding in findings for command in finding.commands if is_repair(command))
    unique = list(dict.fromkeys([*installs, *repairs]))
    # A restart ends the block, so that nothing may follow it.
    return [line for line in unique if line != "sudo reboot"] + [line for line in unique if line == "sudo reboot"]


def is_repair(command: str) -> bool:
    """Return whether the command changes the machine as root; `sudo make` and `sudo ss` do not."""
    first = command.replace("| sudo tee", "sudo tee")
    return ("sudo " in first) and not first.startswith(("sudo make ", "sudo ss "))


def format_block(commands: list[str], user: str, may_sudo: bool) -> list[str]:
    """Format the commands as one block that can be pasted."""
    if not commands:
        return []
    who = "Run" if may_sudo else f"{user} cannot use sudo here. Ask an administrator of this machine to run"
    return [f"{who} these commands, then run make again:", "", *commands, ""]
