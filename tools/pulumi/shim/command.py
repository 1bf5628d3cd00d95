"""Stack, folder and stack file of a `pulumi` command line. Parses only what the shim needs; the engine parses the rest."""

from __future__ import annotations

_ROOT_FLAGS = {"--color", "--tracing", "--otel-traces", "--profiling", "--memprofilerate", "--verbose", "--tracing-header"}
_LONG_WITH_VALUE = _ROOT_FLAGS | {"--message", "--target", "--parallel"}
_SHORT_WITH_VALUE = "sCcvmtp"
_SOME = ("--target", "--exclude", "--preview-only", "-t")
"""Options that exclude resources from an operation."""
_MAKES_OR_REMOVES = {"new", "init", "create", "setup", "rm", "remove", "delete"}


class Command:
    """One command line: `words` are the subcommand and its positional arguments."""

    def __init__(self, arguments: list[str]) -> None:
        self.words: list[str] = []
        self.stack: str | None = None
        self.folder: str | None = None
        self.names_config_file = False
        self.saves_config = False
        self.asks_for_help = False
        self.is_about_all = not any(argument.startswith(_SOME) for argument in arguments)
        rest = iter(arguments)
        for argument in rest:
            if argument == "--":
                break
            if argument.startswith("--"):
                self._long(argument, rest)
            elif argument.startswith("-") and len(argument) > 1:
                self._short(argument[1:], rest)
            else:
                self.words.append(argument)
        if self.stack is None and len(self.words) > 2 and self.words[0] == "stack":
            self.stack = self.words[2] if self.words[1] in ("select", "rm", "remove", "delete") else None

    def _long(self, argument: str, rest: object) -> None:
        name, joined, value = argument.partition("=")
        if name in ("--stack", "--cwd", "--config", "--config-file") or name in _LONG_WITH_VALUE:
            self._value(name.lstrip("-"), value if joined else next(rest, ""))  # type: ignore[call-overload]
        elif name == "--help":
            self.asks_for_help = True

    def _short(self, letters: str, rest: object) -> None:
        for place, letter in enumerate(letters):
            if letter == "h":
                self.asks_for_help = True
            if letter in _SHORT_WITH_VALUE:
                value = letters[place + 1 :].removeprefix("=") or next(rest, "")  # type: ignore[call-overload]
                self._value({"s": "stack", "C": "cwd", "c": "config"}.get(letter, letter), value)
                return

    def _value(self, name: str, value: str) -> None:
        if name == "stack":
            self.stack = value
        elif name == "cwd":
            self.folder = value
        elif name == "config":
            self.saves_config = True
        elif name == "config-file":
            self.names_config_file = True

    @property
    def subcommand(self) -> str:
        """Return the subcommand: `up`, `stack`, …; empty without one."""
        return self.words[0] if self.words else ""

    @property
    def makes_or_removes_a_stack(self) -> bool:
        """Return whether the command creates or deletes the stack itself (`stack init`, `stack rm`)."""
        return self.subcommand == "stack" and len(self.words) > 1 and self.words[1] in _MAKES_OR_REMOVES

    @property
    def may_write_stack_file(self) -> bool:
        """Return whether the engine may save the stack file: the shim then copies the change to the committed file, without the salt."""
        return self.saves_config or self.subcommand in ("config", "stack", "new", "state", "import", "watch")

    @property
    def changes_login(self) -> bool:
        """Return whether the command changes the user's own backend (`login`, `logout`)."""
        return self.subcommand in ("login", "logout")
