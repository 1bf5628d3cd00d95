"""The product's own verification: checks of a live cluster against its plan. `python tests/cluster --help` runs them."""
