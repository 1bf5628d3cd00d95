"""The Pulumi program: one stack file in, one proven cluster out."""

import pulumi

from rackwright import targets
from rackwright.inventory import applied
from rackwright.targets import kubernetes, outputs, program, secrets
from rackwright.targets.resources import Converge, SshKeyPair, Verification

described = program.load(pulumi.Config().require_object("cluster"), pulumi.get_stack())
plan = described.plan
access = SshKeyPair("access-key", comment=f"rackwright {plan.stack}")
built = targets.target(plan.target.kind).build(plan, access.public_key)

converge = Converge(
    "converge",
    plan=program.serialize_plan(plan),
    cluster_spec=applied.serialize_cluster(described.cluster),
    hosts=built.hosts,
    sources=built.sources,
    bundle=built.bundle,
    addons=kubernetes.addons(plan),
    secrets={
        "access_key": access.private_key,
        "host_keys": built.host_keys,
        **secrets.generated_secrets(plan),
        **secrets.secret_files(plan),
    },
    digests=program.converge_digests(described),
    options=program.converge_options(described),
)
objects = kubernetes.applied(plan, built, converge)
verification = Verification(
    "verification",
    level=plan.level.value,
    generation=converge.generation,
    digests=program.verification_digests(),
    options=program.options(plan),
    network_revision=built.network_revision,
    opts=pulumi.ResourceOptions(depends_on=objects),
)
outputs.export(plan, converge, verification)
