"""Rules for Kubernetes."""
