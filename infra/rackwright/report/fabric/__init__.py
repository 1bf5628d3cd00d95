"""The real fabric: what the tools of InfiniBand print, and its comparison with the planned cables."""
