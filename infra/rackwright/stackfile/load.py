"""Loading of a Cluster from a stack file or from Pulumi's configuration, with all field errors as findings at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from rackwright import layout
from rackwright.errors import InputError
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity, did_you_mean, has_errors
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.field_errors import FieldPath, FieldProblem, explain
from rackwright.stackfile.yaml_reader import Document, Place, Written

CONFIG_KEY: Final = "rackwright:cluster"
_OWN_PREFIX: Final = "rackwright:"
_MAX_NAME: Final = 200
"""Maximum length of a stack's name. Chosen: a file name has at most 255 bytes on Linux (limits.h, NAME_MAX), less prefix and suffix."""


@dataclass(frozen=True)
class LoadedStack:
    """Result of loading a stack file."""

    stack: str
    cluster: Cluster | None
    """None if a field is invalid."""
    findings: tuple[Finding, ...] = ()
    valid_subset: Cluster | None = None
    """The cluster without its invalid parts, for the rules; None if other parts depend on them."""
    invalid_paths: tuple[FieldPath, ...] = ()
    """The places of the invalid parts, as they were probably meant."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of the stack file by path, for example `groups.worker.count`."""

    def at_line(self, finding: Finding) -> Finding:
        """Return the finding with the line of its path, or of the nearest path around it that the file has."""
        path = finding.path
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return replace(finding, line=self.lines[path]) if path else finding


def load_cluster(described: object, stack: str = "", numbers: Mapping[Place, Written] | None = None) -> LoadedStack:
    """Validate the mapping below `rackwright:cluster`; `numbers`: unquoted numbers of the file as they are written, by place."""
    if not isinstance(described, Mapping):
        return _failed(
            stack, Finding(Severity.ERROR, "value", CONFIG_KEY, "expected a mapping", "write a mapping with target, network, groups, …")
        )
    try:
        return LoadedStack(stack, _validate(described))
    except ValidationError as error:
        problems = explain(error, Cluster, numbers)
    findings = tuple(problem.finding for problem in problems)
    return LoadedStack(stack, None, findings, _without_invalid_parts(described, problems), tuple(problem.meant for problem in problems))


def load_stack(file: Path) -> LoadedStack:
    """Read and validate a stack file; the stack name follows from the file name."""
    return _loaded(file, yaml_reader.read_document(file))


def load_text(file: Path, text: str) -> LoadedStack:
    """Validate the text of a stack file."""
    return _loaded(file, yaml_reader.parse_document(text, file.name))


def _loaded(file: Path, document: Document) -> LoadedStack:
    stack, data, findings = stack_name(file), document.data, document.findings
    if data is None:
        empty = Finding(Severity.ERROR, "yaml-empty", file.name, "is empty", f"describe the cluster under config: {CONFIG_KEY}:")
        return _failed(stack, *(findings or [empty]))
    described, missing = _section(data, file.name)
    if missing:
        return _failed(stack, *findings, missing)
    prefix = ("config", CONFIG_KEY)
    numbers = {place[2:]: one for place, one in document.numbers.items() if place[:2] == prefix}
    lines = {str(FieldPath(place[2:])): line for place, line in document.lines.items() if place[:2] == prefix and place[2:]}
    loaded = load_cluster(described, stack, numbers)
    together = (*findings, *loaded.findings)
    cluster = None if has_errors(together) else loaded.cluster
    return LoadedStack(stack, cluster, together, loaded.valid_subset or loaded.cluster, loaded.invalid_paths, lines)


def load_configured(stack: str, configured: object, file: Path) -> LoadedStack:
    """Validate Pulumi's configuration and return it with its groups in the order of the stack file.

    Pulumi sorts mappings by key [tried, 3.259], but addresses follow the declared order. The file therefore determines the order, and
    its content must be the same.
    """
    given = load_cluster(configured, stack)
    if given.cluster is None:
        return given
    if not file.is_file():
        return _failed(stack, _file_finding(file, "file does not exist"))
    declared = load_stack(file)
    if declared.cluster is not None and declared.cluster != given.cluster:
        return _failed(stack, _file_finding(file, "differs from the configuration that Pulumi uses"))
    return declared


