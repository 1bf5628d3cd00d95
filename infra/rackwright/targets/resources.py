"""The provider's resources for the program: constructors with types, tokens in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi


class Image(pulumi.CustomResource):
    """The lab's node image."""

    image: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        os: str,
        source: str,
        mirror: str | None,
        digest: str,
        scheduler: str,
        bundle: pulumi.Input[str] | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"os": os, "source": source, "mirror": mirror, "digest": digest, "scheduler": scheduler, "bundle": bundle, "image": None}
        super().__init__("rackwright:lab:Image", name, inputs, opts)


class Bundle(pulumi.CustomResource):
    """Binaries and images of a Kubernetes release, built once for this user."""

    folder: pulumi.Output[str]

    def __init__(
        self, name: str, *, version: str, digest: str, extras: Sequence[str] = (), opts: pulumi.ResourceOptions | None = None
    ) -> None:
        wanted = {"version": version, "digest": digest, "folder": None} | ({"extras": list(extras)} if extras else {})
        super().__init__("rackwright:kubernetes:Bundle", name, wanted, opts)


class Addon(pulumi.CustomResource):
    """An addon's own part of the bundle, built once for this user."""

    folder: pulumi.Output[str]

    def __init__(
        self, name: str, *, addon: str, version: str, release: str, digest: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        inputs = {"addon": addon, "version": version, "release": release, "digest": digest, "folder": None}
        super().__init__("rackwright:kubernetes:Addon", name, inputs, opts)


class ApiTunnel(pulumi.CustomResource):
    """The administrator's access to a Kubernetes API, through a port of this machine."""

    kubeconfig: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        controller: str,
        through: str,
        endpoint: str,
        port: int,
        instance_uid: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"controller": controller, "through": through, "endpoint": endpoint, "port": port, "instance_uid": instance_uid}
        super().__init__("rackwright:kubernetes:ApiTunnel", name, {**inputs, "kubeconfig": None}, opts)


