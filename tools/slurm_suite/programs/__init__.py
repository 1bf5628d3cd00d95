"""Programs that run on a login node: standard library only, Python 3.9 or later."""