def stack_name(file: Path) -> str:
    """Return the stack name of a file: `lab` for Pulumi.lab.yaml."""
    return file.name.removesuffix(".yaml").removesuffix(".yml").removeprefix("Pulumi.")


def find_stack_file(stack: str, stacks: Path) -> Path:
    """Return the stack file for a name or a path; raise InputError with the most similar name if it does not exist."""
    given = Path(stack)
    if len(given.name) > _MAX_NAME:
        raise InputError(f"the name has {len(given.name)} characters (expected at most {_MAX_NAME})", path=f"{stack[:60]}…")
    if "/" in stack or given.suffix in {".yaml", ".yml"}:
        if given.is_file():
            return given
        cause = "is a folder" if given.is_dir() else "is not a regular file" if given.exists() else "file does not exist"
        raise InputError(cause, path=stack, hint=f"pass the path of a stack file, or the name of a stack in {stacks.name}/")
    file = stacks / f"Pulumi.{stack}.yaml"
    if file.is_file():
        return file
    if not stacks.is_dir():
        hint = f"run the command in a folder that `rackwright new` made, or set {layout.PROJECT_ENV} to one"
        raise InputError(f"unknown stack `{stack}`: {stacks.parent} is not a project folder", path=f"{stacks.name}/{file.name}", hint=hint)
    known = [stack_name(path) for path in stacks.glob("Pulumi.*.yaml")]
    raise InputError(f"unknown stack `{stack}`", path=f"{stacks.name}/{file.name}", hint=did_you_mean(stack, known))


def _validate(described: Mapping[Any, Any]) -> Cluster:
    """Validate strictly, as JSON: a quoted number is text, and `yes` is not a boolean, but dates and networks are parsed from text."""
    return Cluster.model_validate_json(json.dumps(described, default=str), strict=True)


def _section(data: object, name: str) -> tuple[Any, Finding | None]:
    config = data.get("config") if isinstance(data, Mapping) else None
    if not isinstance(config, Mapping):
        return None, Finding(
            Severity.ERROR, "missing-key", name, "has no `config:` mapping", f"describe the cluster under config: {CONFIG_KEY}:"
        )
    if CONFIG_KEY in config:
        return config[CONFIG_KEY], None
    own = [str(key) for key in config if str(key).startswith(_OWN_PREFIX)]
    wrong = f"; `{own[0]}` is unknown" if own else ""
    return None, Finding(Severity.ERROR, "missing-key", f"{name}: config", f"has no `{CONFIG_KEY}:`{wrong}", f"add `{CONFIG_KEY}:`")


def _without_invalid_parts(described: Mapping[Any, Any], problems: list[FieldProblem]) -> Cluster | None:
    """Return the cluster without its invalid parts, or None if it is invalid without them or other parts would then appear invalid."""
    if any(_affects_other_parts(problem.meant) for problem in problems):
        return None
    tree = json.loads(json.dumps(described, default=str))
    for problem in sorted(problems, key=lambda problem: [str(key).rjust(8) for key in problem.place.keys], reverse=True):
        _remove(tree, problem.place)
    try:
        return _validate(tree)
    except ValidationError:
        return None


def _affects_other_parts(place: FieldPath) -> bool:
    """Return whether rules would report other places without this one: a group without its roles, a node without its GPUs."""
    names_something = len(place.keys) <= 2 and bool({"groups", "nodes", "storage"}.intersection(place.keys))
    return names_something or bool({"roles", "gpus", "target"}.intersection(place.keys))


def _remove(tree: Any, place: FieldPath) -> None:
    """Remove a place. The caller removes list indices from last to first."""
    *parents, last = place.keys or (None,)
    for key in parents:
        tree = tree[key]
    if isinstance(tree, dict):
        tree.pop(last, None)
    else:
        del tree[last]


def _file_finding(file: Path, cause: str) -> Finding:
    name = f"{file.parent.name}/{file.name}"
    return Finding(
        Severity.ERROR, "stack-file", name, cause, "keep the stack's description in this file; --config-file and --config are not supported"
    )


def _failed(stack: str, *findings: Finding) -> LoadedStack:
    return LoadedStack(stack, None, findings)
