"""Programs that run on nodes: standard library only, Python 3.9 or later."""
