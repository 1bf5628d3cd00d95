"""The `pulumi` in .venv/bin: the real engine with the defaults a bare one cannot take from Pulumi.yaml."""

import os

_PRODUCT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
IS_INSTALLED = os.path.basename(_PRODUCT) == "_data"
"""Whether this is the shim of an installed wheel, which lies in rackwright/_data (infra/rackwright/layout.py), or of a checkout."""
PACKAGE = os.path.dirname(_PRODUCT) if IS_INSTALLED else os.path.join(_PRODUCT, "infra", "rackwright")
"""Folder of the package `rackwright`."""
