"""How long starting Python takes here, and the factor by which time limits grow for it: `python benchmarks/slowness.py [TIMES]`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "infra"))

from rackwright.time_limits import factor


def main(times: int) -> None:
    """Print minimum, median and maximum in milliseconds, and the factor of the median."""
    found = []
    for _ in range(times):
        started = time.monotonic()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        found.append(time.monotonic() - started)
    middle = statistics.median(found)
    shown = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in (("min", min(found)), ("median", middle), ("max", max(found))))
    print(f"starting Python, {times} times: {shown}; time limits grow by the factor {factor(middle)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
