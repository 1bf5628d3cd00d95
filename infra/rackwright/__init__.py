"""GPU and HPC clusters from one description: created, configured and verified, or with the node and the phase that differ."""

__version__ = "0.1.0"
"""The version of the package, the command and the resource provider. galaxy.yml repeats it (RELEASING.md)."""
