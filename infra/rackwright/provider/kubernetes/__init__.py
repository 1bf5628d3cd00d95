"""Resources of Kubernetes stacks: bundle, add-ons, tunnel to the API server."""
