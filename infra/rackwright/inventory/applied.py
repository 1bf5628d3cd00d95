"""The stack that was applied last, `rackwright.applied/2`: stack file and plan, without secrets, to compare with the current one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from rackwright.errors import UndeterminedError
from rackwright.impact import ClusterPlan
from rackwright.model.cluster import Cluster
from rackwright.plan import Plan

SCHEMA: Final = "rackwright.applied/2"


def document(described: str, plan: str, *, converged: bool) -> dict[str, Any]:
    """Return the record of a run, from its stack file and plan as text; `converged` after all phases succeeded."""
    return {"schema": SCHEMA, "converged": converged, "cluster": json.loads(described), "plan": json.loads(plan)}


def serialize_cluster(cluster: Cluster) -> str:
    """Return a stack file as one text, because addresses follow the order of groups, and the engine sorts mappings."""
    return cluster.model_dump_json()


def read(file: Path) -> ClusterPlan | None:
    """Return the stack that was applied last; None without a record. Raise UndeterminedError if the record cannot be read."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError(f"has schema {data['schema']}, expected {SCHEMA}")
        cluster = Cluster.model_validate_json(json.dumps(data["cluster"]), strict=True)
        return ClusterPlan(cluster, Plan.from_data(data["plan"]), converged=bool(data["converged"]))
    except FileNotFoundError:
        return None
    except OSError as refused:
        raise UndeterminedError(f"cannot be read: {refused.strerror}", path=str(file), hint="check the file's type and mode") from None
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        cause = f"{error.error_count()} of its fields are not known" if isinstance(error, ValidationError) else str(error)
        raise UndeterminedError(
            f"not a valid record of the last `up`: {cause}", path=str(file), hint="the next `up` writes it again"
        ) from None
