def _launched(head: str, driver_file: str = "/proc/driver/nvidia/version", last_words: str = "/dev/termination-log") -> None:
    # Prepended to every program that runs in a pod: set the environment that every launcher provides, and report the machine.
    import glob
    import json
    import os
    import re
    import socket
    import subprocess
    import sys
    import threading

    def spawned(count: int, first: int) -> int:
        # Tasks that share a pod's GPUs: run this program again, once per task, and prefix every line with the rank of its task.
        with open("/proc/self/cmdline") as file:
            command = file.read().split("\0")[:-1]
        children = [
            subprocess.Popen(command, env=dict(os.environ, LOCAL_RANK=str(rank)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            for rank in range(count)
        ]

        def hear(rank: int, child: "subprocess.Popen[bytes]") -> None:
            assert child.stdout is not None
            for line in child.stdout:
                sys.stdout.buffer.write(b"%d: " % (first + rank) + line.rstrip(b"\n") + b"\n")
                sys.stdout.buffer.flush()

        readers = [threading.Thread(target=hear, args=pair) for pair in enumerate(children)]
        for one in readers:
            one.start()
        for one in readers:
            one.join()
        return max(abs(child.wait()) for child in children)

    environment = os.environ
    if os.path.exists(last_words):  # A pod's log mixes both streams; stderr goes to the termination message.
        os.dup2(os.open(last_words, os.O_WRONLY | os.O_APPEND), 2)
    local = int(environment.setdefault("LOCAL_WORLD_SIZE", "1"))
    first = int(environment["JOB_COMPLETION_INDEX"]) * local
    if local > 1 and "LOCAL_RANK" not in environment:
        sys.exit(spawned(local, first))
    environment["RANK"] = str(first + int(environment.setdefault("LOCAL_RANK", "0")))
    given = sorted(int(path[len("/dev/nvidia") :]) for path in glob.glob("/dev/nvidia[0-9]*"))
    environment["GPUS_GIVEN"] = ",".join(map(str, given))
    if environment.get("NVIDIA_VISIBLE_DEVICES", "void") not in ("void", "none", "all", ""):
        environment["GPUS_VISIBLE"] = environment["NVIDIA_VISIBLE_DEVICES"]
    # Programs use node names, and a pod's own name does not contain its node.
    socket.gethostname = lambda: environment["NODE_NAME"]
    header: dict[str, object] = {name: int(environment[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    header.update(job=environment["JOB_ID"], node=environment["NODE_NAME"], host=environment["HOST_ADDRESS"], uid=os.getuid())
    if header["LOCAL_RANK"] == 0:
        driver = None
        if os.path.exists(driver_file):
            with open(driver_file) as file:
                found = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", file.read())
            driver = found and found[0]
        allowed = re.compile("PATH$|LD_LIBRARY_PATH$|LANG$|(NCCL|UCX|FI|CUDA|OMP)_|NVIDIA_VISIBLE_DEVICES$|JOB_COMPLETION_INDEX$")
        header["environment"] = {name: environment[name] for name in sorted(environment) if allowed.match(name)}
        header["versions"] = {"kernel": os.uname().release, "driver": driver, "python": sys.version.split()[0]}
    print(head + json.dumps(header), flush=True)


_launched("rackwright-task ")
del _launched
