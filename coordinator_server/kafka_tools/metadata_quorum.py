"""kafka-metadata-quorum.sh: describe the controller quorum, add and remove controllers.

Source: Kafka's MetadataQuorumCommand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinator_server.client import Client, ClientError, check
from coordinator_server.kafka_tools.commands import (
    INTEGER,
    CommandError,
    CommandTool,
    Parser,
    print_table,
)
from coordinator_server.kafka_tools.frame import (
    EXECUTION,
    FAILURES,
    admin_client,
    print_uncaught,
    raise_wrapped,
    read_properties,
)
from coordinator_server.kafka_tools.java import uuid_text
from protocol.json_form import uuid_from_text
from protocol.schema import ZERO_UUID

_NAME = "kafka-metadata-quorum"
_METADATA = "__cluster_metadata"
_CONFIGURATION = "Is this a valid controller configuration file?"
_UUID_BYTES, _UUID_CHARACTERS = 16, 24
_COLUMNS = (
    *("NodeId", "DirectoryId", "LogEndOffset", "Lag"),
    *("LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"),
)


def parser() -> Parser:
    """Return the top-level parser, with the options of all commands."""
    top = Parser(_NAME, "This tool describes kraft metadata quorum status.")
    servers = top.add_mutually_exclusive_group()
    servers.add_argument("--bootstrap-server", metavar="host:port", help="bootstrap servers")
    servers.add_argument(
        "--bootstrap-controller", metavar="host:port", help="not supported: use --bootstrap-server"
    )
    top.add_argument(
        "--command-config",
        metavar="FILE",
        help=(
            "properties file with client settings; for add-controller, with the settings "
            "of the controller"
        ),
    )
    return top


def commands() -> dict[str, Parser]:
    """Return the parser of each command, by name."""
    describe = Parser(f"{_NAME} describe", "describe the metadata quorum")
    describe.add_argument("--status", action="store_true", help="print a summary")
    describe.add_argument("--replication", action="store_true", help="print the replicas")
    describe.add_argument("--human-readable", action="store_true", help="print times as ages")
    add = Parser(f"{_NAME} add-controller", "add a controller to the quorum")
    add.add_argument("--dry-run", action="store_true", help="print the change without making it")
    remove = Parser(f"{_NAME} remove-controller", "remove a controller from the quorum")
    remove.add_argument(
        "--controller-id", "-i", type=INTEGER, required=True, help="id of the controller"
    )
    remove.add_argument(
        "--controller-directory-id", "-d", required=True, help="directory id of the controller"
    )
    remove.add_argument("--dry-run", action="store_true", help="print the change without making it")
    remove.add_argument(
        "--unregister",
        action="store_true",
        help="not supported: unregister the controller with kafka-cluster",
    )
    return {"describe": describe, "add-controller": add, "remove-controller": remove}


def run(options: argparse.Namespace) -> int:
    """Run a command and return the exit code."""
    if options.bootstrap_controller is not None:
        raise CommandError(f"{_NAME}: --bootstrap-controller: use --bootstrap-server")
    if options.bootstrap_server is None:
        parser().error("one of the arguments --bootstrap-server --bootstrap-controller is required")
    path = options.command_config
    if path is not None and not Path(path).exists():
        raise CommandError(f"Properties file {path} does not exist.")
    work = {"describe": _describe, "add-controller": _add, "remove-controller": _remove}
    try:
        properties = {} if path is None else read_properties(path)
        with admin_client(options.bootstrap_server, properties) as client:
            try:
                work[options.command](client, options, properties)
            except ClientError as error:
                raise_wrapped(error, EXECUTION)
    except FAILURES as error:
        return print_uncaught(error)
    return 0


def _ask(client: Client, name: str, request: Any) -> Any:
    answer = client.ask_controller(name, request)
    check(answer.error_code, answer.error_message or None)
    return answer


# --- describe -------------------------------------------------------------------------------------


def _describe(client: Client, options: argparse.Namespace, properties: dict[str, str]) -> None:
    if options.status and options.replication:
        raise CommandError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not options.status and not options.replication:
        raise CommandError(
            "One of --status or --replication must be specified with describe sub-command"
        )
    if options.status and options.human_readable:
        raise CommandError("The option --human-readable is only supported along with --replication")
    from protocol.apis.describe_quorum import DescribeQuorumRequest, QuorumPartition, QuorumTopic

    topic = QuorumTopic(topic_name=_METADATA, partitions=[QuorumPartition()])
    request = DescribeQuorumRequest(topics=[topic])
    answer = _ask(client, "describeMetadataQuorum", request)
    partition = answer.topics[0].partitions[0]
    check(partition.error_code, partition.error_message)
    if options.status:
        _print_status(client, answer, partition)
    else:
        rows = list(_replicas(partition, is_readable=options.human_readable))
        print_table(_COLUMNS, rows)


def _leader(partition: Any) -> Any:
    return next(
        voter for voter in partition.current_voters if voter.replica_id == partition.leader_id
    )


def _print_status(client: Client, answer: Any, partition: Any) -> None:
    client.metadata([])
    leader = _leader(partition)
    slowest = min(partition.current_voters, key=lambda voter: int(voter.log_end_offset))
    times = [voter.last_caught_up_timestamp for voter in (leader, slowest)]
    lag_ms = -1 if -1 in times else times[0] - times[1]
    nodes = {node.node_id: node.listeners for node in answer.nodes}

    def shown(replicas: Any) -> str:
        texts = (_replica(replica, nodes.get(replica.replica_id, ())) for replica in replicas)
        return f"[{', '.join(texts)}]"

    for name, value in (
        ("ClusterId", client.cluster_id),
        ("LeaderId", partition.leader_id),
        ("LeaderEpoch", partition.leader_epoch),
        ("HighWatermark", partition.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - slowest.log_end_offset),
        ("MaxFollowerLagTimeMs", 0 if slowest is leader else lag_ms),
        ("CurrentVoters", shown(partition.current_voters)),
        ("CurrentObservers", shown(partition.observers)),
    ):
        print(f"{name + ':':24}{value}")


def _replica(state: Any, listeners: Any) -> str:
    """Return a replica in the format of Kafka's tool, which is almost JSON."""
    text = f'{{"id": {state.replica_id}'
    if state.replica_directory_id != ZERO_UUID:
        text += f', "directoryId": "{uuid_text(state.replica_directory_id)}"'
    if listeners:
        places = ", ".join(
            f'"{_endpoint(listener.name, listener.host, listener.port)}"' for listener in listeners
        )
        text += f', "endpoints": [{places}]'
    return text + "}"