class StackMarker(pulumi.CustomResource):
    """Marker by which a lab's resources are found; every resource with the label depends on it."""

    def __init__(self, name: str, *, stack: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:lab:StackMarker", name, {"stack": stack}, opts)


class InotifyLimits(pulumi.CustomResource):
    """Limits that the machine must have while a lab's nodes run containers of their own."""

    def __init__(self, name: str, *, stack: str, inotify_instances: int, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:lab:InotifyLimits", name, {"stack": stack, "inotify_instances": inotify_instances}, opts)


class AwsStackMarker(pulumi.CustomResource):
    """Marker by which a stack's resources on AWS are found; the stack's AWS provider depends on it, and so does every resource."""

    def __init__(self, name: str, *, stack: str, region: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:aws:StackMarker", name, {"stack": stack, "region": region, "account": None}, opts)


class Network(pulumi.CustomResource):
    """The lab's bridge."""

    gateway: pulumi.Output[str]

    def __init__(self, name: str, *, stack: str, cidr: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:lab:Network", name, {"stack": stack, "name": stack, "cidr": cidr, "gateway": None}, opts)


class Volume(pulumi.CustomResource):
    """Data that outlives a lab node."""

    def __init__(self, name: str, *, stack: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:lab:Volume", name, {"stack": stack, "name": f"{stack}-{name}"}, opts)


class Node(pulumi.CustomResource):
    """A lab node."""

    image: pulumi.Output[str]
    """The image that the node was created from."""
    instance_uid: pulumi.Output[str]
    host_public_key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        stack: str,
        image: pulumi.Input[str],
        network: pulumi.Input[str],
        address: str,
        mac: str,
        gpus: int,
        nests: bool,
        volumes: Mapping[str, pulumi.Input[str]],
        published: Sequence[str],
        host_key: SshKeyPair,
        authorized_key: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            "name": f"{stack}-{name}",
            "hostname": name,
            "image": image,
            "network": network,
            "address": address,
            "mac": mac,
            "gpus": gpus,
            "volumes": dict(volumes),
            "published": list(published),
            "host_key": host_key.private_key,
            "host_public_key": host_key.public_key,
            "authorized_key": authorized_key,
            "instance_uid": None,
            **({"nests": True} if nests else {}),  # Left out when false: nodes that are up were recorded without it.
        }
        super().__init__("rackwright:lab:Node", name, inputs, opts)


class Host(pulumi.CustomResource):
    """An existing machine."""

    instance_uid: pulumi.Output[str]
    public_key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        stack: str,
        route: Mapping[str, Any],
        via: Mapping[str, Any] | None,
        identity: str | None,
        authorized_key: pulumi.Input[str],
        declared: Mapping[str, Any],
        leave: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "stack": stack,
            **route,
            "via": via,
            "identity": identity,
            "authorized_key": authorized_key,
            **declared,
            "leave": leave,
            "public_key": None,
            "instance_uid": None,
        }
        super().__init__("rackwright:hosts:Host", name, inputs, opts)


class PowerManager(pulumi.CustomResource):
    """The process that stops and starts a lab's workers for Slurm."""

    def __init__(
        self,
        name: str,
        *,
        stack: str,
        controller: pulumi.Input[str],
        nodes: Sequence[str],
        agent: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"stack": stack, "controller": controller, "nodes": list(nodes), "agent": agent}
        super().__init__("rackwright:lab:PowerManager", name, inputs, opts)


class SshKeyPair(pulumi.CustomResource):
    """An SSH key pair that is generated once."""

    public_key: pulumi.Output[str]
    private_key: pulumi.Output[str]

    def __init__(self, name: str, *, comment: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:secret:SshKeyPair", name, {"comment": comment, "public_key": None, "private_key": None}, opts)


class RandomBytes(pulumi.CustomResource):
    """Random bytes that are generated once."""

    base64: pulumi.Output[str]
    hex: pulumi.Output[str]

    def __init__(self, name: str, *, length: int, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:secret:RandomBytes", name, {"length": length, "base64": None, "hex": None}, opts)


class CertificateAuthority(pulumi.CustomResource):
    """The certificate authority of a stack's daemons; its key is on no node."""

    certificate: pulumi.Output[str]
    private_key: pulumi.Output[str]

    def __init__(self, name: str, *, common_name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        outputs = {"certificate": None, "private_key": None, "not_after": None}
        super().__init__("rackwright:secret:CertificateAuthority", name, {"common_name": common_name, **outputs}, opts)


class Certificate(pulumi.CustomResource):
    """A certificate of a daemon or of its client, signed by the stack's authority."""

    certificate: pulumi.Output[str]
    private_key: pulumi.Output[str]
    not_after: pulumi.Output[str]
    """ISO 8601, UTC."""

    def __init__(
        self,
        name: str,
        *,
        common_name: str,
        usage: str,
        names: Sequence[str],
        authority: CertificateAuthority,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "common_name": common_name,
            "usage": usage,
            "names": list(names),
            "authority": authority.certificate,
            "authority_key": authority.private_key,
        }
        outputs = {"certificate": None, "private_key": None, "not_after": None}
        super().__init__("rackwright:secret:Certificate", name, {**inputs, **outputs}, opts)


class StaticTime(pulumi.CustomResource):
    """The time when the stack was created."""

    at: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:time:Static", name, {"at": None}, opts)


class Converge(pulumi.CustomResource):
    """The playbooks applied to the hosts."""

    converged: pulumi.Output[bool]
    generation: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        plan: str,
        hosts: Mapping[str, Any],
        sources: Mapping[str, pulumi.Input[str]],
        secrets: Mapping[str, Any],
        digests: Mapping[str, str],
        options: Mapping[str, Any],
        cluster_spec: str = "",
        bundle: pulumi.Input[str] | None = None,
        addons: Mapping[str, pulumi.Input[str]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "plan": plan,
            "cluster_spec": cluster_spec,
            "hosts": hosts,
            "sources": sources,
            "secrets": secrets,
            "digests": digests,
            "options": options,
            "converged": None,
            "generation": None,
            **({"bundle": bundle} if bundle is not None else {}),
            **({"addons": addons} if addons else {}),
        }
        super().__init__("rackwright:ansible:Converge", name, inputs, opts)


class Verification(pulumi.CustomResource):
    """The checks run against the hosts."""

    verdict: pulumi.Output[str]
    run: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        level: str,
        generation: pulumi.Input[str],
        digests: Mapping[str, str],
        options: Mapping[str, Any],
        network_revision: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "level": level,
            "generation": generation,
            "digests": digests,
            "options": options,
            "verdict": None,
            "run": None,
            **({"network_revision": network_revision} if network_revision is not None else {}),
        }
        super().__init__("rackwright:test:Verification", name, inputs, opts)
