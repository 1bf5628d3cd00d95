"""Registrations of a program under mocks: every resource with its inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pulumi

from rackwright import targets
from rackwright.drivers.aws.account import Account, AwsCredentialsError
from rackwright.inventory import paths
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_stack
from rackwright.targets import kubernetes
from rackwright.targets.resources import Converge, SshKeyPair, Verification

_MADE = {
    "rackwright:secret:SshKeyPair": {"public_key": "ssh-ed25519 AAAA", "private_key": "PRIVATE"},
    "rackwright:lab:Image": {"image": "localhost/node:1"},
    "rackwright:lab:Node": {"instance_uid": "life-1"},
    "rackwright:vm:Image": {"folder": "/images/1"},
    "rackwright:vm:CloudImage": {"folder": "/images/2"},
    "rackwright:vm:Network": {"folder": "/machines/network", "revision": "r1"},
    "rackwright:vm:Volume": {"file": "/machines/volumes/1.raw", "device": "/dev/disk/by-id/virtio-rw1"},
    "rackwright:vm:Node": {"instance_uid": "life-1"},
    "rackwright:hosts:Host": {"instance_uid": "life-1", "public_key": "ssh-ed25519 AAAA"},
    "rackwright:kubernetes:Bundle": {"folder": "/bundle"},
    "rackwright:kubernetes:ApiTunnel": {"kubeconfig": "KUBECONFIG"},
    "rackwright:time:Static": {"at": "2026-12-01T08:00:00+00:00"},
    "rackwright:ansible:Converge": {"generation": "g1"},
    "aws:ec2/eip:Eip": {"publicIp": "203.0.113.7", "allocationId": "eipalloc-1"},
    "aws:fsx/lustreFileSystem:LustreFileSystem": {"dnsName": "fs-1.fsx.example", "mountName": "abcd"},
    "aws:iam/role:Role": {"arn": "arn:aws:iam::1:role/nodes"},
    "aws:iam/instanceProfile:InstanceProfile": {"arn": "arn:aws:iam::1:instance-profile/nodes"},
}


@dataclass(frozen=True)
class RegisteredResource:
    """Options of a registration."""

    after: frozenset[str]
    """Names of the resources it waits for."""
    ignored: frozenset[str]
    """Inputs whose changes are ignored."""
    provider: str
    parent: str = ""
    """Name of the resource it is a part of."""
    kept: bool = False
    """Whether a deletion keeps the real object."""
    goes_with: str = ""
    """Name of the resource whose deletion deletes this one without a request."""


class Monitor(pulumi.runtime.mocks.MockMonitor):  # type: ignore[misc]
    """The engine's side of the mocks, which the recording alone does not see."""

    def RegisterResource(self, request: Any) -> Any:
        """Record one registration with its options."""
        after = frozenset(urn.rpartition("::")[2] for urn in request.dependencies)
        parent, with_ = (urn.rpartition("::")[2] for urn in (request.parent, request.deletedWith))
        ignored = frozenset(request.ignoreChanges)
        self.mocks.asked[request.name] = RegisteredResource(after, ignored, request.provider, parent, request.retainOnDelete, with_)
        return super().RegisterResource(request)


@dataclass
class Recording(pulumi.runtime.Mocks):  # type: ignore[misc]
    """Records every registration, and returns outputs like the provider."""

    made: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    asked: dict[str, RegisteredResource] = field(default_factory=dict)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Record one registration."""
        assert args.name not in self.made, f"{args.name} twice"
        self.made[args.name] = (args.typ, dict(args.inputs))
        return f"id-{args.name}", {"name": f"{args.name}-1", **args.inputs, **_MADE.get(args.typ, {})}

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        """Fail: the program calls no function."""
        raise AssertionError(f"{args.token} was called")

    def of(self, token: str) -> dict[str, dict[str, Any]]:
        """Return inputs by name of the resources of one type."""
        return {name: inputs for name, (typ, inputs) in self.made.items() if typ == token}


def committed(stack: str) -> Plan:
    """Return the plan of a committed stack."""
    cluster = load_stack(paths.stack_file(stack)).cluster
    assert cluster is not None
    return expand(cluster, stack)


def built(plan: Plan) -> Recording:
    """Return the registrations of a plan, up to its verification."""
    recording = Recording()

    def program() -> None:
        access = SshKeyPair("access-key", comment="test")
        made = targets.target(plan.target.kind).build(plan, access.public_key)
        secrets = {"access_key": access.private_key}
        converge = Converge("converge", plan="{}", hosts=made.hosts, sources=made.sources, secrets=secrets, digests={}, options={})
        after = pulumi.ResourceOptions(depends_on=kubernetes.applied(plan, made, converge))
        inputs: dict[str, Any] = {"generation": converge.generation, "network_revision": made.network_revision}
        Verification("verification", level="smoke", digests={}, options={}, **inputs, opts=after)

    # AWS is asked before the first resource; no test of resources has an account.
    with mock.patch.object(Account, "every", side_effect=AwsCredentialsError("no account", hint="none is needed")):
        run(program, recording, plan.stack)
    return recording


def run(program: Callable[[], None], recording: Recording, stack: str) -> None:
    """Run a program to its end, on a loop of its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        pulumi.runtime.set_mocks(recording, project="rackwright", stack=stack, monitor=Monitor(recording))

        async def whole() -> None:
            program()
            await pulumi.runtime.stack.wait_for_rpcs()

        loop.run_until_complete(whole())
    finally:
        loop.close()
        asyncio.set_event_loop(None)
