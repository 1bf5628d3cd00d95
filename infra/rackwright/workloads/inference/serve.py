"""Serve a checkpoint of the training program over HTTP until SIGTERM; requests in progress and those that still arrive are answered.

Environment: CHECKPOINT, the folder of a checkpoint; REVISION, a text that tells two servers of one checkpoint apart.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from rackwright.workloads.inference.engine import BATCH, QUEUE, Engine
from rackwright.workloads.inference.http_server import Drain, ModelServer
from rackwright.workloads.inference.metrics import Metrics


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-name", required=True, help="name of the model in requests and metrics")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one")
    parser.add_argument("--batch", type=int, default=BATCH, help="requests that are generated together")
    parser.add_argument("--queue", type=int, default=QUEUE, help="requests that may wait")
    parser.add_argument("--drain-least", type=float, default=Drain.least, help="seconds to accept connections after SIGTERM")
    parser.add_argument("--drain-quiet", type=float, default=Drain.quiet, help="seconds without a connection before the end")
    parser.add_argument("--drain-most", type=float, default=Drain.most, help="seconds after SIGTERM to the end in any case")
    return parser.parse_args(arguments)


def run(server: ModelServer, how: Drain) -> int:
    """Serve until SIGTERM; return the requests that the end cut."""
    cut: list[int] = []
    drainer = threading.Thread(target=lambda: cut.append(server.drain(how)))

    def end(*_: object) -> None:
        if not cut and not drainer.is_alive():
            drainer.start()

    signal.signal(signal.SIGTERM, end)
    server.serve_forever(poll_interval=0.05)
    drainer.join()
    return cut[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Load the checkpoint and serve; exit with 1 if the checkpoint is damaged or a request was cut."""
    from rackwright.workloads.inference.torch_model import DamagedCheckpointError, TorchModel

    options = parse(arguments)
    checkpoint = Path(os.environ["CHECKPOINT"])
    fingerprint = "/".join(filter(None, (checkpoint.name, os.environ.get("REVISION", ""))))
    try:
        model = TorchModel(checkpoint)
    except DamagedCheckpointError as error:
        print(error, file=sys.stderr)
        return 1
    metrics = Metrics(options.model_name, {**model.facts, "checkpoint": fingerprint})
    engine = Engine(model, metrics, batch=options.batch, limit=options.queue)
    server = ModelServer((options.host, options.port), engine, options.model_name, fingerprint)
    print(f"serving {fingerprint} on port {server.server_address[1]}", flush=True)
    cut = run(server, Drain(options.drain_least, options.drain_quiet, options.drain_most))
    print(f"ended; {cut} requests cut", flush=True)
    return 1 if cut else 0


if __name__ == "__main__":
    sys.exit(main())
