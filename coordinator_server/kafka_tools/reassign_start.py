"""The actions of kafka-reassign-partitions that propose and start reassignments."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import NoReturn

from coordinator_server.client import Client, ClientError
from coordinator_server.kafka_tools.config_requests import BROKER, TOPIC, alter_configs
from coordinator_server.kafka_tools.frame import EXECUTION, ToolError, raise_wrapped
from coordinator_server.kafka_tools.jackson import read_file
from coordinator_server.kafka_tools.java import (
    in_bucket_order,
    in_hash_order,
    names_in_hash_order,
    numbers_in_hash_order,
)
from coordinator_server.kafka_tools.options import Options
from coordinator_server.kafka_tools.reassignment_files import (
    FAILED,
    REFUSED,
    Plan,
    plan_text,
    read_moves,
    read_topics,
)
from coordinator_server.kafka_tools.reassignments import (
    OngoingReassignment,
    Place,
    Replica,
    TerseError,
    alter_reassignments,
    describe_replicas,
    describe_topics,
    error_lines,
    list_reassignments,
    move_replicas,
    named,
    plural,
    raise_execution,
)
from protocol.errors import ErrorCode
from protocol.hashing import java_hash

_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
_RETRY_S = 0.1
_RUNNING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
_VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
_SOME_RACKS = (
    "Not all brokers have rack information. Add --disable-rack-aware in command line to make "
    "replica assignment without rack information."
)

# --- generate -------------------------------------------------------------------------------------


def generate(client: Client, options: Options) -> None:
    """Print the current replicas of topics and proposed new ones. Raises ToolError."""
    text = read_file(options.value("topics-to-move-json-file") or "")
    topics, brokers = read_topics(text, options.value("broker-list") or "")
    try:
        current = _replicas(client, topics)
        directories = _known_directories(client, current)
        racks = known_racks(client, brokers, is_aware=not options.has("disable-rack-aware"))
    except ClientError as error:
        raise_execution(error)
    proposed = _proposed(current, racks)
    print(f"Current partition replica assignment\n{plan_text(current, directories)}\n")
    print(f"Proposed partition reassignment configuration\n{plan_text(proposed, {})}")


def _proposed(
    current: Mapping[Place, Sequence[int]], racks: Mapping[int, str | None]
) -> dict[Place, list[int]]:
    """Propose new replicas; the replication factor is that of each topic's first partition."""
    by_topic: dict[str, list[Place]] = {}
    for known_place in in_hash_order(current):
        by_topic.setdefault(known_place[0], []).append(known_place)
    random = Random()
    return {
        (topic, index): replicas
        for topic, places in by_topic.items()
        for index, replicas in enumerate(place(racks, len(places), len(current[places[0]]), random))
    }


def known_racks(client: Client, brokers: Iterable[int], *, is_aware: bool) -> dict[int, str | None]:
    """Return the existing brokers among `brokers` with their racks.

    Raises ClientError, ToolError.
    """
    wanted = set(brokers)
    nodes = client.call("listNodes", lambda: client.metadata([])).brokers
    racks = {
        node.node_id: node.rack if is_aware else None for node in nodes if node.node_id in wanted
    }
    if is_aware and 0 < list(racks.values()).count(None) < len(racks):
        raise ToolError(REFUSED, _SOME_RACKS)
    return racks


def _replicas(client: Client, topics: Iterable[str]) -> dict[Place, list[int]]:
    """Return the replicas of all partitions of topics. Raises ClientError, ToolError."""
    described = describe_topics(client, set(topics))
    replicas: dict[Place, list[int]] = {}
    for topic in names_in_hash_order(described):
        outcome = described[topic]
        if isinstance(outcome, ClientError):
            if outcome.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise outcome
            _raise_unknown(f"Topic {topic} not found.")
        replicas |= {(topic, index): brokers for index, brokers in enumerate(outcome)}
    return replicas


def _raise_unknown(message: str) -> NoReturn:
    raise_wrapped(ToolError(_UNKNOWN, message), EXECUTION)


def _known_directories(
    client: Client, partitions: Mapping[Place, Sequence[int]]
) -> dict[Replica, str]:
    """Return the log directories of replicas on running brokers. Raises ClientError."""
    wanted = [
        Replica(broker, topic, index)
        for (topic, index), replicas in partitions.items()
        for broker in replicas
        if broker in client.nodes
    ]
    described = describe_replicas(client, wanted)
    return {
        replica: directories.current
        for replica, directories in described.items()
        if directories.current is not None
    }


# --- execute --------------------------------------------------------------------------------------


