"""Stands in for the module of the same name: nothing reaches a node, and the result is what the module was asked to do."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

ActionModule = run_path(str(Path(__file__).with_name("rackwright_systemd_units.py")))["ActionModule"]
