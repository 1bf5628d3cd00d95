"""Checks of a live cluster against its plan. `python -m rackwright.checks.cluster --help` lists the options."""
