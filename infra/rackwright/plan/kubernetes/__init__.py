"""The Kubernetes part of the plan: control plane, network, objects, policies, queues."""
