"""Types of the arguments of check functions: what the fixtures of conftest.py return, and the health check passes on a node."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Record = SimpleNamespace
"""A record of the plan; its keys are attributes."""
Ask = Callable[..., Any]
"""Return what a probe read on the checked node, or on the node `of`; raise UndeterminedError without an answer."""
Members = Callable[[str], "tuple[str, ...]"]
"""Return the names of the nodes of a group."""