def execute(client: Client, options: Options) -> None:
    """Start a reassignment. Raises ToolError, TerseError."""
    text = read_file(options.value("reassignment-json-file") or "")
    throttle = options.integer("throttle") or 0
    move_throttle = options.integer("replica-alter-log-dirs-throttle") or 0
    timeout_ms = options.integer("timeout") or 0
    plan = read_moves(text)
    wanted = dict(plan.partitions)
    try:
        running = list_reassignments(client)
        if running and not options.has("additional"):
            raise TerseError(_RUNNING)
        _check_brokers(client, {broker for brokers in wanted.values() for broker in brokers})
        current = _current(client, plan, wanted)
        known = plan_text(current, _known_directories(client, current))
        print(f"Current partition replica assignment\n\n{known}\n")
        print("Save this to use as the --reassignment-json-file option during rollback")
        if throttle >= 0 or move_throttle >= 0:
            print(_VERIFY_LATER)
        if throttle >= 0:
            throttle_replicas(client, all_moves(running, wanted, current), throttle)
        if move_throttle >= 0:
            set_rates(
                client,
                {directory.broker for directory in plan.directories},
                move_throttle,
                MOVE_RATE,
            )
            print(f"The replica-alter-dir throttle limit was set to {move_throttle} B/s")
    except ClientError as error:
        raise_execution(error)
    may_change = not options.has("disallow-replication-factor-change")
    errors = alter_reassignments(client, wanted, may_change_count=may_change)
    if errors:
        raise TerseError(f"Error reassigning partition(s):\n{error_lines(errors)}")
    print(f"Successfully started partition reassignment{plural(wanted)} for {named(wanted)}")
    if plan.directories:
        start_moves(client, plan.directories, timeout_ms)


def _check_brokers(client: Client, brokers: set[int]) -> None:
    nodes = client.call("listNodes", lambda: client.metadata([])).brokers
    known = {node.node_id for node in nodes}
    for broker in numbers_in_hash_order(brokers):
        if broker not in known:
            raise ToolError(FAILED, f"Unknown broker id {broker}")


def _current(client: Client, plan: Plan, wanted: Mapping[Place, object]) -> dict[Place, list[int]]:
    """Return the replicas of the partitions of a plan. Raises ClientError, ToolError."""
    replicas = _replicas(client, plan.topics)
    missing = in_hash_order(place for place in wanted if place not in replicas)
    if missing:
        listed = ", ".join(f"{topic}-{index}" for topic, index in missing)
        _raise_unknown(f"Unable to find partition: {listed}")
    return {place: replicas[place] for place in wanted}


def start_moves(client: Client, directories: Mapping[Replica, str], timeout_ms: int) -> None:
    """Start moving replicas to log directories; wait for replicas that do not exist yet."""
    pending = dict(directories)
    end_s = time.monotonic() + timeout_ms / 1000
    while True:
        results = move_replicas(client, pending)
        started = []
        for replica in in_bucket_order(results, _replica_hash, is_copy=True):
            error = results[replica]
            if error is None:
                started.append(replica)
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                _raise_failed_move(replica, error)
        for replica in sorted(started):
            print(
                f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} "
            )
        if not pending:
            return
        if time.monotonic() >= end_s:
            late = ",".join(map(str, sorted(pending)))
            raise TerseError(
                f"Timed out before log directory move{plural(pending)} could be started for: {late}"
            )
        time.sleep(_RETRY_S)


def _raise_failed_move(replica: Replica, error: ClientError) -> None:
    try:
        raise_execution(error)
    except ToolError as cause:
        raise ToolError(FAILED, f"Failed to alter dir for {replica}") from cause


def _replica_hash(replica: Replica) -> int:
    topic = 31 + java_hash(replica.topic)
    return 31 * (31 * topic + replica.partition) + replica.broker


