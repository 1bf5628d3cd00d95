"""Outlooks on the published port, the ssh ports and the ports of Kubernetes, from outside the cluster."""

from __future__ import annotations

from rackwright.checks.cluster.harness.outside_probes import Outlook, from_a_stranger, from_this_machine, ports_of_kubernetes, published

SSH_SAYS = "SSH-2.0"

_PORT = "access.published_port_answers"
_MACHINE = "access.host_is_blocked"
_STRANGER = "access.blocks_external"
_KUBERNETES = "kubernetes.not_reachable_externally"

PUBLISHED = Outlook("published", "@entry", published, serves=(_PORT, _MACHINE, _KUBERNETES))
FROM_MACHINE = Outlook("from-this-machine", "@insiders", from_this_machine, serves=(_MACHINE,))
FROM_STRANGER = Outlook("from-a-stranger", "nodes", from_a_stranger, serves=(_STRANGER,))
KUBERNETES_FROM_MACHINE = Outlook("kubernetes-from-this-machine", "kubernetes", ports_of_kubernetes, serves=(_KUBERNETES,))
