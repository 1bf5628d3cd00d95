"""Types of the arguments of check functions. The fixtures of conftest.py return them; on a node, the health check passes them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Record = SimpleNamespace
"""A record of the plan; its keys are attributes."""
Ask = Callable[..., Any]
"""Return the value of a probe for the checked node, or for the node `of`. Raise UndeterminedError where there is none."""
Members = Callable[[str], "tuple[str, ...]"]
"""Return the names of the nodes of a group."""
