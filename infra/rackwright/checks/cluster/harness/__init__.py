"""Harness of the checks: run the probes of all nodes in parallel, one ssh connection per node, and compare their values with the plan."""
