"""The product's own verification: checks of a live cluster against its plan. `python -m rackwright.checks.cluster --help` runs them."""
