"""One typed description of a GPU cluster: provisioned, converged and proven, or the node and the phase named that is not."""
