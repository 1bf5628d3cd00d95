"""Tags of target `aws`, within AWS's limits.

Source of every limit: EC2 user guide, Tag your Amazon EC2 resources (tag restrictions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rackwright.rules.aws.groups import target
from rackwright.rules.registry import RuleContext, Violation, rule

_LONGEST_KEY: Final = 128
_LONGEST_VALUE: Final = 256
"""Characters (AWS Billing user guide: User-defined tag restrictions)."""
_MOST: Final = 40
"""AWS allows 50 on a resource; rackwright reserves ten for its own and for those that AWS services add."""
_LETTERS: Final = re.compile(r"[\w .:/=+@-]*")
_OWN: Final = ("rackwright.", "rackwright:")


def _tags(case: RuleContext) -> dict[str, str]:
    here = target(case)
    return here.tags if here else {}


@rule("tag-reserved")
def tag_reserved(case: RuleContext) -> Iterator[Violation]:
    """AWS reserves some keys, and rackwright identifies its resources by others."""
    for key in _tags(case):
        if key.lower().startswith("aws:"):
            yield Violation(f"target.tags.{key}", "keys that begin with `aws:` are reserved by AWS", "choose another key")
        elif key.startswith(_OWN) or key == "Name":
            yield Violation(f"target.tags.{key}", f"rackwright sets `{key}` itself", "choose another key")


@rule("tag-length")
def tag_length(case: RuleContext) -> Iterator[Violation]:
    """AWS refuses longer keys and values."""
    for key, value in _tags(case).items():
        for what, text, most in (("key", key, _LONGEST_KEY), ("value", value, _LONGEST_VALUE)):
            if len(text) > most:
                yield Violation(f"target.tags.{key}", f"its {what} has {len(text)} characters", f"use at most {most}")
        if not key:
            yield Violation("target.tags", "a tag has no key", "add a key, or remove the tag")


@rule("tag-characters")
def tag_characters(case: RuleContext) -> Iterator[Violation]:
    """Characters that every service accepts: letters, digits, spaces and + - = . _ : / @."""
    for key, value in _tags(case).items():
        if not (_LETTERS.fullmatch(key) and _LETTERS.fullmatch(value)):
            yield Violation(
                f"target.tags.{key}", "has characters that not every service accepts", "use letters, digits, spaces and + - = . _ : / @"
            )


@rule("tag-count")
def tag_count(case: RuleContext) -> Iterator[Violation]:
    """AWS refuses more tags."""
    if len(_tags(case)) > _MOST:
        yield Violation("target.tags", f"{len(_tags(case))} tags", f"use at most {_MOST}: AWS accepts 50, of which rackwright reserves 10")
