"""One typed description of a GPU cluster: provisioned, converged and proven, or the node and the phase named that is not."""

__version__ = "0.1.0"
"""The version of the package, the command and the resource provider. galaxy.yml repeats it (RELEASING.md)."""
