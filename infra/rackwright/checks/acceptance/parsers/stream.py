"""Output of STREAM and HPL, and the summary of HPCC, which holds both."""

from __future__ import annotations

import re

from rackwright.checks.cluster.harness.tool_output import refusing
from rackwright.errors import UndeterminedError


@refusing("STREAM")
def parse_stream(text: str) -> dict[str, float]:
    """Return the best rate by kernel (`Copy`, `Scale`, `Add`, `Triad`), GB/s. Raises UndeterminedError if missing or not validated."""
    rates = {name: float(rate) / 1000 for name, rate in re.findall(r"^(Copy|Scale|Add|Triad):\s+([\d.]+)\s", text, re.MULTILINE)}
    if "Solution Validates" not in text:
        raise UndeterminedError("STREAM did not validate its result" if "Failed Validation" in text else "STREAM did not finish")
    if len(rates) < 4:
        raise UndeterminedError(f"STREAM printed {len(rates)} of 4 rates")
    return rates


@refusing("HPL")
def parse_hpl(text: str) -> float:
    """Return the GFLOPS of the best run of HPL. Raises UndeterminedError if a residual was too large or it did not finish."""
    runs = [float(gflops) for gflops in re.findall(r"^W[RC]\S+\s+\d+\s+\d+\s+\d+\s+\d+\s+[\d.]+\s+(\S+)\s*$", text, re.MULTILINE)]
    tests = re.search(r"Finished\s+(\d+) tests with the following results:\s+(\d+) tests completed and passed", text)
    if not runs or tests is None:
        raise UndeterminedError("HPL did not finish")
    if tests.group(1) != tests.group(2):
        raise UndeterminedError(f"HPL: {tests.group(2)} of {tests.group(1)} tests passed their residual checks")
    return max(runs)


@refusing("HPCC")
def parse_hpcc(text: str) -> dict[str, float]:
    """Return `Begin of Summary section` of hpccoutf.txt. Raises UndeterminedError if it has no end or HPCC reports a failure."""
    found = re.search(r"^Begin of Summary section\.$(.*)^End of Summary section\.$", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise UndeterminedError("HPCC did not finish")
    numbers = {name: float(value) for name, value in re.findall(r"^(\w+)=([-+.\deE]+)$", found.group(1), re.MULTILINE)}
    if numbers.get("Success") != 1:
        raise UndeterminedError("HPCC reports a failure")
    return numbers
