def _launched(head: str, driver_file: str = "/proc/driver/nvidia/version") -> None:
    # Prepended to every program that is submitted to Slurm: set the environment that every launcher provides, and report the machine.
    import json
    import os
    import re
    import socket
    import subprocess
    import sys

    environment = os.environ
    ours = {"RANK": "PROCID", "WORLD_SIZE": "NTASKS", "LOCAL_RANK": "LOCALID", "JOB_ID": "JOB_ID"}
    for name, slurm_name in ours.items():
        environment[name] = environment["SLURM_" + slurm_name]
    environment["NODE_NAME"] = environment["SLURMD_NODENAME"]
    environment["LOCAL_WORLD_SIZE"] = environment.get("SLURM_NTASKS_PER_NODE", "1")
    for name, slurm_name in {"GPUS_GIVEN": "SLURM_STEP_GPUS", "GPUS_VISIBLE": "CUDA_VISIBLE_DEVICES"}.items():
        if slurm_name in environment:
            environment[name] = environment[slurm_name]
    environment.setdefault("MASTER_PORT", str(20000 + int(environment["JOB_ID"]) % 10000))
    header: dict[str, object] = {name: int(environment[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    header.update(job=environment["JOB_ID"], node=environment["NODE_NAME"], host=socket.gethostname(), uid=os.getuid())
    if header["LOCAL_RANK"] == 0:
        driver = None
        if os.path.exists(driver_file):
            with open(driver_file) as file:
                found = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", file.read())
            driver = found and found[0]
        elif environment.get("CUDA_VISIBLE_DEVICES"):
            query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
            try:
                lines = subprocess.run(query, stdout=subprocess.PIPE, timeout=20, check=False).stdout.decode().split()
            except (OSError, subprocess.TimeoutExpired):
                lines = []
            driver = lines[0] if lines and lines[0][0].isdigit() else None
        allowed = re.compile(
            "PATH$|LD_LIBRARY_PATH$|LANG$|(NCCL|UCX|FI|CUDA|OMP)_|SLURM_(JOB_|STEP_)?(ID|NODELIST|PARTITION|NTASKS|GPUS|NNODES)$"
        )
        header["environment"] = {name: environment[name] for name in sorted(environment) if allowed.match(name)}
        header["versions"] = {"kernel": os.uname().release, "driver": driver, "python": sys.version.split()[0]}
    print(head + json.dumps(header), flush=True)


_launched("rackwright-task ")
del _launched
