"""The administrator's access to the Kubernetes API of a stack, used by Pulumi's Kubernetes provider."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import yaml

from rackwright.drivers import api_tunnel
from rackwright.drivers.process import run
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.protocol.property_values import UNKNOWN, Properties, Secret
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource
from rackwright.yaml_loader import load_yaml

_ADMIN: Final = "/etc/kubernetes/admin.conf"
_NAME_IN_CERTIFICATE: Final = "kubernetes"
"""kubeadm adds this address to every API server's certificate; addresses of this machine are not in it."""


class ApiTunnel(Resource):
    """Inputs: controller, through (a login node), endpoint, port (here), instance_uid (the controller's). Outputs: `kubeconfig`, secret."""

    token: ClassVar[str] = "rackwright:kubernetes:ApiTunnel"
    required: ClassVar[tuple[str, ...]] = ("controller", "through", "endpoint", "port")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown kubeconfig; the cluster creates it."""
        return {**news, "kubeconfig": Secret(UNKNOWN)}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Fetch the administrator's kubeconfig and open the tunnel that it points at."""
        written = await _fetched(operation.stack, news["controller"])
        await api_tunnel.record(operation.stack, api_tunnel.ApiEndpoint(news["port"], news["through"], news["endpoint"]))
        config = _kubeconfig(operation.stack, news["port"], written)
        return LiveResource(operation.name, {**news, "kubeconfig": Secret(config)})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Read the kubeconfig again, since certificates are renewed.

        Keep the recorded one for an unreachable cluster; Converge reports that.
        """
        try:
            return await self.create(operation, state.inputs)
        except RackwrightError as unreachable:
            await operation.warn(str(unreachable))
            return LiveResource(state.id, {**state.outputs, "kubeconfig": Secret(state.outputs["kubeconfig"])})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Open the tunnel again: another controller, another instance of it, or another endpoint."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Close the tunnel; the credentials exist in the state only."""
        await api_tunnel.forget(operation.stack)


async def _fetched(stack: str, controller: str) -> str:
    ended = await run(["ssh", "-F", str(paths.ssh_config(stack)), controller, "sudo", "-n", "cat", _ADMIN], timeout=30)
    if not ended.ok:
        said = (ended.stderr.strip().splitlines() or [f"ssh ended with status {ended.status}"])[-1]
        raise RackwrightError(f"{_ADMIN} cannot be read: {said}", path=controller, hint=f"`rackwright ssh {stack} {controller}`")
    return ended.stdout


def _kubeconfig(stack: str, port: int, written: str) -> str:
    """Return the administrator's kubeconfig with the local endpoint: one cluster, user and context, each named like the stack."""
    found: dict[str, Any] = load_yaml(written)
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    reached = {"server": f"https://{api_tunnel.HERE}:{port}", "tls-server-name": _NAME_IN_CERTIFICATE}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": stack, "cluster": {"certificate-authority-data": cluster["certificate-authority-data"], **reached}}],
            "users": [{"name": stack, "user": user}],
            "contexts": [{"name": stack, "context": {"cluster": stack, "user": stack}}],
            "current-context": stack,
        },
        sort_keys=False,
    )
