"""Words that strings for users must not contain, and the files to which the list does not apply."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
EXEMPT: Final = Path(__file__).with_name("exempt.txt")
WORDS: Final = {
    "told": "reported, printed, passed",
    "nobody": "name the actor, or use the passive",
    "somebody": "name the actor: the user, an administrator, another process",
    "someone": "name the actor: the user, an administrator, another process",
    "whoever": "the user who, the process that",
    "anew": "again",
    "looked": "scanned, queried, read",
    "stranger": "unmanaged resource, external host, unknown member",
    "strangers": "unmanaged resources, external hosts, unknown members",
    "anybody": "name the actor: any user, every client",
    "everybody": "name the actor: all users, every process",
    "speaks": "uses the schema or protocol",
    "says nothing": "prints nothing, does not respond, proves nothing",
    "said nothing": "printed nothing, did not respond",
    "came to its end": "finished",
    "come to its end": "finish",
    "goes on from": "continues",
    "put right": "repair",
    "give back": "return to service, release",
    "gives back": "returns to service, releases",
    "given back": "returned to service, released",
}
_WORD: Final = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
_CODE: Final = re.compile(r"`[^`]*`|C\([^)]*\)|[\"']nobody[\"']|\bnobody(?=[:@]|,\S)|(?<=[Uu]ser )nobody")
"""Code in Markdown and in Ansible's documentation, and the account `nobody` in configuration and output."""
_STRINGS: Final = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@dataclass(frozen=True)
class Use:
    """One use of a listed word."""

    file: str
    line: int
    word: str

    def __str__(self) -> str:
        return f'{self.file}:{self.line}: write something else than "{self.word}": {WORDS[self.word.lower()]}'


def patterns() -> list[str]:
    """Return the patterns of the files that are not checked, in the notation of fnmatch; `!` excludes files from them."""
    lines = (line.split("#")[0].strip() for line in EXEMPT.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def is_exempt(file: str, lines: Iterable[str]) -> bool:
    """Whether the last pattern that matches the file has no `!`."""
    matching = [line for line in lines if fnmatch(file, line.removeprefix("!"))]
    return bool(matching) and not matching[-1].startswith("!")


def uses(file: str, text: str) -> list[Use]:
    """Return every use of a listed word: in the strings of Python, in the text of Markdown outside of code, in all other lines."""
    if file.endswith(".py"):
        lines = _python(text)
    elif file.endswith(".md"):
        lines = _markdown(text)
    else:
        lines = enumerate(text.splitlines(), start=1)
    return [Use(file, number, found[1]) for number, line in lines for found in _WORD.finditer(_CODE.sub("", line))]


def _python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _STRINGS:
            without_code = re.sub(r"\{[^{}]*\}", "", token.string)
            yield from enumerate(without_code.splitlines(), start=token.start[0])


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"\]\([^)]*\)", "", line)