def _endpoint(name: str, host: str, port: int) -> str:
    return f"{name}://{f'[{host}]' if ':' in host else host}:{port}"


def _replicas(partition: Any, *, is_readable: bool) -> Iterator[tuple[object, ...]]:
    """Yield the table rows: the leader, the followers, the observers."""
    leader = _leader(partition)
    followers = [voter for voter in partition.current_voters if voter is not leader]
    now_ms = int(time.time() * 1000)

    def shown(time_ms: int) -> object:
        return f"{now_ms - time_ms} ms ago" if is_readable and time_ms >= 0 else time_ms

    for status, states in (
        ("Leader", [leader]),
        ("Follower", followers),
        ("Observer", partition.observers),
    ):
        for state in states:
            yield (
                state.replica_id,
                uuid_text(state.replica_directory_id),
                state.log_end_offset,
                leader.log_end_offset - state.log_end_offset,
                shown(state.last_fetch_timestamp),
                shown(state.last_caught_up_timestamp),
                status,
            )


# --- add-controller and remove-controller ---------------------------------------------------------


def _add(client: Client, options: argparse.Namespace, properties: dict[str, str]) -> None:
    from protocol.apis.add_raft_voter import AddRaftVoterRequest, VoterListener

    if options.command_config is None:
        raise CommandError(
            "You must supply the configuration file of the controller you are adding when using "
            "add-controller."
        )
    node_id = _controller_id(properties)
    directory_id = _directory_id(properties)
    listeners = _listeners(properties)
    if not options.dry_run:
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=client.settings.request_timeout_ms,
            voter_id=node_id,
            voter_directory_id=uuid_from_text(directory_id),
            listeners=[VoterListener(name=a, host=b, port=c) for a, b, c in listeners],
        )
        _ask(client, "addRaftVoter", request)
    done = "DRY RUN of adding" if options.dry_run else "Added"
    places = ", ".join(_endpoint(*listener) for listener in listeners)
    print(f"{done} controller {node_id} with directory id {directory_id} and endpoints: {places}")


