"""docs/reference/stack-file.md: every key of a stack file, with its type, default, change policy and description."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, get_args

from pydantic.fields import FieldInfo

from rackwright.model.base import ConfigModel
from rackwright.model.cluster import Cluster
from rackwright.model.update_policy import UpdatePolicy
from rackwright.stackfile.diff import policy_of
from rackwright.stackfile.schema import schema
from reference.json_types import Types, default, described, example
from reference.markdown import anchor, cell, head, table

_TARGETS: Final = ("lab", "hosts", "aws")
_TOP: Final = "rackwright:cluster"
_TEXT: Final = """A stack file is `stacks/Pulumi.STACK.yaml`. The cluster is described below `config`, under the key
`rackwright:cluster`; paths on this page start there. `NAME` stands for a name that you choose. `rackwright
validate STACK` reports every error offline, `rackwright schema` prints the JSON schema for editors, and `rackwright
impact STACK` states what an edit will do.

## Change policies

The column *edit* states the most disruptive effect of an edited key on a running stack. Keys with *per key* have no policy of their
own: the keys inside have theirs.

"""


def page() -> str:
    """Return the whole page."""
    policies = table(("edit", "effect"), ((f"`{change.value}`", cell(_policies()[change.name])) for change in UpdatePolicy))
    paths = _paths()
    titles = {part: _title(part, found) for part, found in paths.items()}
    definitions = schema()["$defs"]
    types = Types(definitions, lambda name, definition: _link(name, definition, titles))
    sections = (line for part in paths for line in _section(part, titles[part], paths[part], types, definitions))
    return "\n".join([head("Stack file", "the model of stack files", _TEXT) + "\n" + "\n".join(policies), *sections])


def _policies() -> dict[str, str]:
    """Return the docstring below each member of the policies, by the member's name."""
    (declared,) = ast.parse(inspect.getsource(UpdatePolicy)).body
    assert isinstance(declared, ast.ClassDef)
    texts = {}
    for member, text in pairwise(declared.body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            texts[ast.unparse(member.targets[0])] = str(text.value.value)
    return texts


def _paths() -> dict[type[ConfigModel], list[str]]:
    """Return the paths at which each part may stand, in the order of the model."""
    found: dict[type[ConfigModel], list[str]] = {}
    _collect(Cluster, "", found)
    return found


def _collect(part: type[ConfigModel], path: str, found: dict[type[ConfigModel], list[str]]) -> None:
    found.setdefault(part, []).append(path)
    for name, field in part.model_fields.items():
        for inner, below in _parts(field.annotation):
            _collect(inner, ".".join(filter(None, (path, f"{name}{below}"))), found)


def _parts(annotation: Any) -> Iterator[tuple[type[ConfigModel], str]]:
    """Yield the parts in an annotation, each with the path from the key to it."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        yield annotation, ""
        return
    is_mapping = getattr(annotation, "__origin__", None) is dict
    below = ".NAME" if is_mapping else "[]" if getattr(annotation, "__origin__", None) is tuple else ""
    for inner in get_args(annotation)[is_mapping:]:
        yield from ((part, below + rest) for part, rest in _parts(inner))


def _title(part: type[ConfigModel], paths: list[str]) -> str:
    """Return the title of a part's section: its first path, and the kind that selects it. A kind that a user chooses selects nothing."""
    kind = part.model_fields.get("kind")
    choices = [choice for choice in get_args(kind.annotation) if isinstance(choice, str)] if kind is not None else []
    return f"`{paths[0] or _TOP}`" + (f" of kind {choices[0]}" if choices else "")


def _link(name: str, definition: Mapping[str, Any], titles: Mapping[type[ConfigModel], str]) -> str:
    title = next(title for part, title in titles.items() if part.__name__ == name)
    kind = definition["properties"].get("kind", {}).get("const")
    return f"[{kind or 'mapping'}](#{anchor(title)})"


def _section(part: type[ConfigModel], title: str, paths: list[str], types: Types, definitions: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {title}", "", cell(part.__doc__ or ""), "")
    if len(paths) > 1:
        yield from (f"Also at {', '.join(f'`{path}`' for path in paths[1:])}.", "")
    definition = schema()["properties"]["config"]["properties"][_TOP] if part is Cluster else definitions[part.__name__]
    rows = (_row(name, field, definition["properties"][name], types) for name, field in part.model_fields.items())
    yield from table(("key", "type", "default", "edit", "meaning"), rows)


def _row(name: str, field: FieldInfo, node: Mapping[str, Any], types: Types) -> tuple[str, str, str, str, str]:
    text = "required" if field.is_required() else _default(field, node)
    kind = types.text(node)
    sample = example(node)
    return (
        f"`{field.alias or name}`",
        f"{kind}, {sample}" if sample else kind,
        text,
        _edit(field),
        described(node) or cell(field.description or ""),
    )


def _default(field: FieldInfo, node: Mapping[str, Any]) -> str:
    """Return the default: `none`, a value, or a reference to the keys of the part."""
    if isinstance(field.default, ConfigModel):
        return "per key"
    return default(node.get("default"))


def _edit(field: FieldInfo) -> str:
    """Return the policy of a key, with the targets that differ."""
    usual = policy_of(field, "")
    if usual is None and not list(_parts(field.annotation)):
        usual = UpdatePolicy.FORBIDDEN
    exceptions = [f"{target}: `{policy_of(field, target)}`" for target in _TARGETS if policy_of(field, target) not in (None, usual)]
    return "; ".join([f"`{usual}`" if usual else "per key", *exceptions])
