"""Slurm's files as rackwright writes them: a description in, the role's own templates out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final

_ROLE: Final = Path(__file__).resolve().parents[1] / "roles" / "slurm_controller"


def handed_over(described: Mapping[str, Any], stack: str) -> dict[str, Any]:
    """The inventory of a description, every node as if it existed; a description with errors is one of ours."""
    from rackwright import inventory as rackwright_inventory
    from rackwright import rules
    from rackwright.inventory import Host
    from rackwright.model.finding import has_errors
    from rackwright.plan import expand
    from rackwright.stackfile.load import load_cluster

    loaded = load_cluster(dict(described), stack)
    findings = rules.check(loaded, date.today())
    assert loaded.cluster is not None and not has_errors(findings), "\n".join(map(str, findings))
    plan = expand(loaded.cluster, stack)
    return dict(
        rackwright_inventory.inventory(
            plan, {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", node.name) for node in plan.nodes}
        )
    )


def rendered(path: str, inventory: Mapping[str, Any], node: str, **given: Any) -> str:
    """One file of the controller's role on a node; `given` are variables that a user sets."""
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar, trust_as_template

    _find_plugins()
    loader = DataLoader()
    layers = [loader.load_from_file(str(_ROLE / name / "main.yml"), trusted_as_template=True) for name in ("defaults", "vars")]
    variables = {**layers[0], **layers[1], **inventory["all"]["vars"], **inventory["all"]["hosts"][node], **given}
    templar = Templar(loader, variables=variables)
    return str(templar.template(trust_as_template(f"{{{{ lookup('ansible.builtin.template', '{_ROLE / 'templates' / path}.j2') }}}}")))


@cache
def _find_plugins() -> None:
    """Look-ups are found as ansible-playbook finds them; a second time Ansible warns."""
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader()
