"""Causes and hints for text that is not YAML, or not the YAML that it appears to be."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_INVISIBLE: Final = {
    "\u00a0": "a non-breaking blank",
    "\u202f": "a narrow non-breaking blank",
    "\u2007": "a figure space",
    "\u2009": "a thin space",
    "\u3000": "an ideographic space",
    "\u200b": "a zero-width space",
    "\u2060": "a word joiner",
    "\ufeff": "a byte order mark",
    "\u00ad": "a soft hyphen",
}
"""Characters that look like a blank, or like nothing, and are part of a word to YAML."""
_QUOTES: Final = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
_CONFLICT: Final = re.compile(r"<{7} |={7}$|>{7} ")
_UNSPACED: Final = re.compile(r"^[ -]*(?!rackwright:)[A-Za-z_][A-Za-z0-9_-]*:[^\s:/]")
"""A key whose colon no blank follows. Not `rackwright:cluster`, which has a colon of its own."""


def odd_characters(text: str) -> tuple[str, str] | None:
    """Return cause and hint for unquoted text with an invisible character or with typographic quotes, or None."""
    for character, name in _INVISIBLE.items():
        if character in text:
            return f"`{text[:60]}` holds {name} (U+{ord(character):04X})", "replace it by an ordinary blank, or remove it"
    if text and (text[0] in _QUOTES or text[-1] in _QUOTES):
        return f"`{text[:60]}` has typographic quotes, which YAML takes for text", 'use straight quotes: "…"'
    return None


def syntax_hint(broken: yaml.MarkedYAMLError, text: str, line: int) -> str:
    """Return what to write instead; `line`: number of the line in which the error was found, from 0."""
    lines = re.split(r"\r\n|\r|\n", text)
    here, before = (lines[number] if 0 <= number < len(lines) else "" for number in (line, line - 1))
    problem = f"{broken.context or ''} {broken.problem or ''}"
    for one in (here, before):
        if hint := _hint_of_line(one):
            return hint
    return _hint_of_problem(problem, here)


def _hint_of_line(line: str) -> str:
    if "\t" in line.partition("#")[0]:
        return "replace the tab in this line: YAML is indented with spaces"
    if _CONFLICT.match(line):
        return "resolve the conflict that git left in this file, and remove its marks"
    for character, name in _INVISIBLE.items():
        if character in line.partition("#")[0]:
            return f"replace {name} (U+{ord(character):04X}) by an ordinary blank"
    if "\uff1a" in line:
        return "replace the full-width colon (U+FF1A) by `: `"
    if "{{" in line or "{%" in line:
        return "replace the template by its value: stack files are not rendered; in quotes, it is text"
    if _UNSPACED.match(line):
        return f"write a blank after the colon: `{line.strip()[:60].replace(':', ': ', 1)}`"
    return ""


_PROBLEMS: Final = (
    ("expected a single document", "keep one document: a file is one stack; move what follows `---` to a file of its own"),
    ("could not determine a constructor", "remove the tag that begins with `!`, or put the value in quotes if it is text"),
    ("expected alphabetic or numeric character", "put the value in quotes: `*` begins an alias and `&` an anchor"),
    ("did not find expected ',' or", "close the bracket, or put the value in quotes if it contains a colon, a comma or a bracket"),
    ("undefined alias", "define the anchor (`&name`) above, or put the value in quotes: `*` begins an alias"),
    ("mapping values are not allowed", "put the value in quotes if it contains a colon; otherwise check the indentation"),
    ("cannot start any token", "put the value in quotes: YAML reserves the character with which it begins"),
    ("unknown escape character", "write the value in single quotes: in double quotes, a backslash begins an escape"),
    ("unexpected end of stream", "close the quote that was opened in this value"),
    ("unhashable key", "write text as the key; a value with braces or brackets belongs in quotes"),
    ("unacceptable key", "write text as the key; a value with braces or brackets belongs in quotes"),
)


def _hint_of_problem(problem: str, line: str) -> str:
    known = next((hint for words, hint in _PROBLEMS if words in problem), "")
    return known or "check the indentation, quotes and brackets up to here"


def decode(raw: bytes) -> tuple[str, str, str]:
    """Return the text of a file, and cause and hint if there is none."""
    for mark, name, codec in (
        (b"\xff\xfe\x00\x00", "UTF-32", "utf-32"),
        (b"\x00\x00\xfe\xff", "UTF-32", "utf-32"),
        (b"\xff\xfe", "UTF-16", "utf-16"),
        (b"\xfe\xff", "UTF-16", "utf-16"),
    ):
        if raw.startswith(mark):
            return "", f"file is {name}, not UTF-8", f"convert it: `iconv -f {codec.upper()} -t UTF-8`, or save it as UTF-8 in the editor"
    if raw[1:2] == b"\0" or raw[:1] == b"\0":
        return "", "file is UTF-16 without a byte order mark, or no text", "save the file as UTF-8 text"
    try:
        return raw.decode("utf-8-sig"), "", ""
    except UnicodeDecodeError as broken:
        line = raw[: broken.start].count(b"\n") + 1
        return "", f"byte {broken.start}, in line {line}, is not UTF-8", "save the file as UTF-8 text"


def position(broken: Any, text: str) -> tuple[int, int] | None:
    """Return line and column, from 1, of an error that has only an offset, or None."""
    offset = getattr(broken, "position", None)
    if not isinstance(offset, int):
        return None
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
