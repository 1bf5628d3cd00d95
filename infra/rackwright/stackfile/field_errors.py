"""Conversion of pydantic errors to findings: locations become paths of the stack file, error types become causes and hints.

Paths omit what the stack file does not contain: a discriminator's tag, the mark of a key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from rackwright.model.finding import Finding, Severity, did_you_mean, nearest
from rackwright.stackfile.field_hints import bound, described, invalid_json, type_hint
from rackwright.stackfile.yaml_reader import Written

_TYPE_NAMES: Final = {
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "dict": "a mapping",
    "model": "a mapping",
    "tuple": "a list",
    "list": "a list",
}
_UNIONS: Final = (Union, UnionType)
_RULE_OF: Final = {
    "extra_forbidden": "unknown-key",
    "missing": "missing-key",
    "enum": "choice",
    "literal_error": "choice",
    "union_tag_invalid": "choice",
    "union_tag_not_found": "missing-key",
}
_DISCRIMINATOR: Final = ("union_tag_invalid", "union_tag_not_found")
"""Errors about the key `kind`, which pydantic reports at the enclosing mapping."""


@dataclass(frozen=True)
class FieldPath:
    """A location in the stack file."""

    keys: tuple[str | int, ...]

    def __str__(self) -> str:
        text = ""
        for key in self.keys:
            text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
        return text


@dataclass(frozen=True)
class FieldProblem:
    """A field error: its place, the place that was probably meant by a misspelt key, and the finding."""

    place: FieldPath
    meant: FieldPath
    finding: Finding


class FieldHelp(NamedTuple):
    """What the model says of a value."""

    description: str
    keys: str
    """Valid keys of a mapping, separated by commas; empty if any key is valid."""


def explain(
    error: ValidationError, model: type[BaseModel], numbers: Mapping[tuple[str | int, ...], Written] | None = None
) -> list[FieldProblem]:
    """Return each field error as a problem; `numbers`: unquoted numbers of the file as they are written, by place."""
    return [_one(dict(details), model, numbers or {}) for details in error.errors(include_url=False)]


def _one(details: dict[str, Any], model: type[BaseModel], numbers: Mapping[tuple[str | int, ...], Written]) -> FieldProblem:
    place, known = walk(details["loc"], model)
    kind: str = details["type"]
    if kind in _DISCRIMINATOR:
        place = FieldPath((*place.keys, "kind"))
    context: Mapping[str, Any] = details.get("ctx") or {}
    rule = _RULE_OF.get(kind, kind if "hint" in context else "value")
    cause, hint = _words(kind, details, context, place, known, field_at(details["loc"], model))
    written = numbers.get(place.keys)
    if written is not None and "keys" not in kind:
        cause, hint = _as_written(cause, hint, details.get("input"), written)
    near = nearest(str(place.keys[-1]), known) if kind == "extra_forbidden" else None
    meant = FieldPath((*place.keys[:-1], near)) if near is not None else place
    return FieldProblem(place, meant, Finding(Severity.ERROR, rule, str(place) or "rackwright:cluster", cause, hint))


def _as_written(cause: str, hint: str, value: object, written: Written) -> tuple[str, str]:
    """Return cause and hint with a number as it is written in the file: `1.30`, which is read as 1.3, or `0755`, as 493."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return cause, hint
    quoted = hint.replace("write the value in quotes", f'write it in quotes: "{written.text}"')
    if str(value) == written.text or str(value) not in cause:
        return cause, quoted
    return f"{cause.replace(str(value), written.text, 1)}, which is read as {value}", quoted


