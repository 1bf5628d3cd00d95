"""The files of a stack in the state directory, written from Converge's inputs: inventory, SSH configuration, key and secrets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from rackwright import inventory as rackwright_inventory
from rackwright import layout
from rackwright.errors import RackwrightError
from rackwright.files import write_atomic
from rackwright.inventory import applied, paths
from rackwright.inventory.site_playbooks import table_of_contents
from rackwright.plan import Plan
from rackwright.plan.fabric.svg import picture
from rackwright.time_limits import slowness
from rackwright.yaml_loader import load_yaml

_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's dumper if PyYAML was built with it: it writes a rack's inventory in a tenth of a second instead of one."""


class PlanVersionError(RackwrightError):
    """The recorded plan was created by another version of rackwright, with other fields."""

    def __init__(self, fields: int) -> None:
        cause = f"the recorded plan was written by another version of rackwright ({fields} of its fields differ)"
        super().__init__(cause, hint="run `rackwright up` to write a new plan and apply it")


@dataclass(frozen=True)
class StackFiles:
    """Inputs of a playbook run, and its hosts."""

    root: Path
    inventory: Path
    secrets: Path
    hosts: tuple[str, ...]
    skip_tags: tuple[str, ...]
    """Steps to skip: a prebuilt image contains what the roles install."""
    site: str = "site.yml"
    """Playbook with all phases: the product's, or a copy next to the inventory if the user has playbooks of their own."""
    boot_timeout: float = 45.0
    """Seconds until a new node is reachable over SSH."""
    target: str = ""
    """Target that provides the nodes."""


def write(stack: str, inputs: Mapping[str, Any], rotated: Collection[str] = ()) -> StackFiles:
    """Write all files of the stack; raise PlanVersionError. `rotated`: instances that already present their own host key."""
    return _write(stack, inputs, paths.inventory(stack), rotated)


def write_removal_inventory(stack: str, inputs: Mapping[str, Any], rotated: Collection[str] = ()) -> StackFiles:
    """Write the files from the record, with a separate inventory that still contains the nodes to remove."""
    return _write(stack, inputs, paths.folder(stack) / "inventory.leaving.yml", rotated)


def invalidate_report(stack: str) -> None:
    """Delete the report: its verdict does not apply to nodes that are about to change."""
    for file in (paths.report(stack), paths.report_junit(stack), paths.report_html(stack), paths.refresh_report(stack)):
        file.unlink(missing_ok=True)


def record(stack: str, inputs: Mapping[str, Any], *, converged: bool) -> None:
    """Record the stack that is being applied; do nothing if the inputs have no description."""
    if inputs.get("cluster_spec"):
        paths.prepare(stack)
        _private(paths.applied(stack), json.dumps(applied.document(inputs["cluster_spec"], inputs["plan"], converged=converged)))


def remove(stack: str) -> None:
    """Delete the stack's folder, including keys and secrets."""
    shutil.rmtree(paths.folder(stack), ignore_errors=True)
    shutil.rmtree(paths.socket_folder(stack), ignore_errors=True)


def _write(stack: str, inputs: Mapping[str, Any], inventory: Path, rotated: Collection[str]) -> StackFiles:
    try:
        plan = Plan.from_data(json.loads(inputs["plan"]))
    except ValidationError as error:
        raise PlanVersionError(error.error_count()) from None
    hosts = {name: rackwright_inventory.Host(name=name, **record) for name, record in inputs["hosts"].items()}
    paths.prepare(stack)
    secrets = {name: value for name, value in inputs["secrets"].items() if name != "access_key"}
    _private(paths.ssh_private_key_file(stack), inputs["secrets"]["access_key"])
    _private(paths.secrets(stack), yaml.safe_dump({"secrets": secrets}))
    _private(paths.known_hosts(stack), rackwright_inventory.known_hosts(plan, hosts, rotated=rotated))
    _private(paths.ssh_config(stack), rackwright_inventory.ssh_config(plan, hosts, slowness=slowness()))
    brought = {key: inputs.get(key) for key in ("sources", "bundle", "addons")}
    handed_over = rackwright_inventory.inventory(plan, hosts, **brought)
    _private(inventory, yaml.dump(handed_over, Dumper=_DUMPER, sort_keys=False))
    _write_picture(stack, plan)
    return StackFiles(
        root=layout.product_root(),
        inventory=inventory,
        secrets=paths.secrets(stack),
        site=site(stack, inputs.get("options", {}).get("site", {})),
        hosts=tuple(node.name for node in plan.nodes if node.is_in),
        boot_timeout=plan.target.boot_timeout,
        target=plan.target.kind,
        skip_tags=("install",) if rackwright_inventory.is_baked(handed_over["all"]["vars"]["cluster"]) else (),
    )


def site(stack: str, own: Mapping[str, Sequence[str]]) -> str:
    """Return the playbook with all phases; with playbooks of the user, it is a file of the stack."""
    if not own:
        paths.site(stack).unlink(missing_ok=True)
        return "site.yml"
    product = layout.product_root()
    phases = load_yaml((product / layout.SITE_PLAYBOOK).read_text(encoding="utf-8"))
    _private(paths.site(stack), yaml.safe_dump(table_of_contents(phases, own, product, paths.project_root()), sort_keys=False))
    return str(paths.site(stack))


def _write_picture(stack: str, plan: Plan) -> None:
    """Write the fabric's picture, for the report."""
    if plan.fabric is None:
        paths.fabric_picture(stack).unlink(missing_ok=True)
    else:
        _private(paths.fabric_picture(stack), picture(plan))


def _private(path: Path, content: str) -> None:
    """Write a file that only its owner may read, completely or not at all; keep a file with the same content."""
    if path.is_file() and path.read_bytes() == content.encode():
        return
    write_atomic(path, content, 0o600)
