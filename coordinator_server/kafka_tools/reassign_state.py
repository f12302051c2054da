"""The actions of kafka-reassign-partitions that verify, list and cancel reassignments."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_server.client import Client, ClientError
from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.jackson import read_file
from coordinator_server.kafka_tools.java import in_hash_order
from coordinator_server.kafka_tools.options import Options
from coordinator_server.kafka_tools.reassign_start import clear_throttles, start_moves
from coordinator_server.kafka_tools.reassignment_files import Plan, read_plan
from coordinator_server.kafka_tools.reassignments import (
    Directories,
    OngoingReassignment,
    Place,
    Replica,
    TerseError,
    alter_reassignments,
    check_places,
    describe_replicas,
    describe_topics,
    error_lines,
    list_reassignments,
    named,
    plural,
    raise_execution,
)
from protocol.errors import ErrorCode


def verify(client: Client, options: Options) -> None:
    """Print whether a reassignment is complete, and remove its throttles if so.

    Raises ToolError.
    """
    plan = read_plan(read_file(options.value("reassignment-json-file") or ""))
    try:
        running = list_reassignments(client)
        print("\n".join(["Status of partition reassignment:", *_states(client, plan, running)]))
        described = describe_replicas(client, plan.directories)
        lines = [_move_line(replica, described[replica], plan) for replica in sorted(described)]
        print("\n".join(lines))
        is_moving = any(
            directories.current is None or directories.future for directories in described.values()
        )
        if not running and not is_moving and not options.has("preserve-throttles"):
            clear_throttles(client, plan)
    except ClientError as error:
        raise_execution(error)


def _states(client: Client, plan: Plan, running: Mapping[Place, OngoingReassignment]) -> list[str]:
    """Return a status line for each partition of a plan. Raises ClientError, ToolError."""
    topics = {place[0] for place, _ in plan.partitions if place not in running}
    described = describe_topics(client, topics)
    lines: dict[Place, str] = {}
    for place, wanted in plan.partitions:
        topic, index = place
        name = f"{topic}-{index}"
        if place in running:
            lines[place] = f"Reassignment of partition {name} is still in progress."
            continue
        replicas = _replicas_of(described[topic], index)
        lines[place] = (
            f"Reassignment of partition {name} is completed."
            if replicas == wanted
            else f"There is no active reassignment of partition {name}, but replica set is "
            f"{','.join(map(str, replicas))} rather than {','.join(map(str, wanted))}."
        )
    return [lines[place] for place in sorted(lines)]


def _replicas_of(described: list[list[int]] | ClientError, index: int) -> list[int]:
    """Return the replicas of a partition; empty if the partition does not exist.

    Raises ClientError.
    """
    if isinstance(described, ClientError):
        if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        raise described
    count = len(described)
    if index > count:
        return []
    # Kafka's own check above lets a negative index and `index == count` pass.
    if not 0 <= index < count:
        text = f"Index {index} out of bounds for length {count}"
        raise ToolError("java.lang.IndexOutOfBoundsException", text)
    return described[index]


def _move_line(replica: Replica, directories: Directories, plan: Plan) -> str:
    """Return a status line for the move of a replica to a log directory."""
    wanted = plan.directories[replica]
    name = f"{replica.topic}-{replica.partition}"
    if directories.current is None:
        return (
            f"Partition {name} is not found in any live log dir on broker {replica.broker}. There "
            "is likely an offline log directory on the broker."
        )
    if directories.future is None:
        if directories.current == wanted:
            return f"Reassignment of replica {replica} completed successfully."
        return (
            f"Partition {name} on broker {replica.broker} is not being moved from log dir "
            f"{directories.current} to {wanted}."
        )
    if directories.future == wanted:
        return f"Reassignment of replica {replica} is still in progress."
    return (
        f"Partition {name} on broker {replica.broker} is being moved to log dir "
        f"{directories.future} instead of {wanted}."
    )


def cancel(client: Client, options: Options) -> None:
    """Cancel the running part of a reassignment. Raises ToolError, TerseError."""
    text = read_file(options.value("reassignment-json-file") or "")
    timeout_ms = options.integer("timeout") or 0
    plan = read_plan(text)
    try:
        places = in_hash_order({place for place, _ in plan.partitions})
        check_places(places)
        running = [
            place
            for place, directories in list_reassignments(client, places).items()
            if directories.adding or directories.removing
        ]
        if running:
            errors = alter_reassignments(client, dict.fromkeys(running))
            if errors:
                text = f"Error cancelling partition reassignment{plural(errors)} for:\n"
                raise TerseError(text + error_lines(errors))
            print(
                f"Successfully cancelled partition reassignment{plural(running)} for: "
                f"{named(running)}"
            )
        else:
            print("None of the specified partition reassignments are active.")
        moving = {
            replica: directories.current
            for replica, directories in describe_replicas(client, plan.directories).items()
            if directories.current is not None and directories.future is not None
        }
        if moving:
            start_moves(client, moving, timeout_ms)
        else:
            print("None of the specified partition moves are active.", end="")
        if not options.has("preserve-throttles"):
            clear_throttles(client, plan)
    except ClientError as error:
        raise_execution(error)


def list_running(client: Client, options: Options) -> None:
    """Print all running reassignments. Raises ToolError."""
    try:
        running = list_reassignments(client)
    except ClientError as error:
        raise_execution(error)
    if not running:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for topic, index in sorted(running):
        reassignment = running[topic, index]
        line = f"{topic}-{index}: replicas: {','.join(map(str, reassignment.replicas))}."
        for word, brokers in (("adding", reassignment.adding), ("removing", reassignment.removing)):
            if brokers:
                line += f" {word}: {','.join(map(str, brokers))}."
        print(line)
