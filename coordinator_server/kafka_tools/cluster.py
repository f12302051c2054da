"""kafka-cluster.sh: show a cluster's id and brokers, and unregister a broker.

Source: Kafka's ClusterTool.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.commands import INTEGER, CommandError, CommandTool, Parser
from coordinator_server.kafka_tools.frame import (
    EXECUTION,
    FAILURES,
    ToolError,
    admin_client,
    print_uncaught,
    raise_wrapped,
    read_properties,
)
from coordinator_server.kafka_tools.java import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.schema import Message

_NAME = "kafka-cluster"
_ADMIN = "org.apache.kafka.clients.admin.KafkaAdminClient"
_NO_RACK = 10
"""The width of the rack column if no broker has a rack."""


def parser() -> Parser:
    """Return the top-level parser, which has no options."""
    return Parser(_NAME, "The Kafka cluster tool.")


def commands() -> dict[str, Parser]:
    """Return the parser of each command, by name."""
    parsers: dict[str, Parser] = {}
    for name, text in (
        ("cluster-id", "print the cluster id"),
        ("unregister", "unregister a broker"),
        ("unregister-controller", "unregister a controller"),
        ("list-endpoints", "print the addresses of the brokers"),
        ("api-versions", "print the API versions of each broker"),
    ):
        command = parsers[name] = Parser(f"{_NAME} {name}", text)
        servers = command.add_mutually_exclusive_group()
        servers.add_argument(
            "--bootstrap-server", "-b", metavar="host:port", help="bootstrap server"
        )
        servers.add_argument(
            "--bootstrap-controller",
            "-C",
            metavar="host:port",
            help="not supported: use --bootstrap-server",
        )
        command.add_argument("--config", metavar="FILE", help="deprecated name of --command-config")
        command.add_argument(
            "--command-config", "-c", metavar="FILE", help="properties file with client settings"
        )
        if name.startswith("unregister"):
            command.add_argument(
                "--id", "-i", type=INTEGER, required=True, help="id of the broker or controller"
            )
        if name == "list-endpoints":
            command.add_argument(
                "--include-fenced-brokers", action="store_true", help="also print fenced brokers"
            )
    return parsers


def run(options: argparse.Namespace) -> int:
    """Run a command and return the exit code."""
    if options.bootstrap_controller is not None:
        raise CommandError(f"{_NAME}: --bootstrap-controller: use --bootstrap-server")
    if options.bootstrap_server is None:
        commands()[options.command].error(
            "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required"
        )
    work: dict[str, Callable[[Client, argparse.Namespace], None]] = {
        "cluster-id": _cluster_id,
        "unregister": _unregister,
        "unregister-controller": _unregister_controller,
        "list-endpoints": _endpoints,
        "api-versions": _api_versions,
    }
    try:
        with admin_client(options.bootstrap_server, _properties(options)) as client:
            try:
                work[options.command](client, options)
            except ClientError as error:
                raise_wrapped(error, EXECUTION)
    except FAILURES as error:
        return print_uncaught(error)
    return 0


def _properties(options: argparse.Namespace) -> dict[str, str]:
    path = options.command_config
    if options.config is not None:
        if path is not None:
            raise ToolError(
                "net.sourceforge.argparse4j.inf.ArgumentParserException",
                "--config and --command-config cannot be specified together.",
            )
        path = options.config
        print(
            "Option --config has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    return {} if path is None else read_properties(path)


def _cluster_id(client: Client, options: argparse.Namespace) -> None:
    client.metadata([])
    print(f"Cluster ID: {client.cluster_id}")


def _unregister(client: Client, options: argparse.Namespace) -> None:
    from protocol.apis.unregister_broker import UnregisterBrokerRequest

    request = UnregisterBrokerRequest(broker_id=options.id)
    _forget(client, "Broker", request, options.id)


def _unregister_controller(client: Client, options: argparse.Namespace) -> None:
    from protocol.apis.unregister_controller import UnregisterControllerRequest

    request = UnregisterControllerRequest(controller_id=options.id)
    _forget(client, "Controller", request, options.id)


def _forget(client: Client, what: str, request: Message, node_id: int) -> None:
    answer = client.ask_controller(f"unregister{what}", request)
    try:
        check(answer.error_code, answer.error_message or None)
    except ClientError as error:
        kind = what.lower()
        label = f"[AdminClient clientId={client.settings.client_id}]"
        text = f"Unregister {kind} request for {kind} ID {node_id} failed: {error}"
        log("ERROR", f"{label} {text}", _ADMIN)
        raise
    print(f"{what} {node_id} is no longer registered.")


def _endpoints(client: Client, options: argparse.Namespace) -> None:
    from protocol.apis.describe_cluster import DescribeClusterRequest

    request = DescribeClusterRequest(include_fenced_brokers=options.include_fenced_brokers)
    answer: Any = client.call("describeCluster", lambda: client.ask(request))
    check(answer.error_code, answer.error_message)
    brokers = sorted(answer.brokers, key=lambda broker: int(broker.broker_id))
    racks = [len(broker.rack) for broker in brokers if broker.rack is not None]
    widths = [
        10,
        max(len(broker.host) for broker in brokers),
        10,
        max(racks, default=_NO_RACK),
        10,
        15,
    ]
    rows: list[list[object]] = [["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]]
    for broker in brokers:
        state = "fenced" if broker.is_fenced else "unfenced"
        rack = "null" if broker.rack is None else broker.rack
        rows.append([broker.broker_id, broker.host, broker.port, rack, state, "broker"])
    for row in rows:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


def _api_versions(client: Client, options: argparse.Namespace) -> None:
    from coordinator_server.kafka_tools.api_versions import print_versions

    racks = {broker.node_id: broker.rack for broker in client.metadata([]).brokers}
    print_versions(client, racks)


TOOL = CommandTool(_NAME, parser, commands, run)
