"""Values that follow from a cluster by arithmetic: nodes, addresses, fabric layout, cost."""
