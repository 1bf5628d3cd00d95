"""Upper bounds of numbers that other programs store. An error names the limit and its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from rackwright.model.notation import refuse


@dataclass(frozen=True, slots=True)
class AtMost:
    """Upper bound of a whole number, as metadata of its type. The JSON schema has it as `maximum`."""

    limit: int
    source: str
    """Completes the hint `use at most LIMIT: `."""
    unit: str = ""
    """Unit of the number in messages, for example s."""

    def check(self, value: int) -> int:
        """Return the value; refuse one above the limit."""
        if value > self.limit:
            refuse("value", f"`{value}{self.unit}` is too large", f"use at most {self.limit}{self.unit}: {self.source}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the type with the check behind it."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema of the type with the limit; times and sizes are texts there."""
        found = handler(schema)
        return {**found, "maximum": self.limit} if found.get("type") == "integer" else found


SLURM_FAIRSHARE: Final = AtMost(2**31 - 2, "slurmdbd stores 31 bits, and 2147483647 means `parent` (Slurm: slurm/slurmdb.h)")
"""SLURMDB_FS_USE_PARENT is 0x7FFFFFFF. sacctmgr accepts 64 bits, keeps 32 of them, and slurmdbd ignores values with the highest bit."""
SLURM_NUMBER: Final = AtMost(2**31 - 1, "slurmdbd stores 31 bits (Slurm: accounting_storage/mysql)")
"""Limits of jobs and priorities: slurmdbd writes the value only if it is positive as a signed number of 32 bits (as_mysql_qos.c,
accounting_storage_mysql.c), so that a larger one is accepted and has no effect."""
SLURM_GPUS: Final = AtMost(
    2**31 - 1, "a larger limit is a typing error; Slurm takes the largest numbers of 64 bits for no limit (slurm/slurm.h)"
)
"""The limit is chosen. INFINITE64 and NO_VAL64 are 2^64 - 1 and 2^64 - 2, and a longer number is read as the first."""
SLURM_NODES: Final = AtMost(65536, "Slurm manages no more nodes (Slurm: slurm/slurm.h)")
"""MAX_SLURM_NODES. slurmctld does not start with a number of more than 32 bits."""
SLURM_TIMEOUT: Final = AtMost(65533, "Slurm stores 16 bits, of which the two highest values have a meaning (slurm/slurm.h)", "s")
"""NO_VAL16 and INFINITE16. slurmctld does not start with a larger number (src/common/parse_value.c)."""
KUBERNETES_COUNT: Final = AtMost(
    2**31 - 1, "a larger quota is a typing error: Kubernetes is designed for 5,000 nodes and 150,000 pods per cluster"
)
"""The limit is chosen: sums of quotas stay within the signed 64 bits of a quantity, to which Kubernetes reduces larger numbers silently
(kubernetes.io: Considerations for large clusters; apimachinery: api/resource/quantity.go)."""
RESOURCE_LIMIT: Final = AtMost((2**63 - 1) // 1024, "in KiB, the kernel stores 64 bits of bytes (setrlimit(2)); larger is `unlimited`")
"""memlock and stack are in KiB; RLIM_INFINITY is 2^64 - 1."""
