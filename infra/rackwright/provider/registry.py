"""Resource tokens and the modules of their classes; a class is imported at the engine's first request for it."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from rackwright.provider.protocol.resource import Resource

_CLASSES = {
    "rackwright:aws:StackMarker": "rackwright.provider.aws.stack_marker:StackMarker",
    "rackwright:hosts:Host": "rackwright.provider.hosts.host:Host",
    "rackwright:kubernetes:ApiTunnel": "rackwright.provider.kubernetes.api_tunnel:ApiTunnel",
    "rackwright:kubernetes:Addon": "rackwright.provider.kubernetes.addon:Addon",
    "rackwright:kubernetes:Bundle": "rackwright.provider.kubernetes.bundle:Bundle",
    "rackwright:lab:Image": "rackwright.provider.lab.image:Image",
    "rackwright:lab:StackMarker": "rackwright.provider.lab.stack_marker:StackMarker",
    "rackwright:lab:InotifyLimits": "rackwright.provider.lab.inotify_limits:InotifyLimits",
    "rackwright:lab:Network": "rackwright.provider.lab.network:Network",
    "rackwright:lab:Node": "rackwright.provider.lab.node:Node",
    "rackwright:lab:PowerManager": "rackwright.provider.lab.power:PowerManager",
    "rackwright:lab:Volume": "rackwright.provider.lab.volume:Volume",
    "rackwright:vm:CloudImage": "rackwright.provider.vm.cloud_image:CloudImage",
    "rackwright:vm:Image": "rackwright.provider.vm.image:Image",
    "rackwright:vm:Network": "rackwright.provider.vm.network:Network",
    "rackwright:vm:Node": "rackwright.provider.vm.node:Node",
    "rackwright:vm:StackMarker": "rackwright.provider.vm.stack_marker:StackMarker",
    "rackwright:vm:Volume": "rackwright.provider.vm.volume:Volume",
    "rackwright:secret:Certificate": "rackwright.provider.generated.certificates:Certificate",
    "rackwright:secret:CertificateAuthority": "rackwright.provider.generated.certificates:CertificateAuthority",
    "rackwright:secret:SshKeyPair": "rackwright.provider.generated.ssh_key_pair:SshKeyPair",
    "rackwright:secret:RandomBytes": "rackwright.provider.generated.random_bytes:RandomBytes",
    "rackwright:time:Static": "rackwright.provider.generated.timestamp:StaticTime",
    "rackwright:ansible:Converge": "rackwright.provider.stack.converge:Converge",
    "rackwright:test:Verification": "rackwright.provider.stack.verification:Verification",
}


@cache
def resource(token: str) -> Resource | None:
    """Return the resource type of a token, or None."""
    path = _CLASSES.get(token)
    if path is None:
        return None
    module, name = path.split(":")
    made = getattr(import_module(module), name)()
    assert isinstance(made, Resource)
    return made


def tokens() -> tuple[str, ...]:
    """Return every token that this provider serves."""
    return tuple(_CLASSES)
