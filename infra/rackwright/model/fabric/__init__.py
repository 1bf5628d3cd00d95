"""Models of the high-speed network: switches, cables, RDMA."""
