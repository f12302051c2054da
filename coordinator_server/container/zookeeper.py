"""The image's `zookeeper-server-start`: opens a port and prints that no ZooKeeper is needed.

Testcontainers modules start a ZooKeeper beside the broker, and some wait until its port accepts
connections. There is no ZooKeeper here, because current Kafka does not need one: connections are
closed at once.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    from coordinator_server.__main__ import find_packages

    find_packages()

from coordinator_server.config.properties import parse_properties

DEFAULT_PORT = 2181


def main(arguments: Sequence[str]) -> int:
    """Accept connections at the `clientPort` of a properties file until the process ends."""
    port = DEFAULT_PORT
    try:
        for file in arguments[-1:]:
            with open(file, encoding="latin-1") as stream:
                port = int(parse_properties(stream.read()).get("clientPort", port))
        listening = socket.create_server(("", port))
    except (OSError, ValueError) as error:
        print(f"zookeeper-server-start: {error}", file=sys.stderr)
        return 1
    print(
        f"zookeeper-server-start: there is no ZooKeeper here, port {port} does nothing", flush=True
    )
    while True:
        listening.accept()[0].close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