class _Rack:
    """The brokers of a rack; each partition starts at the next broker."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self.brokers = sorted(brokers)
        self._random = random
        self._offset = random.randrange(len(brokers))
        self._index = self._partition = 0

    def next(self, partition: int) -> int | None:
        """Return the next broker for a partition; None if all brokers of the rack are used."""
        count = len(self.brokers)
        if self._partition != partition:
            self._partition, self._index = partition, 0
            self._offset = (self._offset + 1) % count
        if self._index >= count:
            return None
        self._index += 1
        return self.brokers[(self._index - 1 + self._offset) % count]

    def shuffle(self) -> None:
        """Shuffle the brokers."""
        self._random.shuffle(self.brokers)


def place(
    racks: Mapping[int, str | None], partitions: int, replicas: int, random: Random
) -> list[list[int]]:
    """Return the replicas of each partition, leader first; `racks` maps brokers to racks.

    Raises ClientError if there are too few brokers.
    """
    if not racks:
        message = "All brokers are currently fenced, or have all their log directories cordoned."
        raise ClientError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if replicas > len(racks):
        message = (
            f"The target replication factor of {replicas} cannot be reached because only "
            f"{len(racks)} broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )
        raise ClientError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    by_rack: dict[str | None, list[int]] = {}
    for broker, rack in racks.items():
        by_rack.setdefault(rack, []).append(broker)
    names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
    ordered = [_Rack(by_rack[name], random) for name in names]
    offset = random.randrange(len(ordered))
    placed: list[list[int]] = []
    turn = 0
    for _ in range(partitions):
        if turn == len(racks) > 1:  # shuffle, so that partitions get different assignments
            random.shuffle(ordered)
            for brokers in ordered:
                brokers.shuffle()
            turn = 0
        placed.append(_place_one(ordered, offset % len(ordered), turn, replicas))
        turn += 1
        offset = offset % len(ordered) + 1
    return placed


def _place_one(racks: list[_Rack], offset: int, turn: int, replicas: int) -> list[int]:
    """Return the replicas of a partition, chosen from the racks in turn."""
    count = len(racks)
    first = offset
    while (leader := racks[first].next(turn)) is None:
        first = (first + 1) % count
    brokers = [leader]
    index, used = offset, first
    while len(brokers) < replicas:
        if index == used:
            used = -1  # skip the leader's rack once, because this rack already has a replica
        else:
            broker = racks[index].next(turn)
            if broker is not None:
                brokers.append(broker)
        index = (index + 1) % count
    return brokers


_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADERS = "leader.replication.throttled.replicas"
_FOLLOWERS = "follower.replication.throttled.replicas"

Moves = dict[Place, tuple[set[int], set[int]]]
"""For each partition, the brokers to read from and the brokers to write to."""


def all_moves(
    running: Mapping[Place, OngoingReassignment],
    wanted: Mapping[Place, Sequence[int]],
    current: Mapping[Place, Sequence[int]],
) -> Moves:
    """Return the moves of the running reassignments and of the wanted reassignments."""
    moves = {
        place: (set(reassignment.replicas) - set(reassignment.adding), set(reassignment.adding))
        for place, reassignment in running.items()
    }
    for place, replicas in wanted.items():
        sources = moves[place][0] if place in moves else set(current[place])
        moves[place] = sources, set(replicas) - sources
    return moves


def throttle_replicas(client: Client, moves: Moves, rate: int) -> None:
    """Throttle the replicas that move. Raises ClientError."""
    sides: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, index), brokers_of_sides in moves.items():
        listed = sides.setdefault(topic, ([], []))
        for side, brokers in zip(listed, brokers_of_sides, strict=True):
            side += [f"{index}:{broker}" for broker in brokers]
    topics = {
        topic: [(_LEADERS, ",".join(sorted(leaders))), (_FOLLOWERS, ",".join(sorted(followers)))]
        for topic, (leaders, followers) in sides.items()
    }
    alter_configs(client, TOPIC, topics)
    moving = {broker for move in moves.values() for brokers in move for broker in brokers}
    set_rates(client, moving, rate, *_RATES)
    print(f"The inter-broker throttle limit was set to {rate} B/s")


def set_rates(client: Client, brokers: Iterable[int], rate: int | None, *names: str) -> None:
    """Set throttle rates of brokers; None removes the limit. Raises ClientError."""
    value = None if rate is None else str(rate)
    changes = [(name, value) for name in names]
    alter_configs(
        client, BROKER, {str(broker): changes for broker in numbers_in_hash_order(brokers)}
    )


def clear_throttles(client: Client, plan: Plan) -> None:
    """Remove the throttles of all brokers and of the topics of a plan. Raises ClientError."""
    nodes = client.call("listNodes", lambda: client.metadata([])).brokers
    brokers = {node.node_id for node in nodes}
    brokers.update(broker for _, replicas in plan.partitions for broker in replicas)
    named = ",".join(map(str, numbers_in_hash_order(brokers)))
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {named}")
    set_rates(client, brokers, None, *_RATES, MOVE_RATE)
    topics = plan.topics
    print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    changes = [(_LEADERS, None), (_FOLLOWERS, None)]
    alter_configs(client, TOPIC, dict.fromkeys(topics, changes))
