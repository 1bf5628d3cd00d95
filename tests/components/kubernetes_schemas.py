"""Schemas of Kubernetes' own kinds and of addons' kinds, and validation against them. Unknown fields are violations.

There is one file for each release with which a lab was created, so that objects are valid on all of them.
Extracted from api/openapi-spec/swagger.json of the release's Go module k8s.io/kubernetes and from the definitions (CRDs) in the modules of
`ADDONS`, all under the Apache License 2.0: the kinds in use, without descriptions. Pods inside an addon's schema are Kubernetes' own.
`python tests/components/kubernetes_schemas.py GOMODCACHE` extracts them again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from rackwright.catalog.kubernetes import lab_releases
from rackwright.yaml_loader import load_yaml_documents

FOLDER = Path(__file__).parent / "schemas"
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
ADDONS = {
    "sigs.k8s.io/jobset@v0.10.1/config/components/crd/bases": ("JobSet",),
    "sigs.k8s.io/kueue@v0.15.2/config/components/crd/bases": ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology"),
    "github.com/kubeflow/trainer/v2@v2.1.0/manifests/base/crds": ("TrainJob", "TrainingRuntime"),
    "github.com/kubeflow/training-operator@v1.9.0/manifests/base/crds": ("PyTorchJob",),
    "go.universe.tf/metallb@v0.15.2/config/crd/bases": ("IPAddressPool", "L2Advertisement"),
    "github.com/kedacore/keda/v2@v2.21.0/config/crd/bases": ("ScaledObject",),
}
_POD = {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
_DROPPED = {"description", "format", "default"}
SWAGGER = "k8s.io/kubernetes@v{release}/api/openapi-spec/swagger.json"


def file_of(release: str) -> Path:
    """Return the file with the schemas of a release."""
    return FOLDER / f"kubernetes-{release}.json"


def breaches(wanted: Mapping[str, Any]) -> list[str]:
    """Return an object's violations of its kind in any of the releases, as `release: path: what`."""
    return [f"{release}: {breach}" for release in lab_releases() for breach in _breaches(wanted, release)]


def _breaches(wanted: Mapping[str, Any], release: str) -> Iterator[str]:
    key = f"{wanted['apiVersion']} {wanted['kind']}"
    if key not in _schemas(release)["kinds"]:
        yield f"$: there is no schema of {key}"
        return
    for breach in _validator(release, key).iter_errors(wanted):
        yield f"{breach.json_path}: {breach.message}"


@cache
def _validator(release: str, key: str) -> Draft202012Validator:
    """Return the validator of a kind; a new one would walk all definitions again."""
    schemas = _schemas(release)
    return Draft202012Validator({"$ref": f"#/definitions/{schemas['kinds'][key]}", "definitions": schemas["definitions"]})


@cache
def _schemas(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file_of(release).read_text(encoding="utf-8"))
    return found


def cut(cache: Path, release: str) -> dict[str, Any]:
    """Return all kinds of a release with everything that they refer to."""
    swagger = SWAGGER.format(release=release)
    whole = json.loads((cache / swagger).read_text(encoding="utf-8"))["definitions"]
    wanted = {f"{version} {kind}" for version, kinds in KINDS.items() for kind in kinds}
    names = {key: name for name, definition in whole.items() for key in _kinds(definition) if key in wanted}
    assert set(names) == wanted, wanted - set(names)
    added = {key: schema for folder, kinds in ADDONS.items() for key, schema in _defined(cache / folder, kinds)}
    definitions: dict[str, Any] = {}
    waiting = [*names.values(), *(name for schema in added.values() for name in _references(schema))]
    while waiting:
        name = waiting.pop()
        if name not in definitions:
            definitions[name] = _closed(whole[name])
            waiting += _references(definitions[name])
    named = {key: key.replace("/", ".").replace(" ", ".") for key in added}
    definitions |= {named[key]: schema for key, schema in added.items()}
    return {"origin": [swagger, *ADDONS], "kinds": {**names, **named}, "definitions": definitions}


def _defined(folder: Path, kinds: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield every served version of the kinds that a folder's definitions contain."""
    for file in sorted(folder.glob("*.yaml")):
        for definition in load_yaml_documents(file.read_text(encoding="utf-8")):
            if not definition or definition["kind"] != "CustomResourceDefinition" or definition["spec"]["names"]["kind"] not in kinds:
                continue
            for version in definition["spec"]["versions"]:
                if version["served"]:
                    key = f"{definition['spec']['group']}/{version['name']} {definition['spec']['names']['kind']}"
                    yield key, _closed(_with_pods(version["schema"]["openAPIV3Schema"]))


def _with_pods(part: Any) -> Any:
    """Return the schema with every inlined pod replaced by Kubernetes' own."""
    if isinstance(part, list):
        return [_with_pods(one) for one in part]
    if not isinstance(part, dict):
        return part
    if {"containers", "initContainers", "nodeSelector"} <= set(part.get("properties") or ()):
        return _POD
    return {key: _with_pods(one) for key, one in part.items()}


def _kinds(definition: Mapping[str, Any]) -> Iterator[str]:
    for one in definition.get("x-kubernetes-group-version-kind", ()):
        yield f"{one['group'] + '/' if one['group'] else ''}{one['version']} {one['kind']}"


def _closed(part: Any) -> Any:
    """Return a definition without further fields; a number or a text where Kubernetes accepts both."""
    if isinstance(part, list):
        return [_closed(one) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("format") == "int-or-string" or part.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    properties = {name: _closed(value) for name, value in part.get("properties", {}).items()}
    kept = {key: _closed(value) for key, value in part.items() if key not in _DROPPED and not key.startswith("x-") and key != "properties"}
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
    for each in lab_releases():
        text = json.dumps(cut(Path(sys.argv[1]), each), sort_keys=True, separators=(",", ":"))
        file_of(each).write_text(f"{text}\n", encoding="utf-8")
