"""The hardware report: each node's hardware compared with the plan."""
