"""External probes of the published port, the ssh ports and the ports of Kubernetes, from outside the cluster."""

from __future__ import annotations

from rackwright.checks.cluster.harness.external_probes import (
    ExternalProbe,
    probe_from_external_container,
    probe_from_this_machine,
    probe_kubernetes_ports,
    probe_published_port,
)

SSH_BANNER = "SSH-2.0"

_PORT = "access.published_port_answers"
_MACHINE = "access.host_is_blocked"
_STRANGER = "access.blocks_external"
_KUBERNETES = "kubernetes.not_reachable_externally"

PUBLISHED = ExternalProbe("published", "@entry", probe_published_port, needed_by=(_PORT, _MACHINE, _KUBERNETES))
FROM_MACHINE = ExternalProbe("from-this-machine", "@insiders", probe_from_this_machine, needed_by=(_MACHINE,))
FROM_EXTERNAL_CONTAINER = ExternalProbe("from-external-container", "nodes", probe_from_external_container, needed_by=(_STRANGER,))
KUBERNETES_FROM_MACHINE = ExternalProbe("kubernetes-from-this-machine", "kubernetes", probe_kubernetes_ports, needed_by=(_KUBERNETES,))
