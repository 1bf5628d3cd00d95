"""Schemas of Kubernetes 1.34's own kinds, and what an object breaks of them. Unknown fields are breaches, as for a server that is strict.

Cut from api/openapi-spec/swagger.json of the Go module k8s.io/kubernetes@v1.34.1 (Apache License 2.0): the kinds of `KINDS` and what they
refer to, without descriptions. `python tests/components/kubernetes_schemas.py SWAGGER` cuts them anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FILE = Path(__file__).parent / "schemas" / "kubernetes-1.34.1.json"
KINDS = {
    "v1": (
        *("ConfigMap", "LimitRange", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "Secret"),
        *("Service", "ServiceAccount"),
    ),
    "apps/v1": ("DaemonSet", "Deployment"),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
}
_DROPPED = {"description", "x-kubernetes-group-version-kind", "format"}


def breaches(wanted: Mapping[str, Any]) -> list[str]:
    """Where an object is not of its kind, as `path: what`."""
    key = f"{wanted['apiVersion']} {wanted['kind']}"
    schemas = _schemas()
    if key not in schemas["kinds"]:
        return [f"$: there is no schema of {key}"]
    validator = Draft202012Validator({"$ref": f"#/definitions/{schemas['kinds'][key]}", "definitions": schemas["definitions"]})
    return [f"{breach.json_path}: {breach.message}" for breach in validator.iter_errors(wanted)]


@cache
def _schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def cut(swagger: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds of `KINDS` with all that they refer to."""
    whole = swagger["definitions"]
    wanted = {f"{version} {kind}" for version, kinds in KINDS.items() for kind in kinds}
    names = {key: name for name, definition in whole.items() for key in _kinds(definition) if key in wanted}
    assert set(names) == wanted, wanted - set(names)
    definitions: dict[str, Any] = {}
    waiting = list(names.values())
    while waiting:
        name = waiting.pop()
        if name not in definitions:
            definitions[name] = _closed(whole[name])
            waiting += _references(definitions[name])
    return {"origin": "k8s.io/kubernetes@v1.34.1 api/openapi-spec/swagger.json", "kinds": names, "definitions": definitions}


def _kinds(definition: Mapping[str, Any]) -> Iterator[str]:
    for one in definition.get("x-kubernetes-group-version-kind", ()):
        yield f"{one['group'] + '/' if one['group'] else ''}{one['version']} {one['kind']}"


def _closed(part: Any) -> Any:
    """A definition that knows no other fields; a number or a text where Kubernetes takes either."""
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    properties = {name: _closed(value) for name, value in part.get("properties", {}).items()}
    kept = {key: _closed(value) for key, value in part.items() if key not in _DROPPED and key != "properties"}
    return {**kept, "properties": properties, "additionalProperties": False} if properties else kept


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for one in part:
            yield from _references(one)
    elif isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].removeprefix("#/definitions/")
        for key, one in part.items():
            if key != "$ref":
                yield from _references(one)


if __name__ == "__main__":
    swagger = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    FILE.write_text(json.dumps(cut(swagger), sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