def _controller_id(properties: dict[str, str]) -> int:
    if "node.id" not in properties:
        raise CommandError(f"node.id not found in configuration file. {_CONFIGURATION}")
    node_id = int(properties["node.id"])
    if node_id < 0:
        raise CommandError(f"node.id was negative in configuration file. {_CONFIGURATION}")
    if "controller" not in properties.get("process.roles", ""):
        text = "process.roles did not contain 'controller' in configuration file."
        raise CommandError(f"{text} {_CONFIGURATION}")
    return node_id


def _directory_id(properties: dict[str, str]) -> str:
    directory = properties.get("metadata.log.dir", properties.get("log.dirs", "").split(",")[0])
    if not directory:
        text = "Neither metadata.log.dir nor log.dirs were found."
        raise CommandError(f"{text} {_CONFIGURATION}")
    path = f"{directory}/meta.properties"
    if not Path(path).exists():
        raise CommandError(f"Unable to read meta.properties from {directory}")
    directory_id = read_properties(path).get("directory.id")
    if directory_id is None:
        raise CommandError(f"No directory id found in {directory}")
    return directory_id


def _listeners(properties: dict[str, str]) -> list[tuple[str, str, int]]:
    """Return name, host and port of the controller listeners."""
    endpoints: dict[str, tuple[str, str, int]] = {}
    for setting in ("listeners", "advertised.listeners"):
        for item in filter(None, properties.get(setting, "").split(",")):
            name, _, place = item.strip().partition("://")
            host, _, port = place.rpartition(":")
            endpoints[name.upper()] = name.upper(), host.strip("[]") or "localhost", int(port)
    if "controller.listener.names" not in properties:
        raise CommandError(f"controller.listener.names was not found. {_CONFIGURATION}")
    listeners = []
    for given in properties["controller.listener.names"].split(","):
        name = given.strip().upper()
        if name not in endpoints:
            text = f"Cannot find information about controller listener name: {name}"
            raise CommandError(text)
        listeners.append(endpoints[name])
    return listeners


def _remove(client: Client, options: argparse.Namespace, properties: dict[str, str]) -> None:
    from protocol.apis.remove_raft_voter import RemoveRaftVoterRequest

    if options.unregister:
        raise CommandError(f"{_NAME}: --unregister: remove the controller without it")
    node_id, text = options.controller_id, options.controller_directory_id
    if node_id < 0:
        raise CommandError(f"Invalid negative --controller-id: {node_id}")
    directory_id = _parsed(text)
    if not options.dry_run:
        request = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
        )
        _ask(client, "removeRaftVoter", request)
    done = "DRY RUN of removing" if options.dry_run else "Removed"
    print(f"{done} KRaft controller {node_id} with directory id {uuid_text(directory_id)}")


def _parsed(text: str) -> bytes:
    """Return the id of a directory. Raises CommandError with the message of Kafka's Uuid."""
    from base64 import urlsafe_b64decode

    if len(text) > _UUID_CHARACTERS:
        start = text[:_UUID_CHARACTERS]
        reason = f"Input string with prefix `{start}` is too long to be decoded as a base64 UUID"
    else:
        decoded = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if len(decoded) == _UUID_BYTES:
            return decoded
        reason = (
            f"Input string `{text}` decoded as {len(decoded)} bytes, which is not equal to the "
            "expected 16 bytes of a base64-encoded UUID"
        )
    raise CommandError(f"Failed to parse --controller-directory-id: {reason}")


TOOL = CommandTool(_NAME, parser, commands, run)
