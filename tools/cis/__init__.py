"""Items of the CIS Kubernetes Benchmark on a stack's nodes, with each deviation explained (docs/adr/0032-cis-items.md)."""
