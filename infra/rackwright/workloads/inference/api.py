"""Requests and answers of the API: a part of OpenAI's completions, as JSON. Unsupported parameters are refused, not ignored."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.workloads.inference.engine import Generation

MAX_BODY: Final = 65536
"""Bytes of a request. Chosen: 500 times the context of the model."""
_DEFAULT_TOKENS: Final = 16
"""Tokens of an answer without `max_tokens` (OpenAI's API reference, completions)."""
_ACCEPTED: Final = ("model", "prompt", "max_tokens", "temperature", "stream", "stream_options", "user", "n")


class BadRequestError(Exception):
    """A request that the API refuses, with what an OpenAI client shows of it."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.param, self.status, self.kind = param, status, kind


@dataclass(frozen=True)
class Completion:
    """A valid request."""

    generation: Generation
    stream: bool
    has_usage: bool
    """Whether a stream ends with the number of tokens (`stream_options.include_usage`)."""


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error as OpenAI's clients read it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def parse(body: bytes, model_name: str, context: int) -> Completion:
    """Return the request of a body. Raises BadRequestError for the first parameter that is wrong."""
    try:
        found = json.loads(body)
    except ValueError:
        raise BadRequestError("the body is no JSON") from None
    if not isinstance(found, dict):
        raise BadRequestError("the body is no JSON object")
    if unknown := sorted(found.keys() - set(_ACCEPTED)):
        raise BadRequestError(f"{unknown[0]}: this server does not support it", param=unknown[0])
    if found.get("model") != model_name:
        raise BadRequestError(f"model: {found.get('model')!r} is not served (expected {model_name!r})", param="model", status=404)
    if found.get("n", 1) != 1:
        raise BadRequestError("n: one answer for each request (expected 1)", param="n")
    stream, options = _flag(found, "stream"), found.get("stream_options") or {}
    if not isinstance(options, dict) or options.keys() - {"include_usage"}:
        raise BadRequestError("stream_options: expected {include_usage: true or false}", param="stream_options")
    return Completion(_generation(found, context), stream, _flag(options, "include_usage"))


def _generation(found: Mapping[str, Any], context: int) -> Generation:
    prompt = found.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str) or not prompt:
        raise BadRequestError("prompt: expected one text that is not empty", param="prompt")
    tokens = found.get("max_tokens", _DEFAULT_TOKENS)
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise BadRequestError(f"max_tokens: expected a whole number from 1 (found {tokens!r})", param="max_tokens")
    encoded = prompt.encode("utf-8", "replace")
    if len(encoded) + tokens > context:
        raise BadRequestError(
            f"max_tokens: {len(encoded)} bytes of prompt and {tokens} of answer exceed the context of {context}", param="max_tokens"
        )
    return Generation(encoded, tokens, _temperature(found))


def _temperature(found: Mapping[str, Any]) -> float:
    value = found.get("temperature", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2:
        raise BadRequestError(f"temperature: expected a number from 0 to 2 (found {value!r})", param="temperature")
    return float(value)


def _flag(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name) or False
    if not isinstance(value, bool):
        raise BadRequestError(f"{name}: expected true or false (found {value!r})", param=name)
    return value


@dataclass(frozen=True)
class Answer:
    """What all parts of an answer have in common."""

    id: str
    model_name: str
    fingerprint: str
    """Checkpoint and revision of the server: OpenAI's `system_fingerprint`."""
    created: int

    @classmethod
    def new(cls, id: str, model_name: str, fingerprint: str) -> Answer:
        """Return an answer that begins now."""
        return cls(id, model_name, fingerprint, int(time.time()))

    def body(self, text: str, reason: str | None, usage: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return an answer, or a part of a stream."""
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return self._body([choice]) | ({"usage": dict(usage)} if usage else {})

    def usage_body(self, usage: Mapping[str, int]) -> dict[str, Any]:
        """Return the part of a stream that has no text."""
        return self._body([]) | {"usage": dict(usage)}

    def _body(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model_name}
        return {**head, "system_fingerprint": self.fingerprint, "choices": choices}


def usage_of(generation: Generation) -> dict[str, int]:
    """Return the number of tokens of a request."""
    prompt, answer = len(generation.prompt), len(generation.output)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
