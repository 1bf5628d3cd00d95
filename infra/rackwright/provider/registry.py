"""Resource tokens and where their classes live; a class is imported when the engine first asks for it."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from rackwright.provider.resource import Resource

_CLASSES = {
    "rackwright:aws:Label": "rackwright.provider.aws_label:AwsLabel",
    "rackwright:hosts:Host": "rackwright.provider.hosts_host:Host",
    "rackwright:kubernetes:Access": "rackwright.provider.kubernetes_access:Access",
    "rackwright:kubernetes:Addon": "rackwright.provider.kubernetes_addon:Addon",
    "rackwright:kubernetes:Bundle": "rackwright.provider.kubernetes_bundle:Bundle",
    "rackwright:lab:Image": "rackwright.provider.lab_image:Image",
    "rackwright:lab:Label": "rackwright.provider.lab_label:Label",
    "rackwright:lab:Limits": "rackwright.provider.lab_limits:Limits",
    "rackwright:lab:Network": "rackwright.provider.lab_network:Network",
    "rackwright:lab:Node": "rackwright.provider.lab_node:Node",
    "rackwright:lab:Power": "rackwright.provider.lab_power:Power",
    "rackwright:lab:Volume": "rackwright.provider.lab_volume:Volume",
    "rackwright:secret:KeyPair": "rackwright.provider.key_pair:KeyPair",
    "rackwright:secret:Bytes": "rackwright.provider.secret_bytes:Bytes",
    "rackwright:time:Moment": "rackwright.provider.moment:Moment",
    "rackwright:ansible:Converge": "rackwright.provider.converge:Converge",
    "rackwright:test:Verification": "rackwright.provider.verification:Verification",
}


@cache
def resource(token: str) -> Resource | None:
    """The resource type behind a token; None when there is none."""
    path = _CLASSES.get(token)
    if path is None:
        return None
    module, name = path.split(":")
    made = getattr(import_module(module), name)()
    assert isinstance(made, Resource)
    return made


def tokens() -> tuple[str, ...]:
    """Every token this provider serves."""
    return tuple(_CLASSES)
