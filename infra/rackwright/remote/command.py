"""The shell command that runs a program of `rackwright.remote.programs` on a node (README.md)."""

from __future__ import annotations

import ast
import base64
import json
import shlex
import tokenize
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from io import StringIO
from typing import Any, Final

from rackwright.errors import RackwrightError

AS_ROOT: Final = "sh -c " + shlex.quote('[ $(id -u) = 0 ] || exec sudo -n "$0" "$@"; exec "$0" "$@"')
"""Start of a command that runs as root: login users of clouds and of existing machines have passwordless sudo."""
PACKAGE: Final = "rackwright.remote.programs"
MAX_ARGUMENT: Final = 128 * 1024
"""Bytes of one argument of a command, its final null byte included: MAX_ARG_STRLEN, 32 pages of 4 KiB (execve(2))."""
_FROM_STDIN: Final = "-"
_BLOCKS: Final = (ast.Module, ast.ClassDef, ast.FunctionDef)
_BOOT: Final = f"""
import binascii, json, sys, types, zlib
for name, text in json.loads(zlib.decompress(binascii.a2b_base64(sys.argv[1]))):
    module = sys.modules[name] = types.ModuleType(name)
    if not text:
        module.__path__ = []
    exec(compile(text, name + ".py", "exec"), module.__dict__)
answer = module.main(json.loads(sys.stdin.readline() if sys.argv[2] == "{_FROM_STDIN}" else sys.argv[2]))
if answer is not None:
    print(json.dumps(answer))
"""
"""Arguments: modules as (name, text), each after the modules that it imports and the program last; the request. A package has no text."""


def python_command(program: str, request: Mapping[str, Any] | None, *, libraries: Sequence[str] = ()) -> str:
    """Return the shell words that run a program on a node; the arguments are those of `python_arguments`.

    The words may follow others in the same command (`exec`, `runuser -u USER --`). A shell gets the whole command as one argument, so the
    limit applies to all words together. Raises RackwrightError if they exceed MAX_ARGUMENT.
    """
    command = shlex.join(python_arguments(program, request, libraries=libraries))
    _refuse_long(program, command)
    return command


def python_arguments(program: str, request: Mapping[str, Any] | None, *, libraries: Sequence[str] = ()) -> list[str]:
    """Return the words that run a program on a node, for a caller that starts it without a shell.

    program: module of `rackwright.remote.programs`; the modules of that package that it imports at its top are sent with it.
    request: what `main` gets, as JSON. Every user of the node can read it (ps(1)), so it holds no secret. None: the program reads its
        request from standard input, as `encode_request` writes it; for secrets, and for requests over the limit.
    libraries: modules that the program imports inside functions, because the request decides which.

    Raises RackwrightError if a word exceeds MAX_ARGUMENT, FileNotFoundError if there is no such program.
    """
    text = _FROM_STDIN if request is None else json.dumps(request)
    words = ["python3", "-I", "-S", "-c", _BOOT, _packed(program, tuple(libraries)), text]
    for word in words:
        _refuse_long(program, word)
    return words


def encode_request(request: Mapping[str, Any]) -> bytes:
    """Return a request as the first line of standard input."""
    return json.dumps(request).encode() + b"\n"


def source(program: str) -> str:
    """Return the text of a program."""
    return files(PACKAGE).joinpath(f"{program}.py").read_text(encoding="utf-8")


def _refuse_long(program: str, argument: str) -> None:
    size = len(argument.encode()) + 1
    if size > MAX_ARGUMENT:
        raise RackwrightError(f"program {program}: its command is too long (expected at most {MAX_ARGUMENT} bytes, found {size})")


def _packed(program: str, libraries: tuple[str, ...]) -> str:
    """Return the modules that `_BOOT` runs, compressed."""
    texts: dict[str, str] = {}
    for name in (*libraries, program):
        _add_with_imports(name, texts)
    texts[program] = texts.pop(program)
    parents = PACKAGE.split(".")
    packages = [(".".join(parents[: depth + 1]), "") for depth in range(len(parents))]
    return _compressed((*packages, *((f"{PACKAGE}.{name}", _strip(text)) for name, text in texts.items())))


@cache
def _strip(text: str) -> str:
    """Return a program without docstrings and comments; a round of a Kubernetes controller has 18 programs in one argument.

    Lines keep their numbers, so that a traceback names lines of the file.

    >>> _strip('def stop():\\n    "Do nothing."  # yet\\n\\n\\nMARK = "# of a line"\\n')
    'def stop():\\n    0\\n\\n\\nMARK = "# of a line"\\n'
    """
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        body = node.body if isinstance(node, _BLOCKS) else []
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                kept = "" if isinstance(node, ast.Module) else " " * statement.col_offset + "0"  # A block needs a statement.
                first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
                lines[first:last] = [kept] + [""] * (last - first - 1)
    for token in tokenize.generate_tokens(StringIO("\n".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column].rstrip()
    return "\n".join(lines) + "\n"


@cache
def _compressed(modules: tuple[tuple[str, str], ...]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(modules).encode(), 9)).decode()


def _add_with_imports(program: str, texts: dict[str, str]) -> None:
    """Add a program after the modules that it imports."""
    text = source(program)
    for name in _imports(text):
        if name not in texts:
            _add_with_imports(name, texts)
    texts.setdefault(program, text)


@cache
def _imports(text: str) -> tuple[str, ...]:
    """Return the modules of PACKAGE that a program imports at its top.

    >>> _imports("from rackwright.remote.programs import dns, kubelet as k\\nfrom rackwright.remote.programs.smoke import run")
    ('dns', 'kubelet', 'smoke')
    """
    found: list[str] = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ImportFrom) and statement.module == PACKAGE:
            found += (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(f"{PACKAGE}."):
            found.append((statement.module or "").removeprefix(f"{PACKAGE}."))
    return tuple(found)
