"""The plan's objects as resources of Pulumi's provider for Kubernetes, applied on the server's side (docs/adr/0019)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from rackwright.plan import Plan
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.targets.resources import ApiTunnel, Converge

Object = Mapping[str, Any]
_PORTS: Final = (20000, 10000)
"""First port and number of ports: below the kernel's ephemeral range."""
_KEPT: Final = frozenset({"Namespace", "PersistentVolume", "PersistentVolumeClaim"})
"""Kinds whose deletion would delete users' data: Pulumi drops them from its record and leaves them in the cluster."""


class ClusterObjects(pulumi.ComponentResource):
    """Labels, plugins, namespaces, quotas, claims: every object of the plan, through a provider for this cluster."""

    def __init__(
        self, name: str, plan: Plan, hosts: Mapping[str, Mapping[str, Any]], converge: Converge, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rackwright:kubernetes:Objects", name, None, opts)
        cluster = plan.scheduler
        assert isinstance(cluster, Kubernetes)
        self._provider = _provider(plan.stack, _access(plan.stack, cluster, hosts, converge, self), self)
        self._converge = converge
        self._made: dict[str, pulumi.Resource] = {}
        for wanted in cluster.objects:
            self._made[resource_name(wanted)] = self._resource(wanted)
        self.register_outputs({"objects": list(self._made)})

    def _resource(self, wanted: Object) -> pulumi.Resource:
        """Create one object. Deleting the stack deletes the cluster with it, so that no request to its API is necessary."""
        options = pulumi.ResourceOptions(
            parent=self,
            provider=self._provider,
            depends_on=[made for name, made in self._made.items() if name in _needs(wanted)],
            deleted_with=self._converge,
            retain_on_delete=wanted["kind"] in _KEPT or None,
        )
        given = {_snake(key): value for key, value in wanted.items() if key not in {"apiVersion", "kind"}}
        known = _type(wanted)
        if known is not None:
            made: pulumi.Resource = known(resource_name(wanted), **given, opts=options)
            return made
        return k8s.apiextensions.CustomResource(resource_name(wanted), wanted["apiVersion"], wanted["kind"], **given, opts=options)


def resource_name(wanted: Object) -> str:
    """Return the object's resource name, which is constant for the life of the object.

    >>> resource_name({"kind": "ResourceQuota", "metadata": {"namespace": "research", "name": "quota"}})
    'resourcequota/research/quota'
    """
    metadata = wanted["metadata"]
    return "/".join(part for part in (wanted["kind"].lower(), metadata.get("namespace"), metadata["name"]) if part)


def port(stack: str) -> int:
    """Return the local port of the stack's API: the same at every run, since the provider's configuration contains it."""
    first, many = _PORTS
    return first + zlib.crc32(stack.encode()) % many


def _access(
    stack: str, cluster: Kubernetes, hosts: Mapping[str, Mapping[str, Any]], converge: Converge, parent: pulumi.Resource
) -> ApiTunnel:
    controller = cluster.controllers[0]
    return ApiTunnel(
        "kubernetes-access",
        controller=controller,
        through=cluster.submit_hosts[0],
        endpoint=cluster.endpoint,
        port=port(stack),
        instance_uid=hosts[controller]["instance_uid"],
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[converge]),
    )


def _provider(stack: str, access: ApiTunnel, parent: pulumi.Resource) -> k8s.Provider:
    """Set every option, so that neither the user's own kubeconfig nor an environment variable has an effect.

    Objects that the role applied before are adopted, and a renewed certificate does not count as another cluster.
    """
    return k8s.Provider(
        "kubernetes-provider",
        kubeconfig=access.kubeconfig,
        context=stack,
        cluster=stack,
        cluster_identifier=stack,
        enable_server_side_apply=True,
        enable_patch_force=True,
        upsert_existing_objects=True,
        delete_unreachable=False,
        skip_update_unreachable=False,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[access]),
    )


def _needs(wanted: Object) -> frozenset[str]:
    """Return the names of the resources on which it depends; objects that every cluster has are no resources."""
    metadata, kind = wanted["metadata"], wanted["kind"]
    needed = {f"namespace/{metadata.get('namespace')}"}
    if kind == "PersistentVolumeClaim":
        needed.add(f"persistentvolume/{wanted['spec'].get('volumeName')}")
    return frozenset(needed)


def _type(wanted: Object) -> Any:
    """Return the package's class of a built-in object; None for a kind that is defined in the cluster.

    A node registers itself: a patch sets the declared fields only, and removes only those.
    """
    group, _, version = wanted["apiVersion"].rpartition("/")
    if "." in group and (not group.endswith(".k8s.io") or group.endswith(".x-k8s.io")):
        return None
    module = import_module(f"pulumi_kubernetes.{group.partition('.')[0] or 'core'}.{version}")
    return getattr(module, "NodePatch" if wanted["kind"] == "Node" else wanted["kind"])


def _snake(key: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
