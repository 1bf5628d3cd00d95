"""Resource tokens and where their classes live; a class is imported when the engine first asks for it."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from rackwright.provider.protocol.resource import Resource

_CLASSES = {
    "rackwright:aws:Label": "rackwright.provider.aws.stack_marker:AwsLabel",
    "rackwright:hosts:Host": "rackwright.provider.hosts.host:Host",
    "rackwright:kubernetes:Access": "rackwright.provider.kubernetes.api_tunnel:Access",
    "rackwright:kubernetes:Addon": "rackwright.provider.kubernetes.addon:Addon",
    "rackwright:kubernetes:Bundle": "rackwright.provider.kubernetes.bundle:Bundle",
    "rackwright:lab:Image": "rackwright.provider.lab.image:Image",
    "rackwright:lab:Label": "rackwright.provider.lab.stack_marker:Label",
    "rackwright:lab:Limits": "rackwright.provider.lab.inotify_limits:Limits",
    "rackwright:lab:Network": "rackwright.provider.lab.network:Network",
    "rackwright:lab:Node": "rackwright.provider.lab.node:Node",
    "rackwright:lab:Power": "rackwright.provider.lab.power:Power",
    "rackwright:lab:Volume": "rackwright.provider.lab.volume:Volume",
    "rackwright:secret:KeyPair": "rackwright.provider.generated.ssh_key_pair:KeyPair",
    "rackwright:secret:Bytes": "rackwright.provider.generated.random_bytes:Bytes",
    "rackwright:time:Moment": "rackwright.provider.generated.timestamp:Moment",
    "rackwright:ansible:Converge": "rackwright.provider.stack.converge:Converge",
    "rackwright:test:Verification": "rackwright.provider.stack.verification:Verification",
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
