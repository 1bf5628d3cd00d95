"""The engine's view of the resources of virtual machines. Their provider is rackwright.provider.vm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from rackwright.targets.resources import SshKeyPair


class MachineStackMarker(pulumi.CustomResource):
    """Marker of a stack of virtual machines: created before every other resource, deleted last."""

    def __init__(self, name: str, *, stack: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:vm:StackMarker", name, {"stack": stack}, opts)


class MachineImage(pulumi.CustomResource):
    """The image of virtual machines: a kernel and the node image's files."""

    folder: pulumi.Output[str]

    def __init__(self, name: str, *, node_image: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:vm:Image", name, {"node_image": node_image, "folder": None}, opts)


class MachineCloudImage(pulumi.CustomResource):
    """A vendor's image of virtual machines, copied into the cache."""

    folder: pulumi.Output[str]

    def __init__(self, name: str, *, file: str, digest: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:vm:CloudImage", name, {"file": file, "digest": digest, "folder": None}, opts)


class MachineNetwork(pulumi.CustomResource):
    """The switches between virtual machines: one process on this machine."""

    folder: pulumi.Output[str]
    revision: pulumi.Output[str]
    """New with every change and repair."""

    def __init__(self, name: str, *, stack: str, topology: str, program: str, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"stack": stack, "topology": topology, "program": program, "folder": None, "revision": None}
        super().__init__("rackwright:vm:Network", name, inputs, opts)


class MachineVolume(pulumi.CustomResource):
    """A disk that outlives its virtual machine."""

    file: pulumi.Output[str]
    device: pulumi.Output[str]

    def __init__(self, name: str, *, stack: str, size_mib: int, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {"stack": stack, "name": name, "size_mib": size_mib, "file": None, "device": None}
        super().__init__("rackwright:vm:Volume", name, inputs, opts)


class Machine(pulumi.CustomResource):
    """A virtual machine."""

    image: pulumi.Output[str]
    """Folder of the image that the machine was created from."""
    instance_uid: pulumi.Output[str]
    host_public_key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        stack: str,
        image: pulumi.Input[str],
        network: pulumi.Input[str],
        acceleration: str,
        address: str,
        prefix: int,
        mac: str,
        cpus: int,
        memory_mib: int,
        volumes: Mapping[str, pulumi.Input[str]],
        published: Sequence[str],
        host_key: SshKeyPair,
        authorized_key: pulumi.Input[str],
        rails: Sequence[Mapping[str, Any]] = (),
        cloud_image: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "name": name,
            "image": image,
            "network": network,
            "acceleration": acceleration,
            "address": address,
            "prefix": prefix,
            "mac": mac,
            "cpus": cpus,
            "memory_mib": memory_mib,
            "volumes": dict(volumes),
            "published": list(published),
            "host_key": host_key.private_key,
            "host_public_key": host_key.public_key,
            "authorized_key": authorized_key,
            "instance_uid": None,
            **({"rails": list(rails)} if rails else {}),
            **({"cloud_image": True} if cloud_image else {}),
        }
        super().__init__("rackwright:vm:Node", name, inputs, opts)
