"""The two scripts of Kafka's image that compose files call to see whether a broker is there.

    kafka-broker-api-versions.sh --bootstrap-server HOST:PORT
    kafka-topics.sh --bootstrap-server HOST:PORT --list

They ask the broker as Kafka's do. Everything else that Kafka's scripts can is refused with one
line and exit code 2: use those of a Kafka, or any client.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

if __name__ == "__main__":  # the settings need the package `storage`
    from coordinator_server.__main__ import find_packages

    find_packages()

from coordinator_server.config.config import parse_address
from coordinator_server.container import healthcheck

API_VERSIONS = "kafka-broker-api-versions.sh"
TOPICS = "kafka-topics.sh"


def main(script: str, arguments: Sequence[str]) -> int:
    """Run one script; 0 if the broker answers, 1 if it does not, 2 for what is not here."""
    parser = argparse.ArgumentParser(prog=script, allow_abbrev=False)
    parser.add_argument("--bootstrap-server", required=True, metavar="HOST:PORT")
    if script == TOPICS:
        parser.add_argument("--list", action="store_true", required=True)
    options = parser.parse_args(arguments)
    try:
        host, port = parse_address(options.bootstrap_server.split(",")[0])
    except ValueError as error:
        parser.error(f"--bootstrap-server: {error}")
    if script == API_VERSIONS:
        return healthcheck.main([options.bootstrap_server.split(",")[0]])
    return _list_topics(host, port)


def _list_topics(host: str, port: int) -> int:
    """The names of all topics, one a line, in order."""
    from coordinator_server.client.connection import ClientConnection, ClientError
    from protocol.apis.metadata import MetadataRequest

    try:
        connection = ClientConnection(host, port)
        topics = connection.ask("Metadata", MetadataRequest(topics=None)).topics
        connection.close()
    except ClientError as error:
        print(f"{TOPICS}: {error}", file=sys.stderr)
        return 1
    for name in sorted(topic.name for topic in topics):
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
