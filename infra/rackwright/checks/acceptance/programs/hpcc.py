"""Run HPCC on all cores of a node: HPL, DGEMM, STREAM, RandomAccess, PTRANS and FFT, each with a check of its results.

Prints one line of JSON: {"rc", "out", "err", "processes", "summary": text of hpccoutf.txt}, or {"unknown": why}. One process per core,
started by mpirun on this node alone. Works in a temporary folder, which is removed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import tempfile
from typing import Any

INPUT = """HPLinpack benchmark input file
rackwright
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{n}          Ns
1            # of NBs
{nb}         NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{p}          Ps
{q}          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""
"""hpccinf.txt: HPL's input, of which HPCC derives the sizes of the other tests."""
NB = 128
"""Rows and columns of a block (HPL, TUNING: 32 to 256)."""


def arguments() -> argparse.Namespace:
    """Return the options. `--rows`: rows of the matrix for one process; the matrix grows with the square root of the processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--processes", type=int, help="default: cores that this job may use")
    parser.add_argument("--seconds", type=float, default=60)
    return parser.parse_args()


def cores() -> int:
    """Return the number of cores of which this job may use at least one thread."""
    found = set()
    for cpu in os.sched_getaffinity(0):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                found.add(file.read().strip())
        except OSError:
            found.add(str(cpu))
    return len(found)


def grid(processes: int) -> tuple[int, int]:
    """Return rows and columns of the grid of processes: as square as possible."""
    rows = max(divisor for divisor in range(1, math.isqrt(processes) + 1) if processes % divisor == 0)
    return rows, processes // rows


def main() -> dict[str, Any]:
    """Run HPCC once."""
    options = arguments()
    missing = [name for name in ("hpcc", "mpirun") if shutil.which(name) is None]
    if missing:
        return {"unknown": f"{missing[0]} is not installed"}
    processes = options.processes or cores()
    rows, columns = grid(processes)
    # Within a job, mpirun would ask Slurm for its nodes and start the processes through srun.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PMI", "OMPI"))}
    command = ["mpirun", "-np", str(processes), "--host", f"localhost:{processes}", "hpcc"]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "hpccinf.txt"), "w") as file:
            file.write(INPUT.format(n=int(options.rows * math.sqrt(processes)), nb=NB, p=rows, q=columns))
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=options.seconds, check=False, cwd=folder, env=dict(environment, HOME=folder)
            )
        except subprocess.TimeoutExpired:
            return {"unknown": f"hpcc did not end within {options.seconds:g} s"}
        try:
            with open(os.path.join(folder, "hpccoutf.txt"), errors="replace") as file:
                summary = file.read()
        except OSError:
            summary = ""
    said = {"out": done.stdout.decode(errors="replace"), "err": done.stderr.decode(errors="replace")}
    return dict(said, rc=done.returncode, processes=processes, summary=summary)


if __name__ == "__main__":
    print(json.dumps(main()))
