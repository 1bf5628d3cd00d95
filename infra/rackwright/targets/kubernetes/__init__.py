"""Resources of a Kubernetes cluster beside its nodes, on every target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pulumi

from rackwright import layout
from rackwright.inventory import paths
from rackwright.model.scheduler.kubernetes import Cni, ObjectApplier
from rackwright.plan import Plan
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.targets import TargetResult, digests, plugins, resources

__all__ = ["addons", "applied", "bundle", "folder", "resolve_object_owner"]


def folder(plan: Plan) -> pulumi.Output[str] | None:
    """Return the bundle's folder on this machine, where the plan uses the bundle."""
    made = bundle(plan)
    return made.folder if made else None


def bundle(plan: Plan) -> resources.Bundle | None:
    """Create the bundle of binaries and images, where the plan uses no repository and no registry."""
    if plan.scheduler.kind != "kubernetes" or not plan.scheduler.bundled:
        return None
    digest = digests.kubernetes_bundle(layout.product_root(), plan.scheduler.version)
    extras = [*(["flannel"] if plan.scheduler.cni is Cni.FLANNEL else []), *(["training"] if plan.scheduler.bundles_training_image else [])]
    return resources.Bundle("kubernetes-bundle", version=plan.scheduler.version, digest=digest, extras=extras)


def addons(plan: Plan) -> dict[str, pulumi.Output[str]]:
    """Return the folder of each addon's part of the bundle on this machine."""
    cluster = plan.scheduler
    if not isinstance(cluster, Kubernetes):
        return {}
    root = layout.product_root()
    return {
        one.name: resources.Addon(
            f"kubernetes-{one.name}",
            addon=one.name,
            version=one.version,
            release=cluster.version,
            digest=digests.kubernetes_addon(root, one.name),
        ).folder
        for one in cluster.addons
    }


def resolve_object_owner(plan: Plan, environ: Mapping[str, str]) -> Plan:
    """Return the plan with the applier of its objects. If Pulumi is to apply them and has no plugin, choose the role, with a warning."""
    cluster = _by_pulumi(plan)
    if cluster is None or plugins.is_installed("kubernetes", environ):
        return plan
    missing = f"the kubernetes plugin {plugins.required_version('kubernetes')} is not installed"
    if paths.api_tunnel(plan.stack).exists():
        raise pulumi.RunError(
            f"stacks/Pulumi.{plan.stack}.yaml: scheduler.apply_with: pulumi: {missing}, and it created the objects of this cluster\n"
            f"  run `{plugins.command('kubernetes')}`: without it their drift from the declaration is unknown"
        )
    counted = Counter(one["kind"] for one in cluster.objects)
    pulumi.log.warn(
        f"stacks/Pulumi.{plan.stack}.yaml: scheduler.apply_with: pulumi: {missing}: a role applies the objects, and Pulumi will not manage "
        f"{', '.join(f'{number} {kind}' for kind, number in counted.items())}\n"
        f"  run `{plugins.command('kubernetes')}` before the first `up`; it is downloaded from Pulumi"
    )
    return plan.model_copy(update={"scheduler": cluster.model_copy(update={"apply_with": ObjectApplier.ANSIBLE})})


def applied(plan: Plan, built: TargetResult, converge: resources.Converge) -> list[pulumi.Resource]:
    """Create the cluster's objects as resources, on which later resources depend; none where the role has applied them."""
    if _by_pulumi(plan) is None:
        return []
    # Imported here only: the types of Kubernetes take seconds to load.
    from rackwright.targets.kubernetes.objects import ClusterObjects

    return [ClusterObjects("kubernetes", plan, built.hosts, converge)]


def _by_pulumi(plan: Plan) -> Kubernetes | None:
    cluster = plan.scheduler
    return cluster if isinstance(cluster, Kubernetes) and cluster.apply_with is ObjectApplier.PULUMI else None
