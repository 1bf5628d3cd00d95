"""docs/reference/rules.md: every rule of `rackwright validate`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rackwright.rules import RULES, Rule
from reference.markdown import cell, head, table

_TEXT: Final = """`rackwright validate STACK` and every `rackwright up` check a stack file with these rules, in addition to the type
of each [key](stack-file.md). A finding names the rule, the path in the stack file, the cause and a hint. An error
refuses the stack file; a warning does not.
"""


def page() -> str:
    """Return the whole page."""
    subjects = groupby(sorted(RULES.values(), key=_subject), key=_subject)
    return "\n".join(
        [head("Rules", "the rules of the package", _TEXT), *(line for name, rules in subjects for line in _section(name, rules))]
    )


def _subject(rule: Rule) -> str:
    return rule.check.__module__.rpartition(".")[2].replace("_", " ")


def _section(subject: str, rules: Iterator[Rule]) -> Iterator[str]:
    yield from (f"## {subject}", "")
    yield from table(("rule", "level", "reason"), ((f"`{rule.name}`", _level(rule), cell(_reason(rule))) for rule in rules))


def _level(rule: Rule) -> str:
    return rule.level.value + (f", during `up` {rule.level_on_deploy.value}" if rule.level_on_deploy else "")


def _reason(rule: Rule) -> str:
    """Return the first paragraph of the rule's docstring. Raises ValueError if there is none."""
    if not rule.check.__doc__:
        raise ValueError(f"rule {rule.name} has no docstring")
    return rule.check.__doc__.split("\n\n")[0]
