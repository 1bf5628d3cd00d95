"""Summaries of IOR and mdtest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.checks.cluster.harness.tool_output import refusing
from rackwright.errors import UndeterminedError


@dataclass(frozen=True, slots=True)
class Throughput:
    """The best of all repetitions, in millions of bytes per second; None for a direction that did not run."""

    write_mb_s: float | None
    read_mb_s: float | None


@refusing("IOR")
def parse_ior(text: str) -> Throughput:
    """Return `Max Write` and `Max Read` of IOR. Raises UndeterminedError if it did not finish."""
    found = {
        direction: float(mb) for direction, mb in re.findall(r"^Max (Write|Read):\s+[\d.]+ MiB/sec \(([\d.]+) MB/sec\)", text, re.MULTILINE)
    }
    if not found or not re.search(r"^Finished\s*:", text, re.MULTILINE):
        raise UndeterminedError(f"IOR did not finish: {_trouble(text)}")
    if re.search(r"WARNING: .*(incorrect data|Data check failed)", text) or "ERROR" in text:
        raise UndeterminedError(f"IOR: {_trouble(text)}")
    return Throughput(found.get("Write"), found.get("Read"))


@refusing("mdtest")
def parse_mdtest(text: str) -> Mapping[str, float]:
    """Return mean operations per second by operation (`File creation`, …). Raises UndeterminedError if mdtest did not finish."""
    _, found, table = text.partition("SUMMARY")
    rows = re.findall(r"^\s+((?:Directory|File|Tree) \w+)\s*:?\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$", table, re.MULTILINE)
    if not found or not rows or "-- finished at" not in table:
        raise UndeterminedError(f"mdtest did not finish: {_trouble(text)}")
    return {what: float(mean) for what, _, _, mean, _ in rows}


def _trouble(text: str) -> str:
    found = re.search(r"^.*(?:ERROR|WARNING|error|failed).*$", text, re.MULTILINE)
    return found.group(0).strip()[:160] if found else "its summary is missing"