def _words(
    kind: str, details: Mapping[str, Any], context: Mapping[str, Any], place: FieldPath, known: Sequence[str], field: FieldHelp
) -> tuple[str, str]:
    value = context["tag"] if kind == "union_tag_invalid" else details.get("input")
    if kind == "extra_forbidden":
        return f"unknown key `{place.keys[-1]}`", did_you_mean(str(place.keys[-1]), known)
    if kind in {"missing", "union_tag_not_found"}:
        return "is missing", f"add `{place.keys[-1]}:`"
    if kind in {"enum", "literal_error", "union_tag_invalid"}:
        choices = _choices(context)
        return f"{_quoted(value)} is not one of {', '.join(choices)}", did_you_mean(str(value), choices)
    if "hint" in context:
        return str(context["cause"]), str(context["hint"])
    if kind.endswith("_type"):
        wanted = _TYPE_NAMES.get(kind.removesuffix("_type"), "another type")
        return f"expected {wanted}, found {_quoted(value)}", type_hint(kind, value, field.keys, field.description)
    return _plain(kind, str(details["msg"]), value, context, field)


def _choices(context: Mapping[str, Any]) -> list[str]:
    text = str(context.get("expected") or context.get("expected_tags") or "")
    return [word.strip(" '") for word in text.replace(" or ", ",").split(",") if word.strip()]


def _plain(kind: str, message: str, value: object, context: Mapping[str, Any], field: FieldHelp) -> tuple[str, str]:
    limit = bound(kind, _quoted(value), context)
    if limit is not None:
        return limit
    if kind == "string_pattern_mismatch":
        return f"{_quoted(value)} does not match the required pattern", f"use a value that matches {context['pattern']}"
    if kind == "json_invalid":
        return invalid_json(message)
    return f"{_quoted(value)}: {message[:1].lower()}{message[1:]}", described(field.description)


def _quoted(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = str(value)
    return f"`{text[:60]}…`" if len(text) > 60 else f"`{text}`"


def walk(location: Sequence[str | int], model: type[BaseModel]) -> tuple[FieldPath, tuple[str, ...]]:
    """Return the place of a pydantic location in the stack file, and the valid keys of the enclosing mapping."""
    keys: list[str | int] = []
    known: tuple[str, ...] = ()
    kind: Any = model
    for part in location:
        kind = _bare(kind)
        if get_origin(kind) in _UNIONS:
            kind = _member(kind, part)
            continue
        if part == "[key]":
            continue
        keys.append(part)
        known = tuple(kind.model_fields) if _is_model(kind) else ()
        kind = _inside(kind, part)
    return FieldPath(tuple(keys)), known


def field_at(location: Sequence[str | int], model: type[BaseModel]) -> FieldHelp:
    """Return the description and the valid keys of the value at a pydantic location."""
    kind: Any = model
    description = ""
    for part in location:
        kind = _bare(kind)
        if get_origin(kind) in _UNIONS:
            kind = _member(kind, part)
            continue
        if part == "[key]":
            continue
        field = kind.model_fields.get(str(part)) if _is_model(kind) else None
        description = (field.description if field is not None else None) or description
        kind = _inside(kind, part)
    kind = _bare(kind)
    return FieldHelp(description, ", ".join(kind.model_fields) if _is_model(kind) else "")


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _bare(kind: Any) -> Any:
    """Return the type without Annotated and Optional, which add no part to a location."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in _UNIONS:
        others = [member for member in get_args(kind) if member is not type(None)]
        if len(others) == 1:
            return _bare(others[0])
    return kind


def _member(union: Any, tag: str | int) -> Any:
    """Return the member with this tag of a union that is discriminated by `kind`, or by pydantic's Tag."""
    for member in get_args(union):
        if any(isinstance(mark, Tag) and mark.tag == tag for mark in getattr(member, "__metadata__", ())):
            return member
        field = member.model_fields.get("kind") if _is_model(member) else None
        if field is not None and tag in get_args(field.annotation):
            return member
    return object


def _inside(kind: Any, key: str | int) -> Any:
    if _is_model(kind):
        field = kind.model_fields.get(str(key))
        return field.annotation if field is not None else object
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return arguments[1]
    return arguments[0] if arguments else object
