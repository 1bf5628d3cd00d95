"""Serves moto on 127.0.0.1: prints its port, exits with the process that started it."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # otherwise, attaching AmazonSSMManagedInstanceCore is "no such entity"

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from standins.moto_server import capacity, filesystems, gateways, images, interfaces, launch, spending

_POLL_SECONDS: Final = 0.5
"""Seconds between reads of the parent: a test run killed by SIGKILL sends no message."""


class _Quiet(WSGIRequestHandler):
    """One request, without a line in the log."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(0)


def main() -> None:
    """Patch moto and serve until the parent has exited."""
    for part in (capacity, filesystems, gateways, images, interfaces, launch, spending):
        part.install()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True, request_handler=_Quiet)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
