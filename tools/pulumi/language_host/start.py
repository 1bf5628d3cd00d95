"""Entry of the Python language host: starts the fork server of program runners, then serves the engine.

The fork comes first, while this process has imported next to nothing and has no threads: the fork server loads the Pulumi SDK while
the host loads gRPC and responds, so that a program starts at once when the engine requests it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)


def main() -> None:
    """Run the host in this process and the fork server in a child."""
    # Until each side has its own handlers, a signal ends it at once: no KeyboardInterrupt, and so no traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    hosts_end, servers_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        hosts_end.close()
        from language_host.fork_server import serve_orders

        serve_orders(servers_end, engine=sys.argv[-1])
    servers_end.close()
    from language_host.host import serve

    serve(hosts_end, fork_server=child)


if __name__ == "__main__":
    main()
