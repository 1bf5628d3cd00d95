"""A mistake at any key of a committed stack: findings with a path, a cause and a hint, on the line of the key; and nothing hangs.

The places of all stacks with every mistake are some 15,000 files, which take minutes. The test takes a fixed sample, and every number.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from datetime import date
from typing import Any, Final

import pytest
import yaml

from rackwright import rules
from rackwright.inventory import paths
from rackwright.model.finding import Finding
from rackwright.plan import expand
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY, load_text

from .test_anything import places

TODAY = date(2026, 12, 1)
HUGE: Final = 10**18
VALUES: Final[dict[str, Any]] = {
    "null": None,
    "text": "x",
    "empty": "",
    "huge": HUGE,
    "negative": -1,
    "fraction": 1.5,
    "boolean": True,
    "list": [1],
    "mapping": {"k": 1},
    "infinite": float("inf"),
    "long": "a" * 300,
    "shell": "ü/../$(id)",
}
KINDS: Final = (*VALUES, "deleted", "misspelt")
SAMPLES: Final = 90
Mistake = tuple[str, tuple[Any, ...], str]
"""Stack, place and kind."""
FILES = {file.name.removeprefix("Pulumi.").removesuffix(".yaml"): file for file in sorted(paths.stacks().glob("Pulumi.*.yaml"))}
TREES: dict[str, Any] = {stack: yaml_reader.read(file)[0]["config"][CONFIG_KEY] for stack, file in FILES.items()}


def shape(place: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a place without names of the stack's own: all machines are alike, and all items of a list."""
    names = {"machines", "groups", "nodes", "users", "storage"}
    return tuple("*" if isinstance(key, int) or (index and place[index - 1] in names) else key for index, key in enumerate(place))


def value_at(tree: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def distinct_places() -> dict[tuple[Any, ...], tuple[str, tuple[Any, ...]]]:
    """Return shape -> the first stack and place of it."""
    found: dict[tuple[Any, ...], tuple[str, tuple[Any, ...]]] = {}
    for stack, tree in TREES.items():
        for place in places(tree)[1:]:
            found.setdefault(shape(place), (stack, place))
    return found


def sample() -> Iterator[Mistake]:
    """Yield a fixed sample of all mistakes."""
    every = [(stack, place, kind) for stack, place in distinct_places().values() for kind in KINDS]
    yield from random.Random(1).sample(every, SAMPLES)


def numbers() -> Iterator[Mistake]:
    """Yield every number with a value far beyond its range: a rule that counts up to it would never end."""
    for stack, place in distinct_places().values():
        value = value_at(TREES[stack], place)
        if isinstance(value, int) and not isinstance(value, bool):
            yield stack, place, "huge"


def mutated(stack: str, place: tuple[Any, ...], kind: str) -> str:
    """Return the text of a stack file with one mistake."""
    tree = copy.deepcopy(TREES[stack])
    around, last = value_at(tree, place[:-1]), place[-1]
    if kind == "deleted":
        del around[last]
    elif kind == "misspelt":
        value = around.pop(last)
        if isinstance(around, dict):
            around[f"{last}x"] = value
    else:
        around[last] = VALUES[kind]
    return yaml.safe_dump({"config": {CONFIG_KEY: tree}}, sort_keys=False, allow_unicode=True)


def findings(stack: str, text: str) -> list[Finding]:
    """Return the findings of a text; plan what has no error."""
    loaded = load_text(FILES[stack], text)
    found = [loaded.at_line(finding) for finding in rules.check(loaded, TODAY)]
    if not any(finding.is_error for finding in found):
        assert loaded.cluster is not None
        expand(loaded.cluster, stack)
    return found


def test_sample_reaches_every_kind_of_mistake() -> None:
    """The sample must not lose a kind unnoticed."""
    assert {kind for _, _, kind in sample()} == set(KINDS)
    assert len({stack for stack, _, _ in sample()}) >= 5


@pytest.mark.parametrize("mistakes", [sample, numbers])
def test_mistakes_are_findings(mistakes: Any) -> None:
    for stack, place, kind in mistakes():
        what = f"{stack}: {'.'.join(map(str, place))} {kind}"
        for finding in findings(stack, mutated(stack, place, kind)):
            assert finding.path and finding.cause and finding.hint, what
            # A missing section has no line; what is wrong with a key that the file has is on its line.
            is_missing = kind in {"deleted", "misspelt"} or finding.rule.endswith(("missing", "missing-key"))
            assert finding.line or is_missing, f"{what}: {finding}"
